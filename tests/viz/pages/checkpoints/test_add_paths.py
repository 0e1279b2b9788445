"""The page Checkpoints without a browser: paths of the command line and typed ones, names at Hugging Face."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import threading

import model.checkpoints.hub
import viz.state.checkpoints
from model.checkpoints.hub import Offer
from model.runtime import cancellation
from model.runtime.errors import CheckpointError
from tests.app_reading import component, model_list, opened, sound
from tests.model.checkpoints.test_uploads import zipped
from tests.model.training.live.live_examples import SETTINGS, live
from tests.viz.pages.checkpoints.checkpoints_page import asked_for, looked_for, page, rows, said, uploaded
from tests.viz.pages.checkpoints.checkpoints_page import here as here
from tests.viz.small import write_small
from viz.i18n.format import literal
from viz.pages.checkpoints import add
from viz.state import checkpoints, training


def test_a_path_of_the_command_line_is_shown_first(here, monkeypatch):
    write_small(here / "given", n_heads=4, n_decoder_layers=1)
    (here / "models" / "plain.pt").unlink()
    monkeypatch.setattr(sys, "argv", ["app.py", f"--checkpoint={here / 'given'}", "--checkpoint", str(here / "none")])
    app = sound(page())
    assert model_list(app).value == "given"
    assert rows(app)["none"]["problem"]
    assert model_list(sound(page(model="small"))).value == "small"


def test_a_wrong_path_of_the_command_line_is_a_sentence(here, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["app.py", "--checkpoint", str(here / "none")])
    app = opened()
    assert not app.exception
    # its name alone: the page may be a visitor's
    assert app.error[0].value.startswith("none was not opened: none is not there")
    assert app.error[0].value.endswith(" small is shown instead.")
    assert model_list(app).value == "small"
    assert component(app, "token_bar")["source"]


def test_a_path_is_asked_for_only_where_visitors_sit_at_this_machine(here, monkeypatch):
    write_small(here / "elsewhere")
    app = looked_for(page(), str(here / "elsewhere"))
    assert "elsewhere" in rows(sound(app))
    for wrong, sentence in ((str(here / "none"), "not there"), (str(here / "models" / "notes.txt"), "notes.txt")):
        assert sentence in looked_for(app, wrong).error[0].value
    monkeypatch.setattr("viz.state.permissions.is_local", lambda *_given: False)
    assert not [field for field in page().text_input if field.key == "adding_path"]


def test_a_name_at_hugging_face_is_asked_for_then_fetched(here, monkeypatch):
    write_small(here / "fetched")
    monkeypatch.setattr(model.checkpoints.hub, "ask", lambda name: Offer(name, "abc", ("a", "b"), 5_000_000))
    go, calls = threading.Event(), []

    def fetch(offer, count):
        calls.append(offer.name)
        count(1_250_000)
        while not go.is_set():
            count(2_500_000)
        return here / "fetched"

    monkeypatch.setattr(model.checkpoints.hub, "fetch", fetch)
    app = asked_for(page(), "me/fetched")
    assert "5 MB in 2 files" in app.button(key="adding_fetch").label
    assert not calls
    app.button(key="adding_fetch").click().run()
    assert sound(app).button(key="adding_fetched_cancel")
    (opened,) = checkpoints.sessions()._sessions.values()
    first = opened.download
    assert "of 5 MB" in first.sentence
    sound(app.button(key="adding_fetched_cancel").click().run())
    assert opened.download is None
    assert first.wait(60)  # at its next piece
    assert (first.status, first.error) == ("cancelled", "")
    app.button(key="adding_ask").click().run()
    app.button(key="adding_fetch").click().run()
    go.set()
    assert opened.download.wait(60)
    assert "fetched" in rows(sound(app.run()))
    assert calls == ["me/fetched"] * 2
    assert sound(app).button(key="adding_ask")


def test_a_download_that_fails_says_so_and_what_a_cancelled_one_makes_of_it_is_no_error(monkeypatch):
    begun, go = threading.Event(), threading.Event()

    def fetch(offer, count):
        begun.set()
        assert go.wait(60)
        with contextlib.suppress(cancellation.SupersededError):
            count(1)
        raise CheckpointError("the library broke off")

    monkeypatch.setattr(model.checkpoints.hub, "fetch", fetch)
    offer = Offer("me/mine", "abc", ("a",), 5_000_000)
    cancelled, failed = add.Download(offer), add.Download(offer)
    assert begun.wait(60)
    cancelled.cancel()
    go.set()
    for download, end in ((cancelled, ("cancelled", "")), (failed, ("failed", "the library broke off"))):
        assert download.wait(60)
        assert (download.status, download.error) == end


def test_a_session_that_is_freed_ends_its_download():
    offer = Offer("me/mine", "abc", ("a",), 5_000_000)

    class Quiet(add.Download):
        def compute(self):
            while True:
                cancellation.check()

    opened = checkpoints.sessions().begin("key")
    opened.download = Quiet(offer)
    checkpoints.sessions().close()
    assert opened.download.wait(60)


def test_without_a_network_it_is_one_sentence(monkeypatch):
    def refuse(name):
        raise CheckpointError(f"{name} cannot be asked for")

    monkeypatch.setattr(model.checkpoints.hub, "ask", refuse)
    assert [each.value for each in asked_for(page(), "me/mine").error] == ["me/mine cannot be asked for."]


def test_while_hugging_face_does_not_answer_the_page_can_be_used(monkeypatch):
    answer = threading.Event()

    def wait(name):
        assert answer.wait(60)
        return Offer(name, "abc", ("a",), 5_000_000)

    monkeypatch.setattr(model.checkpoints.hub, "ask", wait)
    monkeypatch.setattr(model.checkpoints.hub, "PATIENCE", 1e9)
    app = asked_for(page(), "me/mine")
    assert sound(app).button(key="adding_ask").disabled
    model_list(app).set_value("mine").run()
    assert rows(sound(app))["mine"]["current"]
    app.button(key="adding_asked_cancel").click().run()
    assert not sound(app).button(key="adding_ask").disabled
    monkeypatch.setattr(model.checkpoints.hub, "PATIENCE", 0.0)
    app.button(key="adding_ask").click().run()
    assert "Hugging Face has not answered about me/mine in 0 s" in app.error[0].value
    monkeypatch.setattr(model.checkpoints.hub, "PATIENCE", 1e9)
    app.button(key="adding_ask").click().run()
    answer.set()
    app.session_state["adding_question"].wait(60.0)
    assert "5 MB" in sound(app.run()).button(key="adding_fetch").label


def test_names_that_lead_elsewhere_are_not_those_of_the_list(here):
    """A folder called ".." was written beside the temporary one, and everything there packed with it."""
    folder = write_small(here / "sent", seed=2, n_decoder_layers=1)
    files = [(file.name, file.read_bytes()) for file in folder.iterdir()]
    app = sound(uploaded(page(), "...zip", zipped(*files)))
    assert "checkpoint is in the list" in said(app)
    assert viz.state.checkpoints.unused("a/../..", ["checkpoint"]) == "checkpoint-2"


def test_every_way_to_type_a_path(here, monkeypatch):
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(here))
    write_small(here / "with spaces" / "of mine")
    (here / "broken").symlink_to(here / "nowhere")
    os.mkfifo(here / "pipe.pt")
    whole = (here / "saved" / "mine" / "model.safetensors").read_bytes()
    (here / "growing.safetensors").write_bytes(whole[: len(whole) // 2])
    app = page()

    def look(path: str) -> str:
        assert not looked_for(app, path).exception
        return said(app)

    inside = "with spaces/of mine"
    for path in (inside, f"~/{inside}/", f' "{here}/{inside}" ', "./saved/../models"):
        found = look(path)
        assert found == "of mine is in the list." or "models is a folder without model.safetensors" in found, path
    assert "of mine-2" not in rows(app)
    for path, sentence in {
        "/": "/ is a folder without model.safetensors",
        "broken": "leads to nowhere, which is not there",
        "pipe.pt": "is neither a file nor a folder",
        "growing.safetensors": "the file",
    }.items():
        found = look(path)
        assert sentence in found.replace("\\", ""), path
        assert found.endswith("."), path
    assert "or wait until it is written" in found
    monkeypatch.setattr(os, "access", lambda *_asked: False)
    assert "saved may not be read by Vitrine" in look("saved")


def test_a_model_that_was_opened_stays_when_a_file_is_refused(here, monkeypatch):
    """And one in training; no good news stand beside the refusal."""
    write_small(here / "good", seed=2)
    shutil.copytree(here / "good", here / "cut")
    settings = json.loads((here / "cut" / "config.json").read_text())
    (here / "cut" / "config.json").write_text(json.dumps(settings | {"d_model": 2 * settings["d_model"]}))
    app = page()
    assert "The field is empty" in app.button(key="adding_look").click().run().error[0].value
    assert model_list(sound(looked_for(app, str(here / "good")))).value == "good"
    begun = live(SETTINGS)
    monkeypatch.setattr(training, "training", lambda _session: begun)
    for shown in ("good", training.ENTRY):
        model_list(app).set_value(shown).run()
        looked_for(app, "")
        looked_for(app, str(here / "cut"))
        assert app.error[0].value.startswith("cut was not opened: ")
        assert app.error[0].value.endswith(" is shown as before.")
        assert not app.toast
        assert model_list(app).value == shown
    assert model_list(sound(model_list(app).set_value("small").run())).value == "small"
    begun.close()


def test_a_path_that_no_disk_has_is_said_as_it_was_typed():
    """In a sentence, and not as Markdown: a picture in it would be fetched."""
    app = page()
    for path in ("~nobody-of-that-name/x", "/" + "x" * 5000, "a\0b", "/![x](http://evil/a.png)"):
        assert not looked_for(app, path).exception
        assert "is not there" in app.error[0].value
    assert "!\\[x\\]" in app.error[0].value


def test_what_the_command_line_and_the_environment_ask_for_in_vain_is_said(here, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["app.py", "--help", f"--checkpoint={here / 'saved' / 'mine'}", "--checkpoint"])
    monkeypatch.setenv(viz.state.checkpoints.MODELS, str(here / "nowhere"))
    app = sound(opened())
    assert model_list(app).value == "mine"
    said = [warning.value for warning in app.warning]
    assert [sentence.split()[0] for sentence in said] == [r"\--help", "After", "VITRINE_MODELS"]
    assert "-- --checkpoint PATH" in said[0]
    assert literal(str(here / "nowhere")) in said[2]


def test_the_folder_of_models_may_be_one_model(here, monkeypatch):
    monkeypatch.setenv(viz.state.checkpoints.MODELS, str(here / "saved" / "mine"))
    monkeypatch.setenv(viz.state.checkpoints.SAVED, str(here / "empty"))
    app = sound(page())
    assert not app.warning
    assert list(rows(app)) == ["mine", "small"]
    write_small(here / "saved" / "mine" / "checkpoint-2")  # as a Trainer leaves them
    assert list(rows(sound(page()))) == ["mine", "checkpoint-2", "small"]


def test_a_public_server_takes_nothing_and_saves_nothing(here, monkeypatch):
    monkeypatch.setenv("VITRINE_PUBLIC", "1")
    app = sound(page())
    assert set(rows(app)) == {"small", "mine", "plain.pt", "bad.safetensors"}
    assert not app.get("file_uploader")
    assert not [field for field in app.text_input if field.key in ("adding_path", "adding_hub")]
    kept = sound(page(checkpoints_part="keep", model="mine"))
    assert "This server saves nothing: download the model instead." in [each.value for each in kept.caption]
    assert {button.key for button in kept.button}.isdisjoint({"keeping_rename", "keeping_delete", "keeping_save"})
    assert kept.get("download_button")
    monkeypatch.setenv("VITRINE_SAVING", "1")
    assert {"keeping_rename", "keeping_delete"} <= {
        button.key for button in sound(page(checkpoints_part="keep", model="mine")).button
    }
