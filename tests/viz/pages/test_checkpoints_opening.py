"""The page Checkpoints without a browser: the list, uploads, names at Hugging Face, paths, what cannot be opened."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from streamlit.web.server.starlette.starlette_app_utils import generate_xsrf_token_string
from torch import nn

import model.hub
import viz.opening
from model.checkpoints import open_checkpoint
from model.errors import CheckpointError
from model.exporting import folder_zipped
from model.hub import Offer
from tests.app_reading import component, opened, sound
from tests.model.foreign.layout_references import GPT, Seq2Seq, quietly
from tests.viz.small import write_small
from viz import opened as session
from viz.opened import browser
from viz.opening import Place
from viz.sections.checkpoints_adding import is_local

ZIP = "application/zip"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """One bundled checkpoint, one saved, and a folder with a file of tensors and one that is none."""
    monkeypatch.setattr(viz.opening, "CHECKPOINTS", tmp_path / "bundled")
    monkeypatch.setenv(viz.opening.SAVED, str(tmp_path / "saved"))
    monkeypatch.setenv(viz.opening.MODELS, str(tmp_path / "models"))
    monkeypatch.setattr(sys, "argv", ["app.py"])
    write_small(tmp_path / "bundled" / "small")
    write_small(tmp_path / "saved" / "mine", seed=1, n_heads=4)
    (tmp_path / "models").mkdir()
    torch.save({"a": torch.zeros(3, 5)}, tmp_path / "models" / "plain.pt")
    (tmp_path / "models" / "bad.safetensors").write_bytes(b"x")
    (tmp_path / "models" / "notes.txt").write_text("none")
    monkeypatch.setattr(session, "browser", lambda: "this one")
    session.sessions.clear()
    yield tmp_path
    session.sessions().close()


def page(**address):
    return opened("checkpoints", **address)


def rows(app) -> dict[str, dict]:
    return {row["name"]: row for group in component(app, "checkpoint_list")["groups"] for row in group["rows"]}


def packed(folder: Path) -> bytes:
    return folder_zipped(folder, folder.name)


def uploaded(app, name: str, content: bytes, kind: str = ZIP):
    app.file_uploader[0].set_value([(name, content, kind)]).run()
    return app.button(key="adding_send").click().run()


def said(app) -> str:
    return " ".join(each.value for each in (*app.success, *app.error))


def test_everything_that_is_here_is_listed_from_its_headers():
    app = sound(page())
    found = rows(app)
    assert list(found) == ["bad.safetensors", "plain.pt", "mine", "small"]
    assert app.selectbox(key="model").options == ["mine", "small"]
    assert app.selectbox(key="model").value == "small"
    count = open_checkpoint(viz.opening.CHECKPOINTS / "small").model.parameter_count()
    assert found["small"]["parameters"] == f"{count / 1000:.3g} k"
    assert found["small"]["bytes"] == found["small"]["needs"] == f"{4 * count / 1000:.3g} kB"
    assert (found["small"]["shown"], found["mine"]["shown"]) == (True, False)
    assert (found["plain.pt"]["format"], found["plain.pt"]["parameters"]) == ("PyTorch file", "15")
    assert [name for name, row in found.items() if not row["computes"]] == ["plain.pt"]
    assert found["plain.pt"]["kind"] == "tensors only"
    assert "bad.safetensors" in found["bad.safetensors"]["problem"]
    assert not found["mine"]["problem"]


def test_a_narrower_precision_opens_the_model_again():
    app = page()
    app.session_state["precision"] = "bfloat16"
    app.run()
    assert rows(sound(app))["small"]["needs"] == rows(page(precision="bfloat16"))["small"]["needs"]
    assert any("bfloat16" in caption.value for caption in app.caption)
    assert app.session_state["workbench"].lens.dtype == torch.bfloat16


def test_what_does_not_fit_is_refused_before_it_is_opened(monkeypatch):
    monkeypatch.setattr("model.memory.available", lambda _device=None: 1000)
    app = opened(model="mine")
    assert "needs 0.0 GB in float32" in app.error[0].value
    monkeypatch.undo()


def test_the_list_says_what_does_not_fit(monkeypatch):
    app = page()
    monkeypatch.setattr("model.memory.available", lambda _device=None: 1000)
    refused = rows(app.run())["mine"]
    assert not refused["fits"]
    assert "mine needs" in refused["refused"]


def test_an_upload_is_in_this_session_only(here, monkeypatch):
    session.sessions().patience = 0.0
    folder = write_small(here / "sent", seed=2, n_decoder_layers=1)
    app = sound(uploaded(page(), "sent.zip", packed(folder)))
    assert "sent is in the list" in said(app)
    assert rows(app)["sent"]["removable"]
    assert app.selectbox(key="model").options[0] == "sent"
    app.selectbox(key="model").set_value("sent").run()
    assert any("2+1" in caption.value for caption in sound(app).caption)
    assert app.session_state["workbench"].lens.name == "sent"
    key = app.query_params["opened"]
    assert "sent" not in rows(page())
    for address in (key, "guessed"):
        link = page(opened=address, checkpoint="sent")  # in another browser, or in a window beside the first
        assert "sent" not in rows(sound(link))
        assert "opened" not in link.query_params
    session.sessions().leave(key)  # its window is closed
    again = sound(page(opened=key, model="sent"))  # as after a reload
    assert rows(again)["sent"]["shown"]
    session.sessions().leave(key)
    monkeypatch.setattr(session, "browser", lambda: "another")
    assert "sent" not in rows(sound(page(opened=key)))
    monkeypatch.setattr(session, "browser", lambda: "")  # takes no cookies
    assert "sent" not in rows(sound(page(opened=key)))


def test_a_browser_is_known_by_its_cookie(monkeypatch):
    def cookie(value: str) -> str:
        monkeypatch.setattr("streamlit.context", SimpleNamespace(cookies={session.TOKEN: value}))
        return browser()

    token, written = b"sixteen secrets!", set()
    for _time in range(2):  # each time under another mask
        made = generate_xsrf_token_string(token)
        assert made not in written
        written.add(made)
        assert cookie(made) == token.hex()
    assert cookie(generate_xsrf_token_string()) != token.hex()
    assert [cookie(value) for value in ("", "2|xyz", "2|0|0|0", "a|b|c|d")] == [""] * 4


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
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w") as archive:
            if inside:
                archive.writestr(inside, b"x")
        app = uploaded(app, name, held.getvalue())
        assert not app.exception
        assert said(app).startswith(f"{name} was not opened: ")
        assert {"sent", "small"} <= rows(app).keys()
        assert app.selectbox(key="model").value == "small"


def test_what_is_sent_and_is_no_model_is_said_to_be_tensors_only():
    held = io.BytesIO()
    torch.save({"a": torch.zeros(3)}, held)
    app = sound(uploaded(page(), "other.pt", held.getvalue(), ""))
    assert "It is no model that is known here: its tensors can be read." in said(app)
    assert not rows(app)["other.pt"]["computes"]
    assert "other.pt" not in app.selectbox(key="model").options


def test_layers_that_are_no_model_are_a_sentence_and_the_model_stays(here):
    torch.save(quietly(nn.Transformer, 12, 3, 1, 1, 20).state_dict(), here / "models" / "layers.pt")
    app = page(model="mine")
    app.selectbox(key="model").set_value("layers.pt").run()
    assert app.error[0].value.startswith("layers.pt holds the layers")
    assert app.error[0].value.endswith("→ Read.")
    assert app.selectbox(key="model").value == "mine"
    assert rows(app)["mine"]["shown"]
    app.switch_page("viz/pages/attention.py").run()
    assert not app.error


def test_weights_that_do_not_tell_their_heads_are_asked_for_them(here):
    torch.save(GPT().state_dict(), here / "models" / "gpt.pt")
    app = page()
    app.selectbox(key="model").set_value("gpt.pt").run()
    assert not app.error
    assert "gpt.pt is not shown yet" in app.info[0].value
    assert app.selectbox(key="model").value == "small"
    assert app.button(key="telling_gpt.pt").disabled
    app.selectbox(key="telling_heads_gpt.pt").set_value(3).run()
    app.button(key="telling_gpt.pt").click().run()
    assert sound(app).selectbox(key="model").value == "gpt.pt"
    assert app.session_state["workbench"].lens.config.n_heads == 3
    assert any("nanoGPT" in caption.value for caption in app.caption)
    assert app.query_params["told"] == "heads:3@gpt.pt"
    app.selectbox(key="telling_heads_gpt.pt").set_value(4).run()
    app.button(key="telling_gpt.pt").click().run()
    assert sound(app).session_state["workbench"].lens.config.n_heads == 4
    again = sound(page(model="gpt.pt", told="heads:6@gpt.pt"))  # a copied link
    assert again.session_state["workbench"].lens.config.n_heads == 6
    app.selectbox(key="model").set_value("small").run()
    assert "told" not in sound(app).query_params


def test_positions_and_the_start_of_a_target_can_be_told(here, monkeypatch):
    torch.save(Seq2Seq(positions=False).state_dict(), here / "seq.pt")
    monkeypatch.setattr(sys, "argv", ["app.py", f"--checkpoint={here / 'seq.pt'}", "--told", "heads:3,start:2"])
    app = sound(page())
    assert not app.warning
    assert app.session_state["workbench"].trace.target_tokens[0] == "2"
    assert app.session_state["workbench"].lens.config.position == "sinusoidal"
    app.selectbox(key="telling_positions_seq.pt").set_value("none").run()
    app.number_input(key="telling_start_seq.pt").set_value(5).run()
    app.button(key="telling_seq.pt").click().run()
    bench = sound(app).session_state["workbench"]
    assert (bench.lens.config.position, bench.trace.target_tokens[0]) == ("none", "5")
    assert app.query_params["told"] == "heads:3,positions:none,start:5@seq.pt"
    wrong = page(told="heads:3,start:99@seq.pt")
    assert wrong.error[0].value == "seq.pt: start (99) must be the id of one of its 19 tokens."
    monkeypatch.setattr(sys, "argv", ["app.py", "--told", "heads=3"])
    assert "must be heads:N" in sound(page()).warning[0].value


def test_a_path_of_the_command_line_is_shown_first(here, monkeypatch):
    write_small(here / "given", n_heads=4, n_decoder_layers=1)
    (here / "models" / "plain.pt").unlink()
    monkeypatch.setattr(sys, "argv", ["app.py", f"--checkpoint={here / 'given'}", "--checkpoint", str(here / "none")])
    app = sound(page())
    assert app.selectbox(key="model").value == "given"
    assert rows(app)["none"]["problem"]
    assert sound(page(model="small")).selectbox(key="model").value == "small"


def test_a_wrong_path_of_the_command_line_is_a_sentence(here, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["app.py", "--checkpoint", str(here / "none")])
    app = opened()
    assert not app.exception
    assert str(here / "none") in app.error[0].value
    assert app.selectbox(key="model").value == "small"
    assert component(app, "token_bar")["source"]


def test_a_path_is_asked_for_only_where_visitors_sit_at_this_machine(here, monkeypatch):
    write_small(here / "elsewhere")
    app = page()
    app.text_input(key="adding_path").set_value(str(here / "elsewhere")).run()
    app.button(key="adding_look").click().run()
    assert "elsewhere" in rows(sound(app))
    for wrong, sentence in ((str(here / "none"), "not there"), (str(here / "models" / "notes.txt"), "notes.txt")):
        app.text_input(key="adding_path").set_value(wrong).run()
        app.button(key="adding_look").click().run()
        assert sentence in app.error[0].value
    monkeypatch.setattr("viz.sections.checkpoints_adding.is_local", lambda *_given: False)
    assert not [field for field in page().text_input if field.key == "adding_path"]


@pytest.mark.parametrize(
    ("address", "headers", "local"),
    [
        ("127.0.0.1", {"Host": "127.0.0.1:8501"}, True),
        ("localhost", {"Host": "localhost"}, True),
        ("::1", {"Host": "[::1]:8501"}, True),
        ("", {"Host": "localhost:8501"}, False),
        ("0.0.0.0", {"Host": "localhost:8501"}, False),
        ("127.0.0.1", {"Host": "vitrine.example.org"}, False),
        ("127.0.0.1", {"Host": "localhost.example.org:80"}, False),
        ("127.0.0.1", {"Host": "localhost:8501", "X-Forwarded-For": "10.0.0.1"}, False),
        ("127.0.0.1", {"host": "localhost", "forwarded": "for=10.0.0.1"}, False),
    ],
)
def test_who_sits_at_this_machine(address, headers, local):
    assert is_local(address, headers) is local


def test_a_name_at_hugging_face_is_asked_for_then_fetched(here, monkeypatch):
    write_small(here / "fetched")
    monkeypatch.setattr(model.hub, "ask", lambda name: Offer(name, "abc", ("a", "b"), 5_000_000))
    made = []

    class Fetched:
        path, problem, busy, cancelled, share = None, "", True, False, 0.25

        def __init__(self, offer):
            self.offer = offer
            made.append(self)

        def cancel(self):
            self.cancelled = True

    monkeypatch.setattr(model.hub, "Download", Fetched)
    app = page()
    app.text_input(key="adding_hub").set_value("me/fetched").run()
    app.button(key="adding_ask").click().run()
    assert "5 MB in 2 files" in app.button(key="adding_fetch").label
    assert not made
    app.button(key="adding_fetch").click().run()
    assert sound(app).button(key="adding_cancel")
    made[0].busy, made[0].path = False, here / "fetched"
    assert "fetched" in rows(sound(app.run()))
    app.button(key="adding_ask").click().run()
    app.button(key="adding_fetch").click().run()
    app.button(key="adding_cancel").click().run()
    assert made[1].cancelled
    assert sound(app).button(key="adding_ask")


def test_without_a_network_it_is_one_sentence(monkeypatch):
    def refuse(name):
        raise CheckpointError(f"{name} cannot be asked for")

    monkeypatch.setattr(model.hub, "ask", refuse)
    app = page()
    app.text_input(key="adding_hub").set_value("me/mine").run()
    app.button(key="adding_ask").click().run()
    assert [each.value for each in app.error] == ["me/mine cannot be asked for."]


def test_while_hugging_face_does_not_answer_the_page_can_be_used(monkeypatch):
    answer = threading.Event()

    def wait(name):
        assert answer.wait(60)
        return Offer(name, "abc", ("a",), 5_000_000)

    monkeypatch.setattr(model.hub, "ask", wait)
    monkeypatch.setattr(model.hub, "PATIENCE", 1e9)
    app = page()
    app.text_input(key="adding_hub").set_value("me/mine").run()
    app.button(key="adding_ask").click().run()
    assert sound(app).button(key="adding_ask").disabled
    app.selectbox(key="model").set_value("mine").run()
    assert rows(sound(app))["mine"]["shown"]
    app.button(key="adding_give_up").click().run()
    assert not sound(app).button(key="adding_ask").disabled
    monkeypatch.setattr(model.hub, "PATIENCE", 0.0)
    app.button(key="adding_ask").click().run()
    assert "Hugging Face has not answered about me/mine in 0 s" in app.error[0].value
    monkeypatch.setattr(model.hub, "PATIENCE", 1e9)
    app.button(key="adding_ask").click().run()
    answer.set()
    app.session_state["adding_question"].wait(60.0)
    assert "5 MB" in sound(app.run()).button(key="adding_fetch").label


def test_a_place_that_is_gone_does_not_break_the_list(here):
    assert Place("x", here / "gone", "given").changed == 0
    app = uploaded(page(), "sent.zip", packed(write_small(here / "sent")))
    for folder in session.sessions().get(app.query_params["opened"]).places.values():
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    assert rows(app.run())["sent"]["problem"]


def test_names_that_lead_elsewhere_are_not_those_of_the_list(here):
    """A folder called ".." was written beside the temporary one, and everything there packed with it."""
    folder = write_small(here / "sent", seed=2, n_decoder_layers=1)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packing:
        for file in folder.iterdir():
            packing.write(file, file.name)
    app = sound(uploaded(page(), "...zip", archive.getvalue()))
    assert "checkpoint is in the list" in said(app)
    assert viz.opening.unused("a/../..", ["checkpoint"]) == "checkpoint-2"


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
        app.text_input(key="adding_path").set_value(path).run()
        app.button(key="adding_look").click().run()
        assert not app.exception
        return said(app)

    for path in (
        "with spaces/of mine",
        "~/with spaces/of mine/",
        f' "{here}/with spaces/of mine" ',
        "./saved/../models",
    ):
        found = look(path)
        assert found == "of mine is in the list." or "models is a folder without model.safetensors" in found, path
    assert "of mine-2" not in rows(app)
    for path, sentence in {
        "/": "/ is a folder without model.safetensors",
        "broken": f"leads to {here}/nowhere, which is not there",
        "pipe.pt": "is neither a file nor a folder",
        "growing.safetensors": "the file",
    }.items():
        found = look(path)
        assert sentence in found.replace("\\", ""), path
        assert found.endswith("."), path
    assert "or wait until it is written" in found
    monkeypatch.setattr(os, "access", lambda *_asked: False)
    assert "saved may not be read by Vitrine" in look("saved")


def test_a_path_that_no_disk_has_is_said_as_it_was_typed():
    """In a sentence, and not as Markdown: a picture in it would be fetched."""
    app = page()
    for path in ("~nobody-of-that-name/x", "/" + "x" * 5000, "a\0b", "/![x](http://evil/a.png)"):
        app.text_input(key="adding_path").set_value(path).run()
        app = app.button(key="adding_look").click().run()
        assert not app.exception
        assert "is not there" in app.error[0].value
    assert "!\\[x\\]" in app.error[0].value


def test_what_the_command_line_and_the_environment_ask_for_in_vain_is_said(here, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["app.py", "--help", f"--checkpoint={here / 'saved' / 'mine'}", "--checkpoint"])
    monkeypatch.setenv(viz.opening.MODELS, str(here / "nowhere"))
    app = sound(opened())
    assert app.selectbox(key="model").value == "mine"
    said = [warning.value for warning in app.warning]
    assert [sentence.split()[0] for sentence in said] == ["--help", "After", "VITRINE_MODELS"]
    assert "-- --checkpoint PATH" in said[0]
    assert str(here / "nowhere") in said[2]


def test_the_folder_of_models_may_be_one_model(here, monkeypatch):
    monkeypatch.setenv(viz.opening.MODELS, str(here / "saved" / "mine"))
    monkeypatch.setenv(viz.opening.SAVED, str(here / "empty"))
    app = sound(page())
    assert not app.warning
    assert list(rows(app)) == ["mine", "small"]


def test_what_the_weights_do_not_tell_is_said(here):
    path = here / "saved" / "mine" / "training.json"
    assumed = ["norms behind each block (norm_first is not said)", "[x](http://example.org)", 3]
    path.write_text(json.dumps({**json.loads(path.read_text()), "assumed": assumed}))
    texts = [each.value for each in sound(opened(model="mine")).caption]
    (sentence,) = (each for each in texts if "assumed" in each)
    assert r"norm\_first" in sentence
    assert r"\[x\]\(http" in sentence
    assert not any("assumed" in each.value for each in opened(model="small").caption)
