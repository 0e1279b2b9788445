"""What figures share: names, tables."""

from __future__ import annotations

import torch

from model.message import Message
from tests.test_app_kinds import write
from tests.viz.small import looking, small_model
from viz.i18n import catalogue
from viz.i18n.messages import in_language
from viz.ui.parts import frame_of
from viz.ui.plots import block_name, cell_note, lacking


def test_a_table_and_the_note_of_a_cell_are_in_the_language_in_use():
    """No frame keeps messages: pandas makes plain strings of them."""
    block = block_name(1, "feed_forward")
    with catalogue.speaking("zh"):
        frame = frame_of({Message("{name}, pinned", name=Message("norm after")): [block, block]})
        assert list(frame) == ["之后的范数（已固定）"]
        assert frame.iloc[:, 0].tolist() == ["第 2 层前馈"] * 2
        assert in_language(cell_note(block, "the", torch.tensor(0.5))) == "第 2 层前馈，the  0.5"


def test_models_of_different_kinds_cannot_be_compared_and_no_more_is_said(tmp_path):
    model, other = small_model(tmp_path / "small"), write(tmp_path / "other", "encoder-only")
    inputs = looking(model, "The cat.", pinned=(other, "The cat.", "")).inputs
    assert lacking(inputs, None) == "The pinned model is of another kind: they cannot be compared."
    alike = looking(model, "The cat.", pinned=(model, "The cat.", "")).inputs
    assert "of this name and shape" in lacking(alike, None)
