"""What tests of several pages start from."""

from __future__ import annotations

import pytest

import viz.opening


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Where the only checkpoints are."""
    monkeypatch.setattr(viz.opening, "CHECKPOINTS", tmp_path)
    return tmp_path
