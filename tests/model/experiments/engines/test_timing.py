"""Times and fits: against numpy's polynomial fit, tensors counted by hand, and tasks that count themselves."""

import math
import threading
import time

import numpy as np
import pytest
import torch

from model.experiments.engines.timing import Task, clock_of, fit, machine, peak_memory, rounds, student, summary, upper
from model.runtime.device import compute_alone

CPU = torch.device("cpu")


def test_a_fit_is_that_of_numpy() -> None:
    draw = np.random.default_rng(3)
    xs = [32.0, 64.0, 128.0, 256.0, 512.0, 700.0]
    ys = [3e-9 * x**1.7 * math.exp(noise) for x, noise in zip(xs, draw.normal(0, 0.1, len(xs)), strict=True)]
    found = fit(xs, ys)
    (slope, offset), covariance = np.polyfit(np.log(xs), np.log(ys), 1, cov=True)
    assert found.exponent == pytest.approx(slope)
    assert found.factor == pytest.approx(math.exp(offset))
    assert found.error == pytest.approx(2.776 * covariance[0, 0] ** 0.5, rel=1e-3)  # 4 degrees of freedom
    assert found(100.0) == pytest.approx(math.exp(offset) * 100**slope)


def test_an_exponent_agrees_within_its_error_only() -> None:
    exact = fit([1, 2, 4, 8], [3, 12, 48, 192])
    assert exact.exponent == pytest.approx(2)
    assert exact.error < 1e-6
    assert not exact.agrees(1.9)
    rough = fit([1, 2, 4, 8], [3, 15, 40, 192])
    assert rough.agrees(2)
    assert not rough.agrees(1)


def test_what_cannot_be_fitted_is_not() -> None:
    assert fit([4], [1.0]) is None
    assert fit([4, 8], [0.0, 1.0]) is None  # no logarithm of 0
    two = fit([4, 8], [1.0, 4.0])
    assert two.exponent == pytest.approx(2)
    assert math.isnan(two.error)
    assert not two.agrees(2)  # nothing is known of its error


def test_students_points_the_upper_part_from_an_eighth_on_medians_and_quartiles() -> None:
    assert student(1) == 12.706
    assert student(10) == 2.228
    assert student(30) == pytest.approx(2.042, rel=0.02)
    assert upper([32, 64, 128, 256, 512, 1024]) == [128, 256, 512, 1024]
    assert upper([7]) == [7]
    found = summary([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (found.median, found.low, found.high, found.runs) == (3.0, 2.0, 4.0, 5)


def test_tasks_run_in_turn_and_what_they_prepare_is_not_timed() -> None:
    seen: list[str] = []

    def slow() -> str:
        seen.append("prepare")
        time.sleep(0.05)
        return "given"

    tasks = {"a": Task(lambda given: seen.append(given), slow), "b": Task(lambda _given: seen.append("b"))}
    (found,) = rounds(tasks, CPU, least=3, seconds=0.0)
    assert seen == 4 * ["prepare", "given", "b"]  # once before anything is timed
    assert [each.runs for each in found.values()] == [3, 3]
    assert found["a"].median < 0.05


def test_one_thread_is_timed_by_its_own_turns() -> None:
    def alone() -> None:
        compute_alone()
        kinds.append((clock_of(CPU), machine(CPU, torch.float32)))

    kinds: list = []
    thread = threading.Thread(target=alone)
    thread.start()
    thread.join()
    ((clock, here),) = kinds
    assert clock is time.thread_time
    assert (here.threads, here.cpu_time, here.dtype) == (1, True, "float32")
    assert clock_of(torch.device("cuda")) is time.perf_counter


def test_memory_is_that_of_the_tensors_that_are_there_at_once() -> None:
    x = torch.zeros(10, 10)
    assert peak_memory(Task(lambda _given: x + 1)) == 400
    assert peak_memory(Task(lambda _given: (x + 1) + 1)) == 800  # the first is read while the second is made
    assert peak_memory(Task(lambda _given: ((x + 1) + 1) + 1)) == 800  # and gone before the third
    assert peak_memory(Task(lambda _given: x.T)) == 0  # a view has no memory of its own
    assert peak_memory(Task(lambda _given: (x + 1, x + 2, x + 3))) == 1200
