"""The page of masks: what it sends to the browser is what the changed model computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from streamlit.testing.v1 import AppTest

import viz.state.checkpoints
from model.capture.interventions import intervening, read_changes
from model.capture.trace import record
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.text.tokenizer import MASK
from tests.app_reading import body, component, heads, opened, sent, type_in, typed
from tests.model.examples import one_stack
from tests.model.network.test_kinds import TOKENIZERS
from tests.test_app_kinds import write
from tests.viz.components.test_registry import unpack
from viz.i18n.format import token_code

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


def changed(model, text: str, changes: str):
    """The model's own trace with these changes, on what it writes without them."""
    plain = model.trace(text)
    tokens = [model.source_tokens(text)]
    if model.kind == "encoder-decoder":
        ids = [token for token in model.generate(text).ids if token != model.target_tokenizer.end]
        tokens.append(model.target_tokenizer.tokens([model.target_tokenizer.start, *ids]))
    with torch.inference_mode(), intervening(model.network, read_changes(changes)), record(model.network) as trace:
        model.network(*(torch.tensor([each.ids]) for each in tokens))
    return plain, trace


def test_the_mask_and_what_it_does_are_the_models(small):
    app = masks(source=TEXT, layer="1", head="1")
    assert not app.exception
    trace = small.trace(TEXT)
    path = "decoder.layers.1.self_attention"
    header, _, (flags,) = panels(app, "mask-decoder")
    n = len(trace.target_tokens)
    assert header["panels"][0]["note"] == f"= [1, 1, {n}, {n}]"
    assert np.array_equal(flags, np.tril(np.ones((n, n))))
    header, values, flags = panels(app, "masked-decoder")
    assert [panel["columns"]["labels"] for panel in header["panels"][:3]] == [trace.target_tokens] * 3
    for name, value in zip(("scaled", "masked", "weights", "heads"), values, strict=True):
        assert np.allclose(value, trace[f"{path}.{name}"][1], atol=1e-6), name
    assert flags[0].all()
    assert np.array_equal(flags[1], np.tril(np.ones((n, n))))
    assert component(app, "token_bar")["changed"]["text"] == ""


def test_changes_in_the_address_are_made_shown_and_measured(small):
    app = masks(source=TEXT, layer="1", head="1", changes=HIDE, masked="cross")
    assert not app.exception
    plain, trace = changed(small, TEXT, HIDE)
    path = "decoder.layers.1.cross_attention"
    header, values, flags = panels(app, "masked-cross")
    assert len(values) == 8
    names = ("scaled", "masked", "weights", "heads")
    for before, now, name in zip(values[:4], values[4:], names, strict=True):
        assert np.allclose(before, plain[f"{path}.{name}"][1], atol=1e-6)
        assert np.allclose(now, trace[f"{path}.{name}"][1], atol=1e-6)
    assert (flags[6][1] == 2).all()  # hidden, and changed
    header, (encoder, decoder, cross), _ = panels(app, "masks-heads")
    assert [panel["name"] for panel in header["panels"]] == ["Encoder", "Decoder", "Cross"]
    assert (encoder == 0).all()
    for kind, shown in (("decoder", decoder), ("cross", cross)):
        moved = (trace.attention(kind) - plain.attention(kind)).abs().sum(-1).mean(-1) / 2
        assert np.allclose(shown, moved, atol=1e-6)
        assert shown.max() > 1e-3
    was, now = (each["output.logits"].log_softmax(-1) for each in (plain, trace))
    moved = (was.exp() * (was - now)).sum(-1)
    _header, (_places, divergence) = sent(app, "mask_predictions")
    assert np.allclose(divergence, moved, atol=1e-6)
    header, (_places, before, _again, after) = sent(app, "mask_tops")
    place = int(moved.argmax())
    assert float(moved.max()) > 1e-4
    for log_probabilities, shown in ((was, before), (now, after)):
        assert np.allclose(np.sort(shown)[::-1][:5], log_probabilities[place].exp().topk(5).values, atol=1e-6)
    (alarm,) = [warning.value for warning in app.warning]
    assert "Nothing to look at" in alarm
    assert token_code(plain.target_tokens[1]) in alarm
    assert "largest weight 0, largest output of the head 0, NaN 0" in alarm
    text = component(app, "token_bar")["changed"]["text"]
    assert text == "Decoder: all heads, query 3 ↛ key 1 · Cross: Layer 2, head 2, query 2 ↛ every key"


def test_a_leak_is_an_alarm_and_a_red_badge_that_says_where(small):
    app = masks(source=TEXT, changes="decoder:causal:off", layer="0", head="1")
    trace = changed(small, TEXT, "decoder:causal:off")[1]
    weights = trace["decoder.layers.0.self_attention.weights"][1].triu(1)
    assert sent(app, "mask")[0]["sentence"] == "target looks at all of the target"
    (alarm,) = [warning.value for warning in app.warning]
    assert f"gives {float(weights.max()):.3g} to" in alarm
    assert "(layer 1, head 2)" in alarm
    (badge,) = [badge for badge in component(app, "token_bar")["badges"] if not badge["passed"]]
    largest = trace.attention("decoder").triu(1)
    layer = int(largest.amax(dim=(1, 2, 3)).argmax())
    assert (
        badge["text"]
        == f"no weight on the future · {float(largest.max()):.3g} · decoder.layers.{layer}.self_attention.weights"
    )


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


