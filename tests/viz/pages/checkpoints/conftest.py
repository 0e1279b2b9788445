"""What tests of the page Checkpoints start from."""

from __future__ import annotations

import pytest

from viz.ui import job_view


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """A page waits for what it measures however busy the machine is."""
    monkeypatch.setattr(job_view, "AT_ONCE", 30)
