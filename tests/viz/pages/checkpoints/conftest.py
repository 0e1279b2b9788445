"""What tests of the page Checkpoints start from."""

from __future__ import annotations

import sys

import pytest

import viz.state.checkpoints
from tests.viz.small import write_small
from viz.ui import job_view


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """A page waits for what it measures however busy the machine is."""
    monkeypatch.setattr(job_view, "AT_ONCE", 30)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Where checkpoints are bundled and saved; one is bundled."""
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path / "bundled")
    monkeypatch.setenv(viz.state.checkpoints.SAVED, str(tmp_path / "saved"))
    monkeypatch.delenv(viz.state.checkpoints.MODELS, raising=False)
    monkeypatch.setattr(sys, "argv", ["app.py"])
    write_small(tmp_path / "bundled" / "small")
    return tmp_path
