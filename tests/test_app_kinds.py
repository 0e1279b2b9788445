"""The application on models of one stack: one text, its attention, and what the model makes of it."""

from __future__ import annotations

import numpy as np
import pytest

import viz.state.checkpoints
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.inference.text_model import TextModel
from model.text.tokenizer import MASK
from tests.app_reading import component, heads, labels, model_list, opened, sent, type_in, typed
from tests.model.examples import one_stack
from tests.model.network.test_kinds import TOKENIZERS
from tests.viz.small import write_small
from viz.i18n.format import literal

TEXTS = {"decoder-only": "The cat sees", "encoder-only": f"The {MASK} sees the {MASK}."}
STACKS = {"decoder-only": "decoder", "encoder-only": "encoder"}
KINDS = list(TEXTS)
HOSTILE = ["", "   ", "🙂👩🏽‍🚀", "</script><script>alert(1)</script>", "a\x00b\u202e", "x" * 10_000, MASK * 50]


def write(folder, kind: str, **options) -> TextModel:
    made = TOKENIZERS[kind]
    network = one_stack(kind, vocabulary=len(made), norm_placement="pre", **options)
    save_checkpoint(folder, network, (made, made), {"example": TEXTS[kind]})
    return open_checkpoint(folder)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    return tmp_path


def assert_shows(app, model: TextModel, text: str) -> None:
    assert not app.exception
    assert not app.error
    trace = model.trace(text)
    assert labels(app, "source") == trace.source_tokens
    assert labels(app, "target") == []
    header, weights, _ = heads(app)
    expected = trace.attention(STACKS[model.kind]).numpy()
    assert np.abs(weights - expected).max() < 1e-4
    assert header["labels"] == {"rows": trace.source_tokens, "columns": trace.source_tokens}
    bar = component(app, "token_bar")
    assert all(badge["passed"] for badge in bar["badges"])
    shown = [[choice["token"] for choice in guess["choices"]] for guess in bar["guesses"]]
    assert shown == [[each.token for each in guess.choices] for guess in model.guesses(trace)]
    for guess, probabilities in zip(bar["guesses"], model.guesses(trace), strict=True):
        assert model.kind == "decoder-only" or guess["title"].endswith(f" {probabilities.place + 1}")  # from 1
        expected = trace["output.logits"].softmax(dim=-1)[probabilities.place]
        own = [float(expected[choice["token"]]) for choice in guess["choices"]]
        assert [choice["probability"] for choice in guess["choices"]] == pytest.approx(own, abs=1e-5)


@pytest.mark.parametrize("options", [{}, {"position": "alibi", "n_key_value_heads": 1}])
@pytest.mark.parametrize("kind", KINDS)
def test_the_page_shows_a_model_of_one_stack(here, kind, options):
    model = write(here / "one", kind, **options)
    app = opened()
    assert_shows(app, model, TEXTS[kind])
    assert sent(app, "source")[0]["label"] == "Text"
    assert not [each for each in app.get("bidi_component") if each.proto.id.endswith("-target")]
    header, arrays = component(app, "steps")
    assert len(header["words"]["columns"]) == (7 if options else 6)
    assert len(arrays) == len(header["words"]["columns"])
    steps = [arrays[index] for index in range(len(arrays) - 2)]
    trace = model.trace(TEXTS[kind])
    layer = f"{STACKS[kind]}.layers.1.self_attention"  # the first visit's layer and head, as far as there are so many
    query = trace.source_tokens.index(MASK) if kind == "encoder-only" else 1  # what the model is asked for
    for step, name in zip(steps, trace.maps_of(layer), strict=True):
        assert np.allclose(step, trace[f"{layer}.{name}"][1, query].numpy(), atol=1e-6)
    type_in(app, "source", "The dog.")
    assert_shows(app, model, "The dog.")


def test_continue_lets_a_language_model_go_on(here):
    model = write(here / "one", "decoder-only")
    app = opened(source="The cat")
    (button,) = [each for each in app.button if each.label == "Continue"]
    button.click().run()
    shown = typed(app, "source")
    assert "\n" not in shown  # a field of one line would lose it
    first = shown.replace("⏎", "\n")
    assert first.startswith("The cat")
    assert len(model.source_tokens(first)) > len(model.source_tokens("The cat"))
    assert_shows(app, model, first)
    again = opened(source="The cat")
    again.button[0].click().run()
    assert typed(again, "source") == shown  # the same text goes on in the same way


def test_fill_in_puts_the_most_probable_tokens_in_the_places_of_the_masks(here):
    model = write(here / "one", "encoder-only")
    app = opened()
    assert len(component(app, "token_bar")["guesses"]) == 2
    assert app.button[0].label == "Fill in"
    app.button[0].click().run()
    text = typed(app, "source")
    assert MASK not in text
    best = [guess.choices[0] for guess in model.guesses(model.trace(TEXTS["encoder-only"]))]
    assert best[0].label.removeprefix("▁") in text
    assert_shows(app, model, text)
    app.button[0].click().run()  # no mask is left
    assert typed(app, "source") == text
    assert f"Nothing is masked: write {literal(MASK)} in" in app.toast[0].value


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_breaks_it(here, kind):
    model = write(here / "one", kind)
    app = opened()
    for text in HOSTILE:
        type_in(app, "source", text)
        assert_shows(app, model, text)
        app.button[0].click().run()
        assert not app.exception
        assert not app.error


def test_another_model_brings_its_own_example_but_leaves_the_users_text(here):
    write_small(here / "a")
    model = write(here / "b", "decoder-only")
    app = opened()
    model_list(app).set_value("b").run()
    assert typed(app, "source") == TEXTS["decoder-only"]
    assert_shows(app, model, TEXTS["decoder-only"])
    type_in(app, "source", "The dog")
    model_list(app).set_value("a").run()
    assert typed(app, "source") == "The dog"
    model_list(app).set_value("b").run()
    assert_shows(app, model, "The dog")


def test_a_line_break_is_a_sign_in_the_field_and_a_token_in_the_model(here):
    model = write(here / "one", "decoder-only")
    app = opened(source="The cat.⏎The")
    assert_shows(app, model, "The cat.\nThe")
    assert "\n" in labels(app, "source")
