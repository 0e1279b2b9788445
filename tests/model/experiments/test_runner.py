"""An experiment in a thread of its own: it reports, stops, fails in words, waits for its turn and pauses unseen."""

import re
import threading

import pytest

from model.experiments.runner import KEPT, SEEN, Report, Running


class Steps:
    """Reports that come when they are let."""

    def __init__(self, count: int) -> None:
        self.count, self.made = count, 0
        self.let = threading.Semaphore(0)

    def __call__(self):
        for number in range(1, self.count + 1):
            assert self.let.acquire(timeout=240)
            self.made = number
            yield Report(number / self.count, list(range(number)))


def ended(running: Running) -> Running:
    assert running.wait(30.0)
    return running


def test_it_reports_and_finishes() -> None:
    steps = Steps(3)
    running = Running(steps)
    assert running.look() is None
    assert running.seconds_left is None
    steps.let.release(3)
    assert ended(running).status == "finished"
    report = running.look()
    assert (report.share, report.result) == (1.0, [0, 1, 2])


def test_stopped_it_keeps_what_it_found() -> None:
    steps = Steps(3)
    running = Running(steps)
    running.stop()
    steps.let.release(1)
    assert ended(running).status == "stopped"
    assert steps.made <= 1


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

    running = ended(Running(failing))
    assert running.status == "failed"
    assert re.match(message, running.message)
    assert running.look().result == "half"


def test_the_second_waits_for_the_first() -> None:
    first_steps, second_steps = Steps(1), Steps(1)
    first, second = Running(first_steps), Running(second_steps)
    second_steps.let.release(1)
    assert not second.wait(0.3)
    assert (second.status, second_steps.made) == ("waiting", 0)
    first_steps.let.release(1)
    assert ended(first).status == "finished"
    assert ended(second).status == "finished"


def test_unseen_it_lets_others_compute() -> None:
    now = [0.0]
    steps, others = Steps(2), Steps(1)
    running = Running(steps, clock=lambda: now[0])
    now[0] = SEEN + 1
    steps.let.release(1)
    others.let.release(1)
    assert ended(Running(others)).status == "finished"
    assert steps.made == 1
    running.look()
    steps.let.release(1)
    assert ended(running).status == "finished"


def test_unseen_it_pauses_and_then_ends() -> None:
    now = [0.0]
    steps = Steps(100)
    running = Running(steps, clock=lambda: now[0])
    now[0] = SEEN + 1
    steps.let.release(2)
    assert not running.wait(0.5)
    assert steps.made == 1  # it stands
    running.look()  # someone is back
    assert not running.wait(0.3)
    assert steps.made == 2
    now[0] += KEPT + 1
    steps.let.release(1)
    assert ended(running).status == "stopped"
