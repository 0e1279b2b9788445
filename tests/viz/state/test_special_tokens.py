"""The switch that has the names of special tokens in the texts read as plain text."""

from __future__ import annotations

import shutil

import torch

from model.checkpoints.load import open_checkpoint
from tests.app_reading import opened, sound
from tests.model.checkpoints.bridge.models import theirs, write_tokenizer
from viz.state.special_tokens import SWITCH

TEXT = "the <s> cat"


def session_of(app):
    return app.session_state["session"]


def test_the_switch_comes_with_a_name_and_is_in_the_address(tmp_path, monkeypatch):
    folder = tmp_path / "bloom"
    shutil.copytree(theirs("bloom")[1], folder)
    write_tokenizer(folder)
    monkeypatch.setenv("VITRINE_MODELS", str(tmp_path))
    app = sound(opened("masks", model="bloom", source="the cat sees"))
    assert not [each for each in app.toggle if each.key == SWITCH]
    app = sound(opened("masks", model="bloom", source=TEXT))
    read = session_of(app).source
    start = open_checkpoint(folder).source_tokenizer.start
    app.toggle(key=SWITCH).set_value(False).run()
    plain = session_of(sound(app))
    assert start not in plain.source.ids[1:]
    assert read.ids.count(start) == plain.source.ids.count(start) + 1
    assert app.query_params["special"] == "0"
    expected = open_checkpoint(folder).reading(False).trace(TEXT)
    assert torch.equal(plain.trace["output.logits"], expected["output.logits"])
    copied = sound(opened("masks", model="bloom", source=TEXT, special="0"))
    assert session_of(copied).source.ids == plain.source.ids
    assert not copied.toggle(key=SWITCH).value
    copied.toggle(key=SWITCH).set_value(True).run()
    assert session_of(sound(copied)).source.ids == read.ids
    assert copied.query_params["special"] == "1"
