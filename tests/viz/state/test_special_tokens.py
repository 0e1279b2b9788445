"""The switch that has the names of special tokens read in the texts."""

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
    plain = session_of(app).source
    start = open_checkpoint(folder).source_tokenizer.start
    assert start not in plain.ids[1:]
    app.toggle(key=SWITCH).set_value(True).run()
    read = session_of(sound(app))
    assert read.source.ids.count(start) == plain.ids.count(start) + 1
    assert app.query_params["special"] == "1"
    expected = open_checkpoint(folder).reading(True).trace(TEXT)
    assert torch.equal(read.trace["output.logits"], expected["output.logits"])
    copied = sound(opened("masks", model="bloom", source=TEXT, special="1"))
    assert session_of(copied).source.ids == read.source.ids
    assert copied.toggle(key=SWITCH).value
    copied.toggle(key=SWITCH).set_value(False).run()
    assert session_of(sound(copied)).source.ids == plain.ids
    assert copied.query_params["special"] == "0"
