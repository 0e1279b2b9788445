"""What tests of several pages start from."""

from __future__ import annotations

import pytest

import viz.state.checkpoints
from model.checkpoints.load import open_checkpoint
from tests.viz.small import write_small


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Where the only checkpoints are."""
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    return tmp_path


@pytest.fixture
def small(here):
    """A small checkpoint, the only one."""
    return open_checkpoint(write_small(here / "small"))
