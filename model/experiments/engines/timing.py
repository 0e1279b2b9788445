"""Times and memory of small pieces of a network, and their growth: medians of many runs, interleaved."""

from __future__ import annotations

import math
import platform
import statistics
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from model.experiments.rule import Quantity
from model.fast.matmul import mkldnn

ROUNDS = 5  # of each task, at least
SECONDS = 0.4  # for all tasks together, at least
FINE = 1e-6  # seconds, largest resolution of a clock: some systems count a thread's time in 1/64 s
REPORT_EVERY = 0.3  # seconds of measuring between two reports
# 97.5 % points of Student's t distribution, by degrees of freedom from 1; from the last on nearly the normal one's.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179)

Name = TypeVar("Name", bound=Hashable)
Item = TypeVar("Item")
Numbers = Sequence[int] | Sequence[float]


@dataclass(frozen=True)
class Machine:
    """Machine of a measurement, without which a time means nothing.

    threads: of this computation, on a CPU. library: of matrix products. cpu_time: whether times are those of this
    thread on its core, without other programs.
    """

    device: str
    dtype: str
    threads: int
    library: str
    cpu_time: bool = False

    def __str__(self) -> str:
        clock = "time of this thread alone" if self.cpu_time else "time by the clock"
        parts = (self.device, self.dtype, f"{self.threads} threads", clock, self.library)
        return ", ".join(filter(None, parts))


@dataclass(frozen=True)
class Times:
    """Seconds of a task: median and quartiles of `runs` runs."""

    median: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True)
class Fit:
    """Power law y = factor · xᵉˣᵖᵒⁿᵉⁿᵗ.

    error: half of the exponent's 95 % interval, NaN for two points.
    """

    exponent: float
    factor: float
    error: float
    xs: tuple[float, ...]

    def __call__(self, x: int | float) -> float:
        return self.factor * x**self.exponent

    def agrees(self, exponent: int | float) -> bool:
        """True of an exponent within the 95 % interval."""
        return abs(self.exponent - exponent) <= self.error


def exponent_of(name: str, growth: Fit | None) -> Quantity:
    """Quantity of an exponent, with its 95 % interval; NaN without a fit, or where two points leave no interval."""
    if growth is None:
        return Quantity(name, (math.nan,), interval=(math.nan, math.nan))
    low, high = growth.exponent - growth.error, growth.exponent + growth.error
    return Quantity(name, (growth.exponent,), interval=(low, high))


@dataclass(frozen=True)
class Task:
    """A timed task: `run`, on the result of `prepare`, which is not timed."""

    run: Callable[[Any], object]
    prepare: Callable[[], Any] = lambda: None


def machine(device: torch.device, dtype: torch.dtype) -> Machine:
    """Machine on which this thread computes."""
    name = str(dtype).removeprefix("torch.")
    if device.type == "cuda":
        return Machine(torch.cuda.get_device_name(device), name, torch.get_num_threads(), "cuBLAS")
    if device.type != "cpu":
        return Machine(device.type, name, torch.get_num_threads(), "")
    onednn = mkldnn.matmul.fp32_precision == "bf16" or dtype in (torch.bfloat16, torch.float16)
    blas = "MKL" if torch.backends.mkl.is_available() else "BLAS"
    kind = f"CPU {platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    library = "oneDNN" if onednn and mkldnn.is_available() else blas
    return Machine(kind, name, torch.get_num_threads(), library, clock_of(device) is time.thread_time)


def clock_of(device: torch.device) -> Callable[[], float]:
    """Clock in seconds: the thread's own time, which leaves out other programs, where one thread computes all; else
    the time of the wall.
    """
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    fine = time.get_clock_info("thread_time").resolution < FINE
    return time.thread_time if alone and fine else time.perf_counter


def settle(device: torch.device) -> None:
    """Wait until the device has done its work."""
    if device.type in ("cuda", "mps", "xpu"):
        torch.accelerator.synchronize(device)