def test_the_experiments_measure_on_this_input(small):
    app = masks(source=TEXT, mask_experiment="future")
    (said,) = [each.value for each in app.markdown if "becomes" in each.value]
    assert "with the causal mask 0 ·" in said
    assert float(said.rstrip(".").rpartition(" ")[2]) > 1e-3

    def table(experiment: str) -> pd.DataFrame:
        app.session_state["mask_experiment"] = experiment
        app.run()
        return app.table[0].value if experiment == "order" else app.dataframe[0].value

    found = table("batch")
    assert len(found) == 3
    assert found["|Δlogit|, padding masked"].max() < 1e-4
    assert (found["|Δlogit|, padding seen"][1:] > 1e-3).all()
    found = table("order").set_index("")
    right, wrong, zeroed = (found[name] for name in ("mask, then softmax", "softmax, then −∞", "softmax, then 0"))
    assert right.tolist() == ["1", "1", "0", "0", "0"]
    assert wrong["smallest row sum"] == "−∞"
    assert int(wrong["∞ in the output"]) + int(wrong["NaN in the output"]) > 0
    assert 0 < float(zeroed["smallest row sum"]) < 1
    found = table("numbers").set_index(["type", "instead of −∞"]).loc[("float16", "−1e9")]
    assert found["stored as":"masked_fill"].tolist() == ["−∞", "refused: overflow"]
    assert found["a row with nothing to look at"] == "NaN"


@pytest.mark.parametrize(("kind", "experiment"), [("decoder-only", "batch"), ("encoder-only", "future")])
def test_models_of_one_stack(tmp_path, monkeypatch, kind, experiment):
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    made, text = TOKENIZERS[kind], f"The cat {MASK} the dog"
    options = {"position": "alibi", "n_key_value_heads": 1, "window": 3} if kind == "decoder-only" else {"norm": "rms"}
    network = one_stack(kind, vocabulary=len(made), norm_placement="pre", **options)
    save_checkpoint(tmp_path / "one", network, (made, made), {"example": text})
    stack = kind.split("-")[0]
    change = f"{stack}.0.1:hide:0,*;{stack}:window:2;cross:padding:off"
    app = masks(mask_experiment=experiment, changes=change, layer="0", head="1")
    assert not app.exception
    assert not app.error
    _, trace = changed(open_checkpoint(tmp_path / "one"), text, change)
    _, values, _ = panels(app, f"masked-{stack}")
    path = f"{stack}.layers.0.self_attention"
    assert np.allclose(values[6], trace[f"{path}.weights"][1], atol=1e-6)
    assert np.allclose(values[4], trace[f"{path}.{trace.maps_of(path)[-3]}"][1], atol=1e-5)
    assert "Cross" not in component(app, "token_bar")["changed"]["text"]


HOSTILE = ["", "a`$b$ </script><img src=x onerror=alert(1)> 🙂👩🏽‍🚀", "x " * 5000]


@pytest.mark.parametrize(("text", "experiment"), list(zip(HOSTILE, ["future", "future", "batch"], strict=True)))
def test_any_text_is_shown(small, text, experiment):
    app = masks(
        source=text, mask_experiment=experiment, changes="encoder.*.*:hide:0,*;decoder:causal:off", masked="encoder"
    )
    assert not app.exception
    header, _, _ = panels(app, "mask-encoder")
    assert header["panels"][0]["rows"]["labels"] == small.source_tokens(text).labels


def test_the_pinned_trace_is_the_reference_of_differences(small, tmp_path):
    app = opened(source=TEXT, layer="0", head="0")
    session = app.session_state["session"]
    session.keep()
    session.differing = True
    app = app.switch_page("viz/pages/masks/page.py")
    type_in(app, "source", "The cat sees the bird.")
    assert not app.exception
    header, values, _ = panels(app, "masked-decoder")
    path = "decoder.layers.0.self_attention.weights"
    expected = session.comparison.difference(path)[0]
    assert header["panels"][2]["scale"]["difference"]
    assert np.allclose(values[2], expected, atol=1e-6, equal_nan=True)
    session.pin = replace(session.pin, trace=write(tmp_path / "other", "encoder-only").trace(TEXT))
    header, values, _ = panels(app.run(), "masked-decoder")
    titles = [panel["name"] for panel in header["panels"]]
    assert titles[2] == "softmax: none pinned"
    assert max(map(len, titles)) <= 26  # longer ones run into each other
    assert np.isnan(values[2]).all()


def test_switching_rules_changes_the_model_and_switching_them_back_restores_it(small):
    app = masks(source=TEXT)
    app.button_group(key="mask_rules_decoder").set_value(["padding"]).run()
    assert app.query_params["changes"] == "decoder:causal:off"
    assert panels(app, "mask-decoder")[2][0].min() & 1
    app.number_input(key="mask_window_decoder").set_value(2).run()
    assert app.query_params["changes"] == "decoder:causal:off;decoder:window:2"
    visible = small.trace(TEXT)["decoder.layers.0.self_attention.visible"].numpy()
    near = np.abs(np.subtract.outer(range(len(visible)), range(len(visible)))) < 2
    assert np.array_equal(panels(app, "mask-decoder")[2][0] & 1, near)
    app.number_input(key="mask_window_decoder").set_value(0).run()
    app.button_group(key="mask_rules_decoder").set_value(["causal", "padding"]).run()
    assert not app.exception
    assert "changes" not in app.query_params
    assert np.array_equal(panels(app, "mask-decoder")[2][0], visible)


def test_the_changed_future_is_one_that_an_opened_cell_looks_at(small):
    """Else it would report that there is no leak."""
    opened_cell = "decoder.0.1:show:1,3"
    app = masks(source=TEXT, mask_experiment="future", changes=opened_cell)
    header, arrays = sent(app, "future")
    assert header["chosen"] == 3
    moved = arrays[-1]  # as changed above
    assert moved[1] > 0
    assert moved[0] == 0  # which sees none that sees it
    app = masks(source=TEXT, mask_experiment="future", changes=opened_cell, future="4")
    assert any("No opened cell looks at token 5" in each.value for each in app.markdown)
