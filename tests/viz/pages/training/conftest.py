"""What tests of the page Training start from."""

from __future__ import annotations

import pytest

from tests.viz.pages.training.training_page import short_trainings


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """See `short_trainings`."""
    yield from short_trainings(tmp_path, monkeypatch)
