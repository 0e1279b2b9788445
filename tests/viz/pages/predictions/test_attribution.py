"""What adds to the logits, on the page of the logit lens: of the chosen position and layer, beside the pin's."""

from __future__ import annotations

import numpy as np
import pytest

from model.analysis.logit_attribution import block_attribution, head_attribution
from tests.app_reading import opened, sent, sound, type_in
from tests.test_app_kinds import write
from viz.ui.prediction import visible

SOURCE, TARGET = "The cat sees the dog.", "一七丞世"


def page(**address):
    return sound(opened("predictions", view="layers", **({"source": SOURCE, "target": TARGET} | address)))


def turned(app, **choices):
    for name, value in choices.items():
        app.session_state[name] = value
    return sound(app.run())


def check(app, expected, label):
    """The tables are the largest and the smallest logits of each part, and their tokens."""
    for key, sign in (("attribution_raised", 1), ("attribution_lowered", -1)):
        header, (values, seen) = sent(app, key)
        order = (sign * expected).argsort(dim=-1, descending=True)[:, :5]
        assert np.allclose(values, expected.gather(-1, order), atol=1e-5)
        assert seen.all()
        assert header["texts"] == [visible(label(token)) for row in order.tolist() for token in row]
        assert header["valued"]
    return header


def test_blocks_raise_and_lower_tokens_at_the_chosen_position(small):
    app = page(query="2", layer="1")
    found = block_attribution(small.trace(SOURCE, TARGET), 2)
    header = check(app, found.logits, small.target_tokenizer.label)
    blocks = [f"{layer} {name}" for layer in (1, 2) for name in ("self-att.", "cross", "FFN")]
    assert header["rows"]["labels"] == ["embedding", *blocks, "biases", "sum"]
    assert header["rows"]["labels"][header["chosen"]] == "2 self-att."
    assert "sum of all parts: largest error" in sent(app, "attribution_raised")[0]["note"]
    assert app.selectbox(key="attribution_position").value == 2
    app.selectbox(key="attribution_position").set_value(0).run()
    check(sound(app), block_attribution(small.trace(SOURCE, TARGET), 0).logits, small.target_tokenizer.label)
    assert app.session_state["session"].selection.query == 0


def test_heads_of_the_chosen_layer(small):
    app = page(query="1", layer="0", head="1", attributed="heads")
    header = check(app, head_attribution(small.trace(SOURCE, TARGET), 1, 0).logits, small.target_tokenizer.label)
    names = ["Decoder 1.1", "Decoder 1.2", "Decoder bias", "Cross 1.1", "Cross 1.2", "Cross bias", "all heads"]
    assert header["rows"]["labels"] == names
    assert header["chosen"] == 1
    app.selectbox(key="attribution_layer").set_value(1).run()
    check(sound(app), head_attribution(small.trace(SOURCE, TARGET), 1, 1).logits, small.target_tokenizer.label)
    assert app.session_state["session"].selection.layer == 1


def test_differences_from_the_pin_are_shown_where_they_are_wanted(small):
    app = page(query="1")
    session = app.session_state["session"]
    session.keep()
    type_in(app, "source", "The dog hears the cat.")
    session.differing = True
    header, (values, _visible) = sent(sound(app.run()), "attribution_raised")
    assert header["scale"]["difference"]
    now, before = small.trace("The dog hears the cat.", TARGET), session.pin.trace
    expected = block_attribution(now, 1).logits - block_attribution(before, 1).logits
    assert np.allclose(values, expected.topk(5, dim=-1).values, atol=1e-5)
    turned(app, attributed="heads")
    assert sent(app, "attribution_lowered")[0]["scale"]["difference"]


def test_a_token_that_is_not_in_the_pinned_text_is_said_to_be_none(small):
    app = page(query="1")
    session = app.session_state["session"]
    session.keep()
    type_in(app, "target", "一七丞世世世")
    session.differing = True
    session.select(query=session.comparison.target.places.index(-1))
    header, _arrays = sent(sound(app.run()), "attribution_raised")
    assert not header["scale"]["difference"]
    assert any("no such parts at this token" in each.value for each in app.caption)
    assert "not in the pinned text" in header["sentence"]


@pytest.mark.parametrize("kind", ["decoder-only", "encoder-only"])
def test_models_of_one_stack(here, kind):
    model = write(here / "one", kind)
    app = page(source="The cat sees", target="", attributed="heads", layer="0", query="1")
    check(app, head_attribution(model.trace("The cat sees"), 1, 0).logits, model.target_tokenizer.label)
    assert sent(app, "attribution_raised")[0]["rows"]["labels"] == ["1.1", "1.2", "bias", "all heads"]


def test_an_output_that_is_not_linear_is_said_to_be_no_sum(here):
    write(here / "one", "encoder-only", output_head="transform")
    app = page(source="The cat sees", target="")
    assert any("passes an activation" in each.value for each in app.info)
    assert not [each for each in app.get("bidi_component") if "attribution_raised" in each.proto.id]
