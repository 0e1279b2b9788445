"""The page Checkpoints without a browser: the list, uploads, what weights do not tell, what cannot be opened."""

from __future__ import annotations

import json
import sys

import torch
from torch import nn

import viz.state.checkpoints
from model.checkpoints.catalog import catalog_entry
from model.checkpoints.load import open_checkpoint
from tests.app_reading import model_list, opened, sound
from tests.model.checkpoints.convert.layout_references import GPT, Seq2Seq, quietly, random_weights
from tests.viz.pages.checkpoints.checkpoints_page import here as here
from tests.viz.pages.checkpoints.checkpoints_page import packed, page, rows, uploaded
from tests.viz.small import write_small
from viz.state import checkpoints as session
from viz.state.checkpoints import CheckpointEntry, given_hints


def test_everything_that_is_here_is_listed_from_its_headers():
    app = sound(page())
    found = rows(app)
    assert list(found) == ["bad.safetensors", "plain.pt", "mine", "small"]
    assert model_list(app).options == ["mine", "small"]
    assert model_list(app).value == "small"
    count = open_checkpoint(viz.state.checkpoints.CHECKPOINTS / "small").network.parameter_count()
    assert found["small"]["parameters"] == f"{count / 1000:.3g} k"
    assert found["small"]["bytes"] == found["small"]["needs"] == f"{4 * count / 1000:.3g} kB"
    assert (found["small"]["current"], found["mine"]["current"]) == (True, False)
    assert (found["plain.pt"]["format"], found["plain.pt"]["parameters"]) == ("PyTorch file", "15")
    assert [name for name, row in found.items() if not row["computes"]] == ["plain.pt"]
    assert found["plain.pt"]["kind"] == "tensors only"
    assert "bad.safetensors" in found["bad.safetensors"]["problem"]
    assert not found["mine"]["problem"]


def test_a_narrower_precision_opens_the_model_again(monkeypatch):
    monkeypatch.setattr(
        "model.runtime.device.slowdown", lambda precision, _device: 3.0 if precision == "bfloat16" else 1.0
    )
    app = page()
    assert not app.warning
    app.session_state["precision"] = "bfloat16"
    app.run()
    assert rows(sound(app))["small"]["needs"] == rows(page(precision="bfloat16"))["small"]["needs"]
    assert any("bfloat16" in f"{caption.value} {caption.help}" for caption in app.caption)
    assert [warning.value.partition(" on")[0] for warning in app.warning] == [
        "bfloat16 takes 3 times as long as float32"
    ]
    assert app.session_state["session"].model.dtype == torch.bfloat16


def test_what_does_not_fit_is_refused_before_it_is_opened(monkeypatch):
    monkeypatch.setattr("model.runtime.memory.available", lambda _device=None: 1000)
    assert "needs 0.0 GB in float32" in opened(model="mine").error[0].value


def test_what_is_to_be_spread_over_devices_may_take_them_all(monkeypatch):
    app = page()
    monkeypatch.setattr("model.runtime.memory.available", lambda device=None: 10**12 if device is None else 1000)
    assert not rows(app.run())["mine"]["fits"]
    monkeypatch.setenv("VITRINE_DEVICE_MAP", "auto")
    assert rows(app.run())["mine"]["fits"]


def test_the_list_says_what_does_not_fit_and_what_would(here, monkeypatch):
    app = page()
    monkeypatch.setattr("model.runtime.memory.available", lambda _device=None: 1000)
    refused = rows(app.run())["mine"]
    assert not refused["fits"]
    assert refused["refused"].startswith("mine needs")
    assert refused["refused"].endswith("choose a smaller model, or a machine with more memory.")
    half = int(1.2 * 2 * catalog_entry(here / "saved" / "mine").parameters)
    monkeypatch.setattr("model.runtime.memory.available", lambda _device=None: half)
    assert rows(app.run())["mine"]["refused"].endswith("choose bfloat16.")


def test_layers_that_are_no_model_are_a_sentence_and_the_model_stays(here):
    torch.save(quietly(nn.Transformer, 12, 3, 1, 1, 20).state_dict(), here / "models" / "layers.pt")
    app = page(model="mine")
    model_list(app).set_value("layers.pt").run()
    assert app.error[0].value.startswith("layers.pt was not opened: layers.pt holds the layers")
    assert app.error[0].value.endswith("→ Read. mine is shown as before.")
    assert model_list(app).value == "mine"
    assert rows(app)["mine"]["current"]
    app.switch_page("viz/pages/attention/page.py").run()
    assert not app.error


