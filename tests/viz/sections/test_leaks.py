"""Trainings that are begun and given up leave nothing behind in the process that shows them."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch

from tests.model.live_examples import threads
from tests.viz.pages.training_page import demonstrated, live, short_trainings
from viz import training

RUNS = 20
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """See `short_trainings`."""
    yield from short_trainings(tmp_path, monkeypatch)


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def tensors() -> int:
    gc.unfreeze()  # what the application spares the collector counts too
    gc.collect()
    return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


def test_twenty_trainings_begun_and_given_up_leave_no_thread_and_no_tensor():
    app = demonstrated()
    counts, sizes = [], []
    for _ in range(RUNS):
        given = live(app)
        given.rewind(given.current.film.key_frames[0])
        given.run()
        given.pause()  # in the middle, whatever it is doing
        app.button(key="demonstration_begin").click().run()
        assert not app.exception
        live(app)
        assert len(training.trainings()) == 1
        counts.append(tensors())
        sizes.append(resident())
    assert threads() == []
    assert counts[-1] <= counts[4], counts
    assert sizes[-1] - sizes[4] < 32 << 20, sizes
    training.trainings().end(app.session_state["workbench"].run)
    assert tensors() < counts[-1]
