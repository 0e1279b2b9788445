"""The application without a browser: what it draws, and that no input breaks it. What the browser paints: browser/."""

from __future__ import annotations

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import viz.state.checkpoints
from model.checkpoints.load import open_checkpoint
from tests.app_reading import component, heads, labels, model_list, opened, sent, type_in, typed
from tests.viz.small import LENGTH, write_small
from viz.state.session import DEFAULT_SELECTION, FIRST_SOURCE

SCRIPT, IMAGE, MARKDOWN = "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "**b** $x$ `c` :red[d]"
SPACES, EMOJI, RIGHT_TO_LEFT, CHINESE = "   ", "🙂👩🏽‍🚀🇨🇳", "مرحبا بالعالم שלום", "我是老师。"
TEXTS = ["", SPACES, EMOJI, RIGHT_TO_LEFT, CHINESE, SCRIPT, IMAGE, MARKDOWN, "a\x00b\u202e", "</s><pad>"]


@pytest.fixture
def small(tmp_path, monkeypatch):
    """The only checkpoint is a small one with random weights."""
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    return open_checkpoint(write_small(tmp_path / "small"))


def assert_sound(app: AppTest, model) -> None:
    """Nothing failed, and the thumbnails are the model's own numbers for the tokens shown."""
    assert not app.exception
    assert not app.error
    source, target = labels(app, "source"), labels(app, "target")
    header, weights, visible = heads(app)
    assert header["labels"] == {"rows": target, "columns": source}
    shape = model.config.n_decoder_layers, model.config.n_heads
    assert weights.shape == (*shape, len(target), len(source))
    assert visible.shape == (len(target), len(source))
    assert np.abs(weights.sum(axis=-1) - 1).max() < 1e-3
    assert all(badge["passed"] for badge in component(app, "token_bar")["badges"])


def test_the_first_run_shows_the_bundled_models_heads():
    app, model = opened(), open_checkpoint(viz.state.checkpoints.CHECKPOINTS / "eng-cmn")
    assert_sound(app, model)
    trace = model.trace(FIRST_SOURCE)
    assert labels(app, "source") == trace.source_tokens
    assert labels(app, "target") == trace.target_tokens
    _, weights, _ = heads(app)
    expected = trace.attention("cross").numpy()
    assert np.abs(weights - expected).max() < 1e-4
    assert len(component(app, "token_bar")["badges"]) >= 4
    header, (values, visible) = component(app, "heatmap")
    assert np.array_equal(values, expected[DEFAULT_SELECTION["layer"], DEFAULT_SELECTION["head"]])
    assert visible.all()
    assert (header["rows"]["labels"], header["columns"]["labels"]) == (trace.target_tokens, trace.source_tokens)
    assert (header["scale"]["low"], header["scale"]["high"], header["chosen"]) == (0, 1, DEFAULT_SELECTION["query"])
    assert sent(app, "target")[0]["placeholder"] == model.generate(FIRST_SOURCE).text


def test_typing_changes_what_the_thumbnails_are_sent(small):
    app = opened(source="The cat sees.")
    _, before, _ = heads(app)
    type_in(app, "source", "The cat hears the dog.")
    assert_sound(app, small)
    header, after, _ = heads(app)
    assert after.shape != before.shape
    assert header["labels"]["columns"] == small.source_tokens("The cat hears the dog.").labels
    assert np.abs(after - small.trace("The cat hears the dog.").attention("cross").numpy()).max() < 1e-4


@pytest.mark.parametrize("side", ["source", "target"])
def test_any_text_is_shown_as_it_is(small, side):
    app = opened()
    for text in TEXTS:
        type_in(app, side, text)
        assert_sound(app, small)
        if side == "source" or text:
            expected = small.source_tokens(text) if side == "source" else small.target_tokens(text)
            assert labels(app, side) == expected.labels


@pytest.mark.parametrize("text", [SPACES, SCRIPT, RIGHT_TO_LEFT, "a\x00b\u202e"])
def test_any_text_of_the_address_is_shown_as_it_is(small, text):
    app = opened(source=text, target=text)
    assert_sound(app, small)
    assert labels(app, "source") == small.source_tokens(text).labels
    assert labels(app, "target") == small.target_tokens(text).labels


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_text_that_is_too_long_is_cut_with_a_note(small, side):
    text = ("The cat sees 我 " * 1000)[:10_000]
    app = opened()
    type_in(app, side, text)
    assert_sound(app, small)
    tokenizer = small.source_tokenizer if side == "source" else small.target_tokenizer
    left_out = len(tokenizer.encode(text)) - (LENGTH - 1)
    notes = component(app, "token_bar")["notes"]
    unknown, _dot, cut = notes[side].partition(" · ")
    assert cut == f"{left_out:,} tokens left out: this model reads {LENGTH}"
    assert unknown.endswith(f" of {LENGTH - 1} tokens are unknown to this model")
    assert "left out" not in notes["target" if side == "source" else "source"]
    assert len(labels(app, side)) == LENGTH


