"""The page of masks without a browser: addresses, rules and texts; its figures are tested as values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from model.capture.interventions import intervening, read_changes
from tests.app_reading import body, component, heads, opened, sent, typed
from tests.test_app_kinds import write
from tests.viz.components.test_registry import unpack

TEXT = "The cat sees the dog."
HIDE = "decoder.*.*:hide:2,0;cross.1.1:hide:1,*"


def masks(**address: str) -> AppTest:
    return opened("masks", **address)


def panels(app: AppTest, file: str) -> tuple[dict[str, Any], list[np.ndarray], list[np.ndarray]]:
    """Of the panels that would be saved as `file`…: header, values and flags."""
    sent = [e.proto for e in app.get("bidi_component") if e.proto.component_name == "vitrine_panels"]
    unpacked = [unpack(body(proto.bytes)) for proto in sent]
    ((header, arrays),) = [each for each in unpacked if each[0]["file"].startswith(file)]
    return header, arrays[::2], arrays[1::2]


def test_changes_in_the_address_are_made_and_named_in_the_frame(small):
    app = masks(source=TEXT, layer="1", head="1", changes=HIDE, masked="cross")
    assert not app.exception
    assert len(panels(app, "masked-cross")[1]) == 8
    assert "Nothing to look at" in app.warning[0].value
    text = component(app, "token_bar")["changed"]["text"]
    assert text == "Decoder: 亅 (query 3) ↛ <s> · Cross: Layer 2, head 2, 东 ↛ every key"
    assert component(masks(source=TEXT), "token_bar")["changed"]["text"] == ""


def test_a_leak_is_a_red_badge_that_says_where(small):
    app = masks(source=TEXT, changes="decoder:causal:off")
    (badge,) = [badge for badge in component(app, "token_bar")["badges"] if not badge["passed"]]
    largest = app.session_state["session"].trace.attention("decoder").triu(1)
    layer = int(largest.amax(dim=(1, 2, 3)).argmax())
    where = f"decoder layer {layer + 1}, self-attention: attention weights"
    assert badge["text"] == f"no weight on the future · {float(largest.max()):.3g} · {where}"
    assert badge["tensor"] == f"decoder.layers.{layer}.self_attention.weights"


def test_other_pages_show_the_changed_model_and_compute_nothing_for_it(small, monkeypatch):
    app, passes = masks(source=TEXT, changes=HIDE, masked="cross"), []
    for name in ("encode", "decode", "forward"):
        monkeypatch.setattr(type(small.network), name, lambda *_, name=name: passes.append(name))
    app.switch_page("viz/pages/attention/page.py").run()
    assert not app.exception
    assert not passes
    _, weights, _ = heads(app)
    assert weights[1, 1, 1].max() == 0
    assert weights[1, 0, 1].max() > 0
    assert app.query_params["changes"] == HIDE


def test_translate_lets_the_changed_model_write(small):
    change = "encoder:causal:on;cross.*.*:hide:0,*"
    app = masks(source=TEXT, changes=change, masked="cross")
    plain = sent(app, "target")[0]["placeholder"]
    next(button for button in app.button if button.label == "Translate").click().run()
    with intervening(small.network, read_changes(change)):
        expected = small.generate(TEXT).text
    assert typed(app, "target") == expected != plain == small.generate(TEXT).text


def test_an_address_that_is_no_change_is_told_in_the_frame(small):
    app = masks(changes="<script>")
    assert not app.exception
    assert "'<script>' is no change: write" in component(app, "token_bar")["changed"]["refused"]


@pytest.mark.parametrize(("kind", "experiment"), [("decoder-only", "batch"), ("encoder-only", "future")])
def test_models_of_one_stack(here, kind, experiment):
    write(here / "one", kind)
    app = masks(source=TEXT, mask_experiment=experiment, changes=f"{kind.split('-')[0]}:window:2")
    assert not app.exception
    assert not app.error


HOSTILE = ["", "a`$b$ </script><img src=x onerror=alert(1)> 🙂👩🏽‍🚀", "x " * 5000]


@pytest.mark.parametrize(("text", "experiment"), list(zip(HOSTILE, ["future", "future", "batch"], strict=True)))
def test_any_text_is_shown(small, text, experiment):
    app = masks(
        source=text, mask_experiment=experiment, changes="encoder.*.*:hide:0,*;decoder:causal:off", masked="encoder"
    )
    assert not app.exception
    header, _, _ = panels(app, "mask-encoder")
    assert header["panels"][0]["rows"]["labels"] == small.source_tokens(text).labels


def test_switching_rules_changes_the_model_and_switching_them_back_restores_it(small):
    app = masks(source=TEXT, more="open")
    app.button_group(key="mask_rules_decoder").set_value(["padding"]).run()
    assert app.query_params["changes"] == "decoder:causal:off"
    assert panels(app, "mask-decoder")[2][0].min() & 1
    app.number_input(key="mask_window_decoder").set_value(2).run()
    assert app.query_params["changes"] == "decoder:causal:off;decoder:window:2"
    visible = small.trace(TEXT)["decoder.layers.0.self_attention.visible"].numpy()
    near = np.abs(np.subtract.outer(range(len(visible)), range(len(visible)))) < 2
    assert np.array_equal(panels(app, "mask-decoder")[2][0] & 1, near)
    app.button(key="more_masks").click().run()  # what is hidden stays as it is
    app.button_group(key="mask_rules_decoder").set_value(["causal", "padding"]).run()
    assert app.query_params["changes"] == "decoder:window:2"
    assert app.button(key="more_masks").label == "More · 1 changed"
    app.button(key="more_masks").click().run()
    app.number_input(key="mask_window_decoder").set_value(0).run()
    assert not app.exception
    assert "changes" not in app.query_params
    assert np.array_equal(panels(app, "mask-decoder")[2][0], visible)


def test_the_changed_future_is_one_that_an_opened_cell_looks_at(small):
    """Else it would report that there is no leak."""
    app = masks(source=TEXT, mask_experiment="future", changes="decoder.0.1:show:1,3")
    assert sent(app, "future")[0]["chosen"] == 3
    app = masks(source=TEXT, mask_experiment="future", changes="decoder.0.1:show:1,3", future="4")
    assert any("No opened cell looks at token 5" in each.value for each in app.markdown)


@pytest.mark.parametrize(("chosen", "changed"), [({}, 2), ({"query": "3"}, 3), ({"query": "0"}, 1)])
def test_a_changed_future_begins_at_the_chosen_token_and_never_at_one_without_a_past(small, chosen, changed):
    app = masks(source=TEXT, target="一七丞世", mask_experiment="future", **chosen)
    assert sent(app, "future")[0]["chosen"] == changed
