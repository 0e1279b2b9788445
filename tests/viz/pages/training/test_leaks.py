"""Trainings that are begun and given up leave nothing behind in the process that shows them."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch

from tests.model.training.live.live_examples import threads
from tests.viz.pages.training.training_page import demonstrated, live
from viz.state import training

NOISE = 8  # tensors, of what a training is doing just now; one that stays holds many more


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def tensors() -> int:
    gc.unfreeze()  # what the application spares the collector counts too
    gc.collect()
    return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


@pytest.mark.parametrize(("runs", "early"), [(3, 0), pytest.param(20, 4, marks=pytest.mark.slow)])
def test_trainings_begun_and_given_up_leave_no_thread_and_no_tensor(runs, early):
    app = demonstrated()
    counts, sizes = {}, {}
    for number in range(runs):
        given = live(app)
        given.rewind(given.current.film.key_frames[0])
        given.run()
        given.pause()  # in the middle, whatever it is doing
        training.trainings().end(app.session_state["session"].training.run)
        app.run().button(key="demonstration_begin").click().run()
        assert not app.exception
        live(app)
        assert len(training.trainings()) == 1
        if number in (early, runs - 1):
            counts[number], sizes[number] = tensors(), resident()
    assert threads() == []
    assert counts[runs - 1] <= counts[early] + NOISE, counts
    assert sizes[runs - 1] - sizes[early] < 32 << 20, sizes
    training.trainings().end(app.session_state["session"].training.run)
    assert tensors() < counts[runs - 1]
