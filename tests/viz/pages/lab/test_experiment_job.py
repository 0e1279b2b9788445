"""An experiment as a job: it reports, is stopped, fails in words, waits for its turn and pauses where nobody looks."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import pytest

from model.experiments.runner import Report
from model.runtime import cancellation
from tests.viz.test_jobs import Clock, ended, until_waiting
from viz.pages.lab.experiment import EXPERIMENTS, ExperimentJob
from viz.ui.job_view import job_words


class Steps:
    """Reports that come when they are let."""

    def __init__(self, count: int) -> None:
        self.count, self.made = count, 0
        self.let, self.reached = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self):
        for number in range(1, self.count + 1):
            self.reached.release()
            while not self.let.acquire(timeout=0.001):
                cancellation.check()
            self.made = number
            yield Report(number / self.count, list(range(number)))

    def reach(self) -> None:
        """Wait until another report is being made."""
        assert self.reached.acquire(timeout=20)


def begun(experiment: Any, **options: Any) -> ExperimentJob[Any]:
    return ExperimentJob(("settings",), experiment, **options)


def test_it_reports_and_finishes() -> None:
    steps, clock = Steps(4), Clock()
    job = begun(steps, clock=clock)
    steps.reach()
    assert (job.result, job.seconds_left, job_words(job)) == (None, None, "begins")
    clock.now += 10
    steps.let.release()
    steps.reach()
    assert (job.share, job.result, job_words(job)) == (0.25, [0], "30 s left")
    steps.let.release(3)
    assert (ended(job).status, job.share, job.result) == ("finished", 1.0, [0, 1, 2, 3])


def test_a_first_result_that_is_there_at_once_promises_no_end() -> None:
    let, clock = threading.Event(), Clock()

    def experiment():
        yield Report(0.0, "predicted")
        assert let.wait(20)
        yield Report(1.0, "measured")

    job = begun(experiment, clock=clock)
    while job.result is None:
        time.sleep(0.001)
    clock.now += 8
    assert (job.seconds_left, job_words(job)) == (None, "begins")
    let.set()
    assert ended(job).result == "measured"


def test_stopped_it_ends_within_a_report_and_keeps_what_it_found() -> None:
    steps = Steps(3)
    job = begun(steps)
    steps.let.release(1)
    for _ in range(2):
        steps.reach()
    job.cancel()
    assert (ended(job).status, job.result) == ("cancelled", [0])


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("n (0) must be at least 1"), r"n \(0\) must be at least 1$"),
        (KeyError("layer"), "this experiment broke off with KeyError: 'layer';"),
        (MemoryError(), ".*does not fit into memory"),
    ],
)
def test_what_fails_is_said_and_what_was_found_is_kept(error, message) -> None:
    def failing():
        yield Report(0.5, "half")
        raise error

    job = ended(begun(failing))
    assert (job.status, job.result) == ("failed", "half")
    assert re.match(message, job.error)


def test_the_second_waits_for_the_first_and_that_does_not_count_for_its_pace() -> None:
    first_steps, second_steps, clock = Steps(1), Steps(2), Clock()
    first = begun(first_steps)
    first_steps.reach()
    second = begun(second_steps, clock=clock)
    until_waiting(EXPERIMENTS, 2)
    assert (second.status, second_steps.made) == ("waiting", 0)
    assert job_words(second) == "waits for another experiment on this machine"
    clock.now += 100
    second.look()
    first_steps.let.release()
    assert ended(first).status == "finished"
    second_steps.reach()
    clock.now += 5
    second_steps.let.release()
    second_steps.reach()
    assert second.seconds_left == 5
    second_steps.let.release()
    assert ended(second).status == "finished"


def paused(clock: Clock) -> tuple[ExperimentJob[Any], Steps]:
    """An experiment at which nobody has looked for a while, after its first report."""
    steps = Steps(2)
    job = begun(steps, clock=clock)
    steps.reach()
    clock.now += job.pause + 1
    steps.let.release()
    until_waiting(EXPERIMENTS, 0)
    assert steps.made == 1
    return job, steps


def test_unseen_it_lets_others_compute_and_goes_on_when_somebody_looks() -> None:
    job, steps = paused(Clock())
    others = Steps(1)
    others.let.release()
    assert ended(begun(others)).status == "finished"
    assert not job.ended
    job.look()
    steps.let.release()
    assert ended(job).status == "finished"


def test_a_pause_does_not_count_for_its_pace() -> None:
    clock = Clock()
    job, steps = paused(clock)
    clock.now += 500
    job.look()
    steps.reach()
    assert job.seconds_left == job.pause + 1
    steps.let.release()
    ended(job)


@pytest.mark.parametrize("end", ["stopped", "nobody came back"])
def test_a_paused_one_ends(end) -> None:
    clock = Clock()
    job, _steps = paused(clock)
    if end == "stopped":
        job.cancel()
    else:
        clock.now += job.patience
        with job._changed:  # as its timer does
            job._changed.notify_all()
    assert ended(job).status == "cancelled"
    assert job.result == [0]
