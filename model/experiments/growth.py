"""How the time and memory of attention grow with the length (Vaswani et al., table 1: O(n² d) a layer)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from model.experiments.attentions import Sizes, drawn, made, operations, require_room
from model.experiments.running import Report
from model.experiments.timing import (
    ROUNDS,
    SECONDS,
    Fit,
    Machine,
    Numbers,
    Task,
    Times,
    fit,
    machine,
    peak_memory,
    rounds,
    upper,
)
from model.network.attention import MultiHeadAttention
from model.network.masks import Mask

SHORTEST = 32
STEPS = ("projections", "scores", "softmax", "values", "fused")
CLAIMED = {"projections": 1, "scores": 2, "softmax": 2, "values": 2, "fused": 2}  # exponents of n
CLAIMED_MEMORY = {"projections": 1, "scores": 2, "softmax": 2, "values": 1, "fused": 1}


@dataclass(frozen=True)
class Point:
    """One length: seconds of each step, and bytes of the tensors that it makes."""

    length: int
    times: Mapping[str, Times]
    memory: Mapping[str, int]


@dataclass(frozen=True)
class Growth:
    """All that has been measured so far, shortest first."""

    sizes: Sizes
    machine: Machine
    points: tuple[Point, ...]

    @property
    def lengths(self) -> list[int]:
        return [point.length for point in self.points]

    def seconds(self, step: str) -> list[float]:
        return [point.times[step].median for point in self.points]

    def memory(self, step: str) -> list[int]:
        return [point.memory[step] for point in self.points]

    def speed(self, step: str) -> float:
        """Operations a second at the longest length."""
        return operations(self.sizes, self.lengths[-1])[step] / self.seconds(step)[-1]

    def overtaken(self) -> int | None:
        """The length from which on the steps that grow with n² take longer than the projections; None: from none."""
        found = None
        for point in reversed(self.points):
            quadratic = sum(point.times[step].median for step in ("scores", "softmax", "values"))
            if not quadratic > point.times["projections"].median:
                break
            found = point.length
        return found


def lengths_up_to(longest: int) -> list[int]:
    """By doubling to the longest itself, and in the upper part, where growth is read, half-way between too."""
    found = {longest}
    length = SHORTEST
    while length < longest:
        found |= {length, length * 3 // 2} if 8 * length >= longest else {length}
        length *= 2
    return sorted(each for each in found if each <= longest)


def upper_fit(lengths: Sequence[int], values: Numbers) -> Fit | None:
    """The exponent of growth in the upper part."""
    kept = upper(lengths)
    return fit(kept, values[-len(kept) :])


def growth(sizes: Sizes, longest: int, least: int = ROUNDS, seconds: float = SECONDS) -> Iterator[Report[Growth]]:
    """Measure each step at ever longer lengths.

    Raises:
        ValueError: the longest does not fit.
    """
    require_room(sizes, longest)
    lengths, spent = lengths_up_to(longest), 0.0
    points: list[Point] = []
    attention, here = made(sizes), machine(sizes.device, sizes.dtype)
    with torch.inference_mode():
        for number, length in enumerate(lengths):
            require_room(sizes, length)  # others take memory too
            tasks = steps(attention, sizes, length)
            memory = {name: peak_memory(task) for name, task in tasks.items()}
            taken = 0.0
            for times in rounds(tasks, sizes.device, least, seconds):
                runs = next(iter(times.values())).runs
                round_seconds = sum(each.median for each in times.values())
                taken = runs * round_seconds
                # What is to come takes four times as long with each doubling, once it takes longer than it has to.
                here_left = max(0.0, max(seconds, least * round_seconds) - taken)
                later = sum(max(seconds, least * round_seconds * (n / length) ** 2) for n in lengths[number + 1 :])
                done = spent + taken
                newest = Point(length, times, memory)
                share = done / (done + here_left + later)
                yield Report(min(1.0, share), Growth(sizes, here, (*points, newest)))
            points.append(newest)
            spent += taken
            del tasks  # its tensors, before the next length is asked whether it fits


def steps(attention: MultiHeadAttention, sizes: Sizes, length: int) -> dict[str, Task]:
    """The network's own modules one by one, and the kernel that does it all at once.

    Queries, keys and weights are made before; one map serves the softmax and the weighting as what they read, since
    neither time depends on the numbers, and memory does.
    """
    x = drawn(sizes, sizes.batch, length, sizes.config.d_model)
    query = attention.query(x)
    key, value = attention.project(x)
    visible = Mask().visible(length, length, sizes.device)
    scaled = attention.scaled(attention.scores(query, key))

    def projections(_given: Any) -> object:
        return attention.query(x), attention.project(x), attention.output(x_heads)

    x_heads = drawn(sizes, sizes.batch, length, sizes.heads * sizes.width, seed=1)
    return {
        "projections": Task(projections),
        "scores": Task(lambda _given: attention.scores(query, key)),
        "softmax": Task(lambda _given: attention.weights(scaled, visible)),
        "values": Task(lambda _given: scaled @ value),
        "fused": Task(lambda _given: attention.fused(query, key, value, Mask())),
    }