def test_a_typed_target_is_used_and_a_cleared_one_is_generated_again(small):
    app = opened(source="The cat sees.")
    written = labels(app, "target")
    assert written == small.trace("The cat sees.").target_tokens
    label = small.target_tokenizer.label(7)
    type_in(app, "target", label * 3)
    assert labels(app, "target") == ["<s>", *label * 3]
    assert_sound(app, small)
    type_in(app, "target", "")
    assert labels(app, "target") == written
    type_in(app, "target", label)
    assert labels(app, "target") == ["<s>", label]
    app.button[0].click().run()
    assert labels(app, "target") == written
    assert typed(app, "target") == ""


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_each_kind_of_attention_is_shown_with_its_mask(small, kind):
    app = opened(attention=kind, source="The cat sees.")
    trace = small.trace("The cat sees.")
    header, weights, visible = heads(app)
    assert np.abs(weights - trace.attention(kind).numpy()).max() < 1e-4
    rows, columns = weights.shape[2:]
    assert np.array_equal(visible, np.tril(np.ones((rows, columns))) if kind == "decoder" else np.ones((rows, columns)))
    sides = {"source": trace.source_tokens, "target": trace.target_tokens}
    assert header["labels"] == {place: sides[side] for place, side in header["sides"].items()}


def test_the_stages_are_those_of_the_chosen_head_and_query(small):
    app = opened(attention="decoder", layer="1", head="1", query="2", source="The cat sees.")
    trace = small.trace("The cat sees.")
    header, arrays = component(app, "steps")
    assert header["chosen"] == 2
    path = "decoder.layers.1.self_attention"
    for name, array in zip(("scores", "scaled", "masked", "weights"), arrays, strict=False):
        assert np.allclose(array, trace[f"{path}.{name}"][1, 2], atol=1e-6)
    assert np.allclose(arrays[5], trace[f"{path}.heads"][1, 2], atol=1e-6)
    assert np.allclose(arrays[4].sum(axis=0), arrays[5], atol=1e-6)
    header, (values, visible) = component(app, "heatmap")
    assert (header["name"], header["chosen"]) == ("Layer 2, head 2", 2)
    assert np.allclose(values, trace[f"{path}.weights"][1], atol=1e-6)
    assert np.array_equal(visible, np.tril(np.ones_like(visible)))


@pytest.mark.parametrize(
    "address",
    [
        {"model": "no such model"},
        {"model": "../small"},
        {"attention": IMAGE, "scale": "[]", "language": "xx"},
        {"layer": "99999", "head": "-1", "query": "1e9"},
    ],
)
def test_a_hostile_address_breaks_nothing(small, address):
    app = opened(**address)
    assert_sound(app, small)


def test_an_unknown_model_in_the_address_is_told(small):
    (warning,) = opened(model="no such model").warning
    assert "small" in warning.value
    assert not opened(model="small").warning


@pytest.mark.parametrize(
    ("name", "content"), [("config.json", '{"d_model": 7}'), ("target_tokenizer.json", None), ("training.json", "{")]
)
def test_a_damaged_checkpoint_is_a_sentence(small, tmp_path, name, content):
    write_small(tmp_path / "whole", seed=1)
    file = tmp_path / "small" / name
    file.unlink() if content is None else file.write_text(content)
    app = opened()
    assert not app.exception
    (error,) = app.error
    assert len(error.value) > 20
    assert "Traceback" not in error.value
    assert model_list(app).value == "whole"  # the application works on
    model_list(app).set_value("small").run()
    assert [each.value for each in app.error] == [error.value.replace("is shown instead", "is shown as before")]
    assert model_list(app).value == "whole"
    write_small(tmp_path / "small")
    model_list(app).set_value("small").run()
    assert_sound(app, open_checkpoint(tmp_path / "small"))


def test_no_checkpoint_at_all_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    app = opened()
    assert not app.exception
    assert app.error


def test_another_model_is_looked_into_when_chosen(small, tmp_path):
    write_small(tmp_path / "wide", seed=3, n_heads=4, n_decoder_layers=1)
    app = opened(source="The cat sees.")
    assert_sound(app, small)
    model_list(app).set_value("wide").run()
    wide = open_checkpoint(tmp_path / "wide")
    assert_sound(app, wide)
    assert labels(app, "target") == wide.trace("The cat sees.").target_tokens
    assert any("2+1" in caption.help and "4" in caption.help for caption in app.caption)  # in full on demand
