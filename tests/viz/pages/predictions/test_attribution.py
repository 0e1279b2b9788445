"""What adds to the logits: of the chosen position and layer, beside the pin's."""

from __future__ import annotations

import numpy as np
import pytest

from model.analysis.logit_attribution import block_attribution, head_attribution
from tests.app_reading import opened, sound, type_in
from tests.test_app_kinds import write
from tests.viz.small import looking
from viz.pages.predictions.attribution import found_of, tokens_map
from viz.ui.prediction import Subject, visible

SOURCE, TARGET = "The cat sees the dog.", "一七丞世"


def attributed(model, of="blocks", source=SOURCE, target=TARGET, pinned=None, **selection):
    """Predictions of these texts, where differences from a pin are wanted, and the parts of their logits."""
    session = looking(model, source, target, pinned, **selection)
    subject = Subject(session.inputs, differing=True)
    return subject, found_of(session, subject, of)


def check(subject, found, of, expected):
    """The maps are the largest and the smallest logits of each part, and their tokens."""
    for lowered, sign in ((True, -1), (False, 1)):
        figure = tokens_map(subject, found, of, lowered)
        order = (sign * expected).argsort(dim=-1, descending=True)[:, :5]
        assert np.allclose(figure.values, expected.gather(-1, order), atol=1e-5)
        assert figure.texts == [visible(subject.label(token)) for row in order.tolist() for token in row]
        assert figure.valued
    return figure


def test_blocks_raise_and_lower_tokens_at_the_chosen_position(small):
    subject, found = attributed(small, query=2, layer=1)
    figure = check(subject, found, "blocks", block_attribution(small.trace(SOURCE, TARGET), 2).logits)
    blocks = [f"{layer} {name}" for layer in (1, 2) for name in ("self-att.", "cross", "FFN")]
    assert figure.rows.labels == ["embedding", *blocks, "biases", "sum"]
    assert figure.rows.labels[figure.chosen] == "2 self-att."
    assert "sum of all parts: largest error" in figure.caption.note


def test_heads_of_the_chosen_layer(small):
    subject, found = attributed(small, "heads", query=1, layer=0, head=1)
    figure = check(subject, found, "heads", head_attribution(small.trace(SOURCE, TARGET), 1, 0).logits)
    names = ["Decoder 1.1", "Decoder 1.2", "Decoder bias", "Cross 1.1", "Cross 1.2", "Cross bias", "all heads"]
    assert figure.rows.labels == names
    assert figure.chosen == 1


def test_lists_choose_position_and_layer(small):
    address = {"query": "2", "layer": "0", "attributed": "heads"}
    app = sound(opened("predictions", view="layers", source=SOURCE, target=TARGET, **address))
    assert app.selectbox(key="attribution_position").value == 2
    app.selectbox(key="attribution_position").set_value(0).run()
    app.selectbox(key="attribution_layer").set_value(1).run()
    selection = sound(app).session_state["session"].selection
    assert (selection.query, selection.layer) == (0, 1)


@pytest.mark.parametrize(("of", "attribution"), [("blocks", block_attribution), ("heads", head_attribution)])
def test_differences_from_the_pin_are_shown_where_they_are_wanted(small, of, attribution):
    other, where = "The dog hears the cat.", (1, 0)[: 1 + (of == "heads")]
    subject, found = attributed(small, of, other, pinned=(small, SOURCE, TARGET), query=1)
    now, before = (attribution(small.trace(source, TARGET), *where).logits for source in (other, SOURCE))
    figure = tokens_map(subject, found, of, lowered=False)
    assert figure.scale.difference
    assert np.allclose(figure.values, (now - before).topk(5, dim=-1).values, atol=1e-5)


def test_a_token_that_is_not_in_the_pinned_text_is_said_to_be_none(small):
    app = sound(opened("predictions", view="layers", source=SOURCE, target=TARGET, query="1"))
    session = app.session_state["session"]
    session.keep()
    type_in(app, "target", "一七丞世世世")
    session.differing = True
    session.select(query=session.comparison.target.places.index(-1))
    assert any("no such parts at this token" in each.value for each in sound(app.run()).caption)
    subject = Subject(session.inputs, differing=True)
    figure = tokens_map(subject, found_of(session, subject, "blocks"), "blocks", lowered=False)
    assert not figure.scale.difference
    assert "not in the pinned text" in figure.caption.sentence


@pytest.mark.parametrize("kind", ["decoder-only", "encoder-only"])
def test_models_of_one_stack(tmp_path, kind):
    model = write(tmp_path / "one", kind)
    subject, found = attributed(model, "heads", "The cat sees", "", query=1)
    figure = check(subject, found, "heads", head_attribution(model.trace("The cat sees"), 1, 0).logits)
    assert figure.rows.labels == ["1.1", "1.2", "bias", "all heads"]


def test_an_output_that_is_not_linear_is_said_to_be_no_sum(tmp_path):
    model = write(tmp_path / "one", "encoder-only", output_head="transform")
    _subject, found = attributed(model, source="The cat sees", target="")
    assert found.own is None
    assert "passes an activation" in found.sentence
