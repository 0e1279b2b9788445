"""Live training that stands still: told to, broken off within a step, or looked at by nobody."""

import threading
import time
from dataclasses import replace

import pytest
import torch

from tests.model.training.live.live_examples import (
    LONG,
    SETTINGS,
    before_a_batch,
    expected_losses,
    live,
    losses,
    settled,
    status,
)

pytestmark = pytest.mark.unchecked


def test_it_pauses_between_steps_and_goes_on():
    given = settled(live())
    with before_a_batch(given, given.run):
        assert (given.snapshot.status, given.snapshot.busy) == ("running", True)
        assert given.snapshot.wanted == 40
        given.pause()
    assert status(given) == "paused"
    assert given.snapshot.step == 1
    given.advance(2)
    assert status(given) == "idle"
    given.pause()  # there is nothing to pause
    assert status(given) == "idle"
    given.stop()
    assert (given.snapshot.status, given.snapshot.busy) == ("stopped", False)
    given.run()
    assert status(given) == "stopped"
    assert losses(given) == expected_losses(3)
    given.rewind(given.current.film.key_frames[0])
    given.advance(3)
    assert status(given) == "idle"
    assert losses(given) == expected_losses(3)


MANY = 50  # batches a step: more than an epoch has


@pytest.mark.parametrize("command", ["pause", "stop", "reset", "close", "nobody looks"])
def test_a_step_of_many_batches_is_broken_off_and_done_again(command):
    now = [0.0]
    given = live(replace(SETTINGS, accumulation=MANY), steps=1, clock=lambda: now[0])
    trainer, done = given.recorded.trainer, threading.Semaphore(0)
    before = [each.clone() for each in trainer.network.parameters()]
    compute, superfluous, latest = trainer._loss, threading.Event(), time.monotonic() + LONG

    def loss(*arguments):
        """A batch that takes until the step is superfluous; those after it take no time."""
        done.release()
        while not (superfluous.is_set() or trainer.should_break_off()):
            assert time.monotonic() < latest
            time.sleep(0.001)
        superfluous.set()
        return compute(*arguments)

    trainer._loss = loss
    given.run()
    assert done.acquire(timeout=LONG)
    if command == "nobody looks":
        now[0] = 9.5
    else:
        getattr(given, command)()
    settled(given)
    assert not done.acquire(blocking=False)  # no second batch
    if command != "reset":
        assert all(torch.equal(one, other) for one, other in zip(before, trainer.network.parameters(), strict=True))
    if command in ("pause", "nobody looks"):
        assert (given.snapshot.status, given.snapshot.step) == ("paused", 1)
        given.advance(2)
        assert status(given) == "idle"
        assert losses(given) == expected_losses(3, accumulation=MANY)


def test_it_pauses_when_nobody_looks_any_more():
    now = [0.0]
    given = settled(live(clock=lambda: now[0]))
    with before_a_batch(given, given.run):
        now[0] = 9.5  # a step that is under way has the rest of the ten seconds
    assert status(given) == "paused"
    assert given.snapshot.unseen
    assert given.snapshot.step == 1
    given.heartbeat()
    assert status(given) == "paused"  # the state is kept, the user goes on
    given.advance(2)
    assert status(given) == "idle"
    assert not given.snapshot.unseen
    assert losses(given) == expected_losses(3)
