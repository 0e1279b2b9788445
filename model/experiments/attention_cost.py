"""Attentions of any size to measure, what they compute counted, and whether they fit into memory."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from model.experiments.runner import Report
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
from model.fast.attention import fused
from model.network.attention import MultiHeadAttention
from model.network.config import TransformerConfig
from model.network.costs import attention_flops, parameters
from model.network.kernels import plain_kernels
from model.network.masks import Mask
from model.network.transformer import NothingDrawn
from model.runtime.device import give_back_memory
from model.runtime.memory import SPARE, available

MAPS = 3  # of size query × key that are there at once: what softmax reads, what it makes, what the next step makes
ROWS = 12  # of size length × d: the input, queries, keys, values, heads, and what a step makes of them
ROWS_BACKWARD = 14  # and what is kept for the way back, and the gradients


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """One attention, and where it computes. width: channels of a head, d_k."""

    batch: int
    heads: int
    width: int
    device: torch.device
    dtype: torch.dtype
    d_model: int | None = None  # None: heads × width

    @property
    def config(self) -> TransformerConfig:
        """An encoder of one such attention."""
        d_model = self.d_model or self.heads * self.width
        options: dict[str, Any] = {"d_model": d_model, "n_heads": self.heads, "position": "none", "d_ff": 1}
        # A width that does not follow from the others is said.
        split = self.d_model is None
        options |= {} if split else {"head_width": self.width}
        return TransformerConfig.one_stack("encoder-only", 1, 1, **options)

    @property
    def parameters(self) -> int:
        return parameters(self.config)["attention"]


def operations(sizes: Sizes, length: int) -> dict[str, int]:
    """Floating-point operations on `length` tokens by step, 2 per multiply-add, counted in full.

    softmax: in each row the maximum, a difference, an exponential (as one), a sum and a quotient: 5 n − 2.
    fused: the same as the three steps before it.
    """
    counted = attention_flops(sizes.config, length, length)
    half = sizes.batch * counted["scores"] // 2
    softmax = sizes.batch * sizes.heads * length * (5 * length - 2)
    return {
        "projections": sizes.batch * counted["attention"],
        "scores": half,
        "softmax": softmax,
        "values": half,
        "fused": 2 * half + softmax,
    }


def memory_needed(sizes: Sizes, length: int, backward: bool = False) -> int:
    """Bytes that measuring takes at its fullest. backward: gradients are made, and another attention is there too,
    which is no larger.
    """
    size = sizes.dtype.itemsize
    maps = MAPS * sizes.batch * sizes.heads * length * length * size
    width = max(sizes.config.d_model, sizes.heads * sizes.width)
    rows = (ROWS_BACKWARD if backward else ROWS) * sizes.batch * length * width * size
    visible = (2 + size) * length * length  # as booleans, and as what is added to the scores
    weights = (3 if backward else 1) * sizes.parameters * size
    drawn = sizes.parameters // 4 * torch.float32.itemsize  # the one of four matrices that is being made
    return maps + rows + visible + weights + drawn


@dataclass(frozen=True)
class Room:
    """Bytes that a length needs, and free ones; the longest that would fit, 0 where none that is allowed does."""

    length: int
    needed: int
    free: int
    longest: int

    @property
    def enough(self) -> bool:
        return SPARE * self.needed <= self.free


def room(sizes: Sizes, length: int, free: int | None = None, *, backward: bool = False, least: int = 1) -> Room:
    """Whether so many tokens fit. free: bytes, for the device's own where None. least: tokens that are allowed."""
    free = available(sizes.device) if free is None else free

    def too_many(tokens: int) -> bool:
        return SPARE * memory_needed(sizes, tokens, backward) > free

    longest = bisect_left(range(length + 1), True, lo=1, key=too_many) - 1
    return Room(length, memory_needed(sizes, length, backward), free, longest if longest >= least else 0)


def require_room(sizes: Sizes, length: int, *, backward: bool = False) -> None:
    """What does not fit is not begun: a process that takes more than there is is killed.

    Raises:
        ValueError: it does not fit.
    """
    give_back_memory()  # what this process has freed is free
    found = room(sizes, length, backward=backward)
    if not found.enough:
        raise ValueError(
            f"{length} tokens need {found.needed / 1e9:.1f} GB of memory and {found.free / 1e9:.1f} GB are free: "
            "choose fewer"
        )