def rounds(
    tasks: Mapping[Name, Task], device: torch.device, least: int = ROUNDS, seconds: float = SECONDS
) -> Iterator[dict[Name, Times]]:
    """Time every task in turn, again and again, so that other work of the machine meets them all alike; yield the times
    now and then, and at the end. least: runs of each task. seconds: of all tasks together, at least.
    """
    for task in tasks.values():  # the first run makes threads and kernels
        task.run(task.prepare())
    settle(device)
    measured: dict[Name, list[float]] = {name: [] for name in tasks}
    spent = last_report = 0.0  # of measured time only: the caller may pause between two reports
    count, clock = 0, clock_of(device)
    while count < least or spent < seconds:
        for name, task in tasks.items():
            prepared = task.prepare()
            settle(device)
            began = clock()
            task.run(prepared)
            settle(device)
            measured[name].append(clock() - began)
            spent += measured[name][-1]
        count += 1
        if spent - last_report > REPORT_EVERY and (count < least or spent < seconds):
            last_report = spent
            yield summaries(measured)
    yield summaries(measured)


def summaries(measured: Mapping[Name, Sequence[float]]) -> dict[Name, Times]:
    """Times of each task, from the seconds of its runs."""
    return {name: summary(seconds) for name, seconds in measured.items()}


def summary(seconds: Sequence[float]) -> Times:
    """Times of a task, from the seconds of its runs."""
    low, high = np.quantile(seconds, [0.25, 0.75])
    return Times(statistics.median(seconds), float(low), float(high), len(seconds))


def fit(xs: Numbers, ys: Numbers) -> Fit | None:
    """Power law through points by least squares of the logarithms; None from fewer than two different x above 0."""
    points = [(float(x), float(y)) for x, y in zip(xs, ys, strict=True) if x > 0 and y > 0]
    if len({x for x, _y in points}) < 2:
        return None
    x, y = (np.log([point[axis] for point in points]) for axis in (0, 1))
    around = x - x.mean()
    spread = float((around**2).sum())
    exponent = float((around * y).sum()) / spread
    rest = y - y.mean() - exponent * around
    left, free = float((rest**2).sum()), len(x) - 2
    error = student(free) * (left / free / spread) ** 0.5 if free else float("nan")
    factor = float(np.exp(y.mean() - exponent * x.mean()))
    return Fit(exponent, factor, error, tuple(x for x, _y in points))


def student(free: int) -> float:
    """Half-width of a 95 % interval in standard errors, with `free` degrees of freedom."""
    return STUDENT[free - 1] if free <= len(STUDENT) else 2.0 + 2.4 / free  # within 1 % of Student's


def upper(lengths: Sequence[int]) -> list[int]:
    """Lengths from an eighth of the longest on, from which growth is read: below, fixed costs show."""
    return [length for length in lengths if 8 * length >= max(lengths)]


def first_of_tail(items: Sequence[Item], holds: Callable[[Item], bool]) -> Item | None:
    """First item from which on a condition holds for all; None if it does not hold for the last."""
    tail = list(takewhile(holds, reversed(items)))
    return tail[-1] if tail else None


class LiveTensorBytes(TorchFunctionMode):
    """Context that counts the bytes of tensors made in it: of those that exist `now`, and their `peak`.

    It works on every device. Memory that an operation takes only while it computes is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._sizes: dict[StorageWeakRef, int] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        before = {_storage(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and _storage(leaf) not in before:
                self._sizes[_storage(leaf)] = leaf.untyped_storage().nbytes()
        self.peak = max(self.peak, self.now)
        return result

    @property
    def now(self) -> int:
        """Bytes of the tensors that exist now."""
        self._sizes = {storage: size for storage, size in self._sizes.items() if not storage.expired()}
        return sum(self._sizes.values())


def _storage(tensor: Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())


def peak_memory(task: Task) -> int:
    """Peak bytes of the tensors that a task makes."""
    prepared = task.prepare()
    with LiveTensorBytes() as alive:
        task.run(prepared)
    return alive.peak
