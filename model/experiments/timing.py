"""Times and memory of small pieces of a network, and how they grow: medians of many runs, interleaved."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from model.fast.matmul import mkldnn

ROUNDS = 5  # at least so many of each
SECONDS = 0.4  # and at least so long for all of them together
FINE = 1e-6  # seconds that a clock must tell apart: some systems count a thread's time in 1/64 s
SHOWN = 0.3  # seconds of measuring between two reports
# 97.5 % points of Student's t distribution, by degrees of freedom from 1; from the last on nearly the normal one's.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179)

Name = TypeVar("Name", bound=Hashable)
Numbers = Sequence[int] | Sequence[float]


@dataclass(frozen=True)
class Machine:
    """What has measured: a time means nothing without it."""

    device: str
    dtype: str
    threads: int  # of this computation; on another device than the CPU they compute nothing
    library: str  # of its matrix products
    cpu_time: bool = False  # only the turns that this computation had of its core, not those of other programs


@dataclass(frozen=True)
class Times:
    """Seconds: the median of `runs`, and the quartiles."""

    median: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True)
class Fit:
    """y = factor · xᵉˣᵖᵒⁿᵉⁿᵗ. error: half of the exponent's 95 % interval, NaN from two points; r2: of the logs."""

    exponent: float
    factor: float
    error: float
    r2: float
    xs: tuple[float, ...]

    def __call__(self, x: int | float) -> float:
        return self.factor * x**self.exponent

    def agrees(self, exponent: int | float) -> bool:
        """Whether an exponent lies within the interval."""
        return abs(self.exponent - exponent) <= self.error


@dataclass(frozen=True)
class Task:
    """What is timed: `run` of what `prepare` has made, which is not timed."""

    run: Callable[[Any], object]
    prepare: Callable[[], Any] = lambda: None


def machine(device: torch.device, dtype: torch.dtype) -> Machine:
    """As this thread computes."""
    name = str(dtype).removeprefix("torch.")
    if device.type == "cuda":
        return Machine(torch.cuda.get_device_name(device), name, torch.get_num_threads(), "cuBLAS")
    if device.type != "cpu":
        return Machine(device.type, name, torch.get_num_threads(), "")
    onednn = mkldnn.matmul.fp32_precision == "bf16" or dtype in (torch.bfloat16, torch.float16)
    own = "MKL" if torch.backends.mkl.is_available() else "BLAS"
    kind = f"CPU {platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    library = "oneDNN" if onednn and mkldnn.is_available() else own
    return Machine(kind, name, torch.get_num_threads(), library, clock_of(device) is time.thread_time)


def clock_of(device: torch.device) -> Callable[[], float]:
    """What tells the seconds: one thread's own time, so that nobody else's work is counted, where one thread computes
    all; else that of the wall.
    """
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    fine = time.get_clock_info("thread_time").resolution < FINE
    return time.thread_time if alone and fine else time.perf_counter


def settle(device: torch.device) -> None:
    """Wait until the device has computed what it was given."""
    if device.type in ("cuda", "mps", "xpu"):
        torch.accelerator.synchronize(device)


def rounds(
    tasks: Mapping[Name, Task], device: torch.device, least: int = ROUNDS, seconds: float = SECONDS
) -> Iterator[dict[Name, Times]]:
    """Every task once, again and again: so what else the machine does meets them all alike. Reports now and then, and
    at the end.
    """
    for task in tasks.values():  # threads and kernels are made once
        task.run(task.prepare())
    settle(device)
    found: dict[Name, list[float]] = {name: [] for name in tasks}
    spent = shown = 0.0  # only what is measured counts: between two reports somebody may rest
    count, clock = 0, clock_of(device)
    while count < least or spent < seconds:
        for name, task in tasks.items():
            given = task.prepare()
            settle(device)
            began = clock()
            task.run(given)
            settle(device)
            found[name].append(clock() - began)
            spent += found[name][-1]
        count += 1
        if spent - shown > SHOWN and (count < least or spent < seconds):
            shown = spent
            yield summaries(found)
    yield summaries(found)


def summaries(found: Mapping[Name, Sequence[float]]) -> dict[Name, Times]:
    return {name: summary(seconds) for name, seconds in found.items()}


def summary(seconds: Sequence[float]) -> Times:
    low, high = np.quantile(seconds, [0.25, 0.75])
    return Times(statistics.median(seconds), float(low), float(high), len(seconds))


def fit(xs: Numbers, ys: Numbers) -> Fit | None:
    """The straight line through the logarithms, by least squares; None from fewer than two points above 0."""
    points = [(float(x), float(y)) for x, y in zip(xs, ys, strict=True) if x > 0 and y > 0]
    if len({x for x, _y in points}) < 2:
        return None
    x, y = (np.log([point[axis] for point in points]) for axis in (0, 1))
    around = x - x.mean()
    spread = float((around**2).sum())
    exponent = float((around * y).sum()) / spread
    rest = y - y.mean() - exponent * around
    total, left, free = float(((y - y.mean()) ** 2).sum()), float((rest**2).sum()), len(x) - 2
    error = student(free) * (left / free / spread) ** 0.5 if free else float("nan")
    factor = float(np.exp(y.mean() - exponent * x.mean()))
    return Fit(exponent, factor, error, 1 - left / total if total else 1.0, tuple(x for x, _y in points))


def student(free: int) -> float:
    """How many standard errors the 95 % interval reaches with so many degrees of freedom."""
    return STUDENT[free - 1] if free <= len(STUDENT) else 2.0 + 2.4 / free  # within 1 % of Student's


def upper(lengths: Sequence[int]) -> list[int]:
    """The part that growth is read from: lengths from an eighth of the longest on; below, fixed costs show."""
    return [length for length in lengths if 8 * length >= max(lengths)]


class Alive(TorchFunctionMode):
    """Counts the bytes of the tensors that are made inside it and still there: `now`, and at most, `peak`.

    Every device alike. What an operation takes for itself while it computes, and gives back, is not seen.
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
        before = {_storage(each) for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)}
        made = func(*args, **(kwargs or {}))
        for each in tree_leaves(made):
            if isinstance(each, Tensor) and _storage(each) not in before:
                self._sizes[_storage(each)] = each.untyped_storage().nbytes()
        self.peak = max(self.peak, self.now)
        return made

    @property
    def now(self) -> int:
        self._sizes = {storage: size for storage, size in self._sizes.items() if not storage.expired()}
        return sum(self._sizes.values())


def _storage(tensor: Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())


def peak_memory(task: Task) -> int:
    """Bytes of the tensors that a task makes, when most of them are there."""
    given = task.prepare()
    with Alive() as alive:
        task.run(given)
    return alive.peak
