"""Page Checkpoints: what is sent to it is this session's, and whatever it is gets a sentence."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch

from tests.app_reading import model_list, sound
from tests.model.checkpoints.test_uploads import zipped
from tests.viz.pages.checkpoints.checkpoints_page import here as here
from tests.viz.pages.checkpoints.checkpoints_page import packed, page, rows, said, tensors, uploaded
from tests.viz.small import write_small
from viz.pages.checkpoints.add import LIMIT
from viz.state import browsers
from viz.state import checkpoints as session


def test_an_upload_is_in_this_session_only(here, monkeypatch):
    session.sessions().patience = 0.0
    folder = write_small(here / "sent", seed=2, n_decoder_layers=1)
    app = sound(uploaded(page(), "sent.zip", packed(folder)))
    assert "sent is in the list" in said(app)
    assert rows(app)["sent"]["removable"]
    assert model_list(app).options[0] == "sent"
    model_list(app).set_value("sent").run()
    assert any("2+1" in f"{caption.value} {caption.help}" for caption in sound(app).caption)
    assert app.session_state["session"].model.name == "sent"
    key = app.query_params["opened"]
    assert "sent" not in rows(page())
    for address in (key, "guessed"):
        link = page(opened=address, checkpoint="sent")  # in another browser, or in a window beside the first
        assert "sent" not in rows(sound(link))
        assert "opened" not in link.query_params
    session.sessions().leave(key)  # its window is closed
    again = sound(page(opened=key, model="sent"))  # as after a reload
    assert rows(again)["sent"]["current"]
    session.sessions().leave(key)
    monkeypatch.setattr(browsers, "browser", lambda: "another")
    assert "sent" not in rows(sound(page(opened=key)))
    monkeypatch.setattr(browsers, "browser", lambda: "")  # takes no cookies
    assert "sent" not in rows(sound(page(opened=key)))


def test_an_upload_has_a_limit_that_the_field_says_and_the_server_keeps():
    (field,) = page().file_uploader
    assert field.proto.max_upload_size_mb == LIMIT
    assert f"at most {LIMIT} MB" in field.label
    config = tomllib.loads((Path(__file__).parents[4] / ".streamlit" / "config.toml").read_text())
    assert config["server"]["maxUploadSize"] == LIMIT


def test_two_of_one_name_are_told_apart(here):
    folder = write_small(here / "small", seed=2)
    app = uploaded(page(), "small.zip", packed(folder))
    assert "small-2 is in the list" in said(sound(app))
    app = uploaded(app, "small.zip", packed(folder))
    assert {"small", "small-2", "small-3"} <= rows(sound(app)).keys()


def test_files_that_no_checkpoint_needs_are_named(here):
    folder = write_small(here / "sent")
    (folder / "run.py").write_text("x")
    assert "left out: sent/run.py" in said(sound(uploaded(page(), "sent.zip", packed(folder))))


def test_a_refused_upload_is_a_sentence_and_nothing_is_lost(here):
    app = uploaded(page(), "sent.zip", packed(write_small(here / "sent")))
    for name, inside in (("up.zip", "../x.safetensors"), ("empty.zip", ""), ("code.zip", "x.py")):
        app = uploaded(app, name, zipped(*([(inside, b"x")] if inside else [])))
        assert not app.exception
        assert said(app).startswith(f"{name} was not opened: ")
        assert {"sent", "small"} <= rows(app).keys()
        assert model_list(app).value == "sent"


@pytest.mark.parametrize(
    ("name", "content", "sentence", "of_row"),
    [
        (
            "other.pt",
            tensors(a=torch.zeros(3)),
            "other.pt is in the list. It is no model that is known here: its tensors can be read.",
            {"kind": "tensors only", "computes": "", "problem": "", "refused": ""},
        ),
        (
            "pytorch_model.bin",
            tensors(**{"model.layers.0.self_attn.q_proj.weight": torch.zeros(4, 4)}),
            "pytorch_model.bin is in the list, which says why only its tensors can be read.",
            {"refused": "without the config.json", "computes": "", "problem": ""},
        ),
        (
            "mine.safetensors",
            b"\xff" * 2000,
            "mine.safetensors is in the list, which says why it cannot be opened.",
            {"problem": "mine.safetensors"},
        ),
    ],
)
def test_what_is_sent_and_cannot_be_shown_is_in_the_list_and_says_why(name, content, sentence, of_row):
    app = uploaded(page(), name, content, "")
    assert said(app) == sentence
    assert bool(app.toast) == (not of_row["problem"])
    row = rows(app)[name]
    assert name not in model_list(app).options
    assert all(text in row[key] if text else not row[key] for key, text in of_row.items()), row
