"""The application on models of others: some predict nothing, some read ids, some could read a book."""

from __future__ import annotations

import json

import pytest
import torch

from tests.app_reading import component, labels, opened, sound, type_in
from tests.model.checkpoints.convert.layout_references import GPT, random_weights
from tests.test_app_kinds import here, write
from viz.frame.app import PAGES
from viz.i18n.format import no_predictions

__all__ = ["here"]


def said(app) -> str:
    texts = [*app.info, *app.caption, *app.text, *app.markdown]
    return "\n".join(str(each.value) for each in texts)


def test_every_page_of_a_bare_encoder_says_what_does_not_exist(here):
    write(here / "bare", "encoder-only", output_head="none", tied_embeddings="none")
    app = sound(opened())
    session = app.session_state["session"]
    session.keep()
    sound(type_in(app, "source", "The dog sees the cat."))
    for name, page in PAGES.items():
        session.differing = False
        sound(app.switch_page(page).run())
        session.differing = True
        sound(app.run())
        bar = component(app, "token_bar")
        assert bar["guesses"] == []
        assert all(badge["passed"] for badge in bar["badges"])
        assert [button.disabled for button in app.button if button.label == "Fill in"] == [True]
        if name == "predictions":
            assert no_predictions() in said(app)
        if name == "map":
            header, _arrays = component(app, "model_map")
            assert header["predictions"]["labels"] == []
            assert no_predictions() in header["alt"]


def test_changed_masks_of_a_bare_encoder_move_weights_and_no_predictions(here):
    write(here / "bare", "encoder-only", output_head="none", tied_embeddings="none")
    app = sound(opened("masks", what_if="", more="open"))
    (window,) = app.number_input
    sound(window.set_value(2).run())
    assert no_predictions() in said(app)


@pytest.mark.parametrize("name", ["positions", "masks", "training"])
def test_a_model_that_could_read_a_book_has_pages_that_work(here, name):
    write(here / "long", "decoder-only", position="rotary", max_length=131_072)
    app = sound(opened()).switch_page(PAGES[name]).run()
    sound(app)
    assert labels(app, "source")[0] == "<s>"


def test_a_model_without_a_tokenizer_reads_ids_and_says_so(here):
    folder = here / "ids"
    folder.mkdir()
    torch.save(random_weights(GPT()).state_dict(), folder / "model.pt")
    (folder / "config.json").write_text(json.dumps({"model": {"n_head": 3}}))
    app = sound(opened())
    assert labels(app, "source") == [str(token) for token in range(8)]
    assert "such as 12 5 7: there is no tokenizer.json beside the weights" in said(app)
    type_in(app, "source", "3 1 x")
    assert not app.exception
    assert [error.value for error in app.error] == [
        "'x' is not the id of a token: this model came without a tokenizer, so its text is numbers from 0 to 18, "
        "such as 12 5 7."
    ]