def test_weights_that_do_not_tell_their_heads_are_asked_for_them(here):
    """And of two models in a file the other one can be chosen."""
    models = {name: random_weights(GPT(), seed).state_dict() for seed, name in enumerate(("student", "teacher"))}
    torch.save(models, here / "models" / "gpt.pt")
    app = page()
    model_list(app).set_value("gpt.pt").run()
    assert not app.error
    assert "gpt.pt is not shown yet" in app.info[0].value
    assert model_list(app).value == "small"
    assert app.button(key="telling_gpt.pt").disabled
    app.selectbox(key="telling_heads_gpt.pt").set_value(3).run()
    app.button(key="telling_gpt.pt").click().run()
    assert model_list(sound(app)).value == "gpt.pt"
    assert app.session_state["session"].model.config.n_heads == 3
    assert any("nanoGPT" in caption.value for caption in app.caption)
    assert app.query_params["told"] == "heads:3@gpt.pt"
    (beside,) = (caption.value for caption in app.caption if ":red[" in caption.value)
    assert "nanoGPT" in beside  # under the model's name, which stays
    assert "\n\nAssumed: " in beside
    assert "`teacher.lm_head" in beside
    app.selectbox(key="telling_heads_gpt.pt").set_value(4).run()
    assert app.selectbox(key="telling_prefix_gpt.pt").value == "student"
    app.selectbox(key="telling_prefix_gpt.pt").set_value("teacher").run()
    app.button(key="telling_gpt.pt").click().run()
    model = sound(app).session_state["session"].model
    assert model.config.n_heads == 4
    wanted = models["teacher"]["transformer.wpe.weight"]
    assert torch.equal(model.network.get_parameter("decoder.embedding.positions.table"), wanted)
    again = sound(page(model="gpt.pt", told="heads:6@gpt.pt"))  # a copied link
    assert again.session_state["session"].model.config.n_heads == 6
    model_list(app).set_value("small").run()
    assert "told" not in sound(app).query_params


def test_positions_and_the_start_of_a_target_can_be_told(here, monkeypatch):
    torch.save(Seq2Seq(positions=False).state_dict(), here / "seq.pt")
    monkeypatch.setattr(sys, "argv", ["app.py", f"--checkpoint={here / 'seq.pt'}", "--hints", "heads:3,start:2@seq.pt"])
    assert (given_hints("seq.pt"), given_hints("another")) == ("heads:3,start:2", "")
    monkeypatch.setattr(sys, "argv", [*sys.argv[:2], "--told=heads:3", "--told", "start:2@seq.pt"])  # their old name
    assert (given_hints("seq.pt"), given_hints("another")) == ("heads:3,start:2", "heads:3")
    app = sound(page())
    assert not app.warning
    assert app.session_state["session"].trace.target_tokens[0] == "2"
    assert app.session_state["session"].model.config.position == "sinusoidal"
    app.selectbox(key="telling_positions_seq.pt").set_value("none").run()
    app.number_input(key="telling_start_seq.pt").set_value(5).run()
    app.button(key="telling_seq.pt").click().run()
    session = sound(app).session_state["session"]
    assert (session.model.config.position, session.trace.target_tokens[0]) == ("none", "5")
    assert app.query_params["told"] == "heads:3,positions:none,start:5,norm:post,activation:relu@seq.pt"
    wrong = page(told="heads:3,start:99@seq.pt")
    assert "seq.pt was not opened: start (99) must be the id of one of its 19 tokens. " in wrong.error[0].value
    monkeypatch.setattr(sys, "argv", ["app.py", "--hints", "heads=3"])
    assert "must be heads:N" in sound(page()).warning[0].value


def test_a_place_that_is_gone_does_not_break_the_list(here):
    assert CheckpointEntry("x", here / "gone", "given").changed == 0
    app = uploaded(page(), "sent.zip", packed(write_small(here / "sent")))
    for folder in session.sessions().get(app.query_params["opened"]).places.values():
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    assert rows(app.run())["sent"]["problem"]


def test_what_the_weights_do_not_tell_is_said(here):
    path = here / "saved" / "mine" / "training.json"
    assumed = ["norms behind each block (norm_first is not said)", "[x](http://example.org)", 3]
    path.write_text(json.dumps({**json.loads(path.read_text()), "assumed": assumed}))
    texts = [each.value for each in sound(opened(model="mine")).caption]
    (sentence,) = (each for each in texts if "assumed: norms" in each)
    assert any("\n\nAssumed: norms" in each for each in texts)  # beside its name
    assert "norm_first" in sentence
    assert "\\[x\\](http:\N{WORD JOINER}//" in sentence
    assert not any("assumed" in each.value for each in opened(model="small").caption)