def made(sizes: Sizes, seed: int = 0) -> MultiHeadAttention:
    """The network's own module with random weights, on the device; other draws of random numbers go on undisturbed."""
    attention = _hollow(sizes).to_empty(device=sizes.device)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in attention.parameters():
            weight.copy_(torch.randn(weight.shape, generator=draw).mul_(weight.shape[-1] ** -0.5))
    return attention


def cut(attention: MultiHeadAttention, sizes: Sizes) -> MultiHeadAttention:
    """The very same weights, in other heads."""
    other = _hollow(sizes)
    other.load_state_dict(attention.state_dict(), assign=True)
    return other


def _hollow(sizes: Sizes) -> MultiHeadAttention:
    with torch.device("meta"), NothingDrawn():
        return MultiHeadAttention(sizes.config).to(sizes.dtype).eval()


def drawn(sizes: Sizes, *shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers of a seed, on the device."""
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return numbers.to(sizes.device, sizes.dtype)


def step_by_step(attention: MultiHeadAttention, x: Tensor) -> Tensor:
    """The whole attention, its maps written into memory."""
    with plain_kernels():
        output: Tensor = attention(x, x, Mask())
    return output


# How the time and memory of attention grow with the length (Vaswani et al., table 1: O(n² d) a layer).

SHORTEST = 32
MOST = 1 << 24  # a length beyond which nobody asks
UNSURE = 0.5  # an exponent that is not known better tells 1 from 2 no more
STEPS = ("projections", "scores", "softmax", "values", "fused")
QUADRATIC = ("scores", "softmax", "values")  # steps of the claim, O(n² d)
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

    def time_fit(self, step: str) -> Fit | None:
        return upper_fit(self.lengths, self.seconds(step))

    def memory_fit(self, step: str) -> Fit | None:
        return upper_fit(self.lengths, self.memory(step))

    def quadratic_seconds(self) -> float:
        """Of the three steps that grow with n², at the longest length."""
        return sum(self.seconds(step)[-1] for step in QUADRATIC)

    def speed(self, step: str) -> float:
        """Operations a second at the longest length."""
        return operations(self.sizes, self.lengths[-1])[step] / self.seconds(step)[-1]

    def overtaken(self) -> int | None:
        """The length from which on the steps that grow with n² take longer than the projections; None: from none."""
        found = None
        for point in reversed(self.points):
            quadratic = sum(point.times[step].median for step in QUADRATIC)
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


def quadratic_operations(sizes: Sizes, length: int) -> int:
    """Of the three steps that grow with n²."""
    counted = operations(sizes, length)
    return sum(counted[step] for step in QUADRATIC)


def crossing(sizes: Sizes) -> int:
    """The first length at which the three steps have more operations than the projections."""

    def more(length: int) -> bool:
        return quadratic_operations(sizes, length) > operations(sizes, length)["projections"]

    return bisect_left(range(MOST), True, lo=1, key=more)


Judgement = Literal["few", "unsure", "agrees", "faster", "slower"]


def judge(found: Fit | None, claimed: int) -> Judgement:
    """Whether a fitted exponent is the claimed one, as far as that can be told."""
    if found is None or math.isnan(found.error):
        return "few"
    if found.error > UNSURE:
        return "unsure"
    if found.agrees(claimed):
        return "agrees"
    return "faster" if found.exponent > claimed else "slower"


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
    key, value = attention.keys_and_values(x)
    visible = Mask().visible(length, length, sizes.device)
    scaled = attention.scaled(attention.scores(query, key))

    def projections(_given: Any) -> object:
        return attention.query(x), attention.keys_and_values(x), attention.output(x_heads)

    x_heads = drawn(sizes, sizes.batch, length, sizes.heads * sizes.width, seed=1)
    return {
        "projections": Task(projections),
        "scores": Task(lambda _given: attention.scores(query, key)),
        "softmax": Task(lambda _given: attention.weights(scaled, visible)),
        "values": Task(lambda _given: scaled @ value),
        "fused": Task(lambda _given: fused(attention, query, key, value, Mask())),
    }
