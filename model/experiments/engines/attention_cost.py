"""Cost of attention: modules of any size to measure, their operations counted, and the memory that they need."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from model.experiments.engines.timing import (
    ROUNDS,
    SECONDS,
    Fit,
    Machine,
    Numbers,
    Task,
    Times,
    first_of_tail,
    fit,
    machine,
    peak_memory,
    rounds,
    upper,
)
from model.experiments.runner import Report
from model.fast.attention import fused
from model.message import InputError
from model.network.attention import MultiHeadAttention
from model.network.config import TransformerConfig
from model.network.costs import attention_flops, parameters
from model.network.kernels import plain_kernels
from model.network.masks import Mask
from model.network.transformer import NothingDrawn
from model.runtime.device import give_back_memory
from model.runtime.memory import SPARE, available

MAPS = 3  # tensors of size query × key at a time: input and output of softmax, and the output of the next step
ROWS = 12  # tensors of size length × d: input, queries, keys, values, heads, and the outputs of a step
ROWS_BACKWARD = 14  # those kept for the backward pass, and the gradients


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Size of an attention, and its device. width: channels of a head, d_k."""

    batch: int
    heads: int
    width: int
    device: torch.device
    dtype: torch.dtype
    d_model: int | None = None  # None: heads × width

    @property
    def config(self) -> TransformerConfig:
        """Config of an encoder with one such attention."""
        d_model = self.d_model or self.heads * self.width
        options: dict[str, Any] = {"d_model": d_model, "n_heads": self.heads, "position": "none", "d_ff": 1}
        if self.d_model is not None:  # a width that does not follow from the other sizes
            options["head_width"] = self.width
        return TransformerConfig.one_stack("encoder-only", 1, 1, **options)

    @property
    def parameters(self) -> int:
        """Number of parameters of the attention."""
        return parameters(self.config)["attention"]


def operations(sizes: Sizes, length: int) -> dict[str, int]:
    """Floating-point operations on `length` tokens by step, 2 per multiply-add, counted in full whatever the mask.

    softmax: in each row the maximum, a difference, an exponential (as one), a sum and a quotient: 5 n − 2. fused: as
    many as the three steps before it.
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
    """Peak bytes of a measurement. backward: with gradients, and beside another attention, which is no larger."""
    size = sizes.dtype.itemsize
    maps = MAPS * sizes.batch * sizes.heads * length * length * size
    width = max(sizes.config.d_model, sizes.heads * sizes.width)
    rows = (ROWS_BACKWARD if backward else ROWS) * sizes.batch * length * width * size
    visible = (2 + size) * length * length  # as booleans, and as numbers that are added to the scores
    weights = (3 if backward else 1) * sizes.parameters * size
    initial = sizes.parameters // 4 * torch.float32.itemsize  # random numbers for one of the four matrices
    return maps + rows + visible + weights + initial


@dataclass(frozen=True)
class Room:
    """Bytes that a length needs, free bytes, and the longest length that fits, 0 where no allowed one does."""

    length: int
    needed: int
    free: int
    longest: int

    @property
    def enough(self) -> bool:
        """True of a length that fits, with some bytes to spare."""
        return SPARE * self.needed <= self.free


def room(sizes: Sizes, length: int, free: int | None = None, *, backward: bool = False, least: int = 1) -> Room:
    """Memory needed for `length` tokens. free: bytes; None: those of the device. least: smallest allowed length."""
    free = available(sizes.device) if free is None else free

    def too_many(tokens: int) -> bool:
        return SPARE * memory_needed(sizes, tokens, backward) > free

    longest = bisect_left(range(length + 1), True, lo=1, key=too_many) - 1
    return Room(length, memory_needed(sizes, length, backward), free, longest if longest >= least else 0)


def require_room(sizes: Sizes, length: int, *, backward: bool = False) -> None:
    """Check that a measurement fits into memory: a process that takes more than there is would be killed.

    Raises:
        ValueError: it does not fit.
    """
    give_back_memory()  # so that memory freed by this process counts as free
    memory = room(sizes, length, backward=backward, least=SHORTEST)
    if memory.enough:
        return
    needed, free = (f"{size / 1e9:.3g}" for size in (memory.needed, memory.free))
    if memory.longest:
        raise InputError(
            "{length} tokens need {needed} GB of memory and {free} GB are free: choose up to {longest} tokens, "
            "or make another number smaller",
            length=length,
            needed=needed,
            free=free,
            longest=memory.longest,
        )
    raise InputError(
        "{length} tokens need {needed} GB of memory and {free} GB are free: make the other numbers smaller",
        length=length,
        needed=needed,
        free=free,
    )


def new_attention(sizes: Sizes, seed: int = 0) -> MultiHeadAttention:
    """The network's own module with random weights of a seed, on the device; torch's generator is left as it is."""
    attention = _hollow(sizes).to_empty(device=sizes.device)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in attention.parameters():
            weight.copy_(torch.randn(weight.shape, generator=draw).mul_(weight.shape[-1] ** -0.5))
    return attention


def cut(attention: MultiHeadAttention, sizes: Sizes) -> MultiHeadAttention:
    """Attention with the same weights, cut into other heads."""
    other = _hollow(sizes)
    other.load_state_dict(attention.state_dict(), assign=True)
    return other


def _hollow(sizes: Sizes) -> MultiHeadAttention:
    with torch.device("meta"), NothingDrawn():
        return MultiHeadAttention(sizes.config).to(sizes.dtype).eval()


def standard_normal(sizes: Sizes, *shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers (*shape) of a seed, on the device."""
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return numbers.to(sizes.device, sizes.dtype)


def step_by_step(
    attention: MultiHeadAttention, x: Float[Tensor, "batch length d_model"]
) -> Float[Tensor, "batch length d_model"]:
    """Output of a whole attention whose maps are written into memory."""
    with plain_kernels():
        output: Tensor = attention(x, x, Mask())
    return output


# Growth of attention's time and memory with the length (Vaswani et al., table 1: O(n² d) a layer).

SHORTEST = 32
MOST = 1 << 24  # largest length that is considered
UNSURE = 0.5  # error of an exponent with which 1 cannot be told from 2
STEPS = ("projections", "scores", "softmax", "values", "fused")
QUADRATIC = ("scores", "softmax", "values")  # steps of the claim, O(n² d)
CLAIMED = {"projections": 1, "scores": 2, "softmax": 2, "values": 2, "fused": 2}  # exponents of n
CLAIMED_MEMORY = {"projections": 1, "scores": 2, "softmax": 2, "values": 1, "fused": 1}


@dataclass(frozen=True)
class Point:
    """Measurements at one length: seconds of each step, and bytes of the tensors that it makes."""

    length: int
    times: Mapping[str, Times]
    memory: Mapping[str, int]


@dataclass(frozen=True)
class Growth:
    """All measurements so far, shortest length first."""

    sizes: Sizes
    machine: Machine
    points: tuple[Point, ...]

    @property
    def lengths(self) -> list[int]:
        """Measured lengths in tokens."""
        return [point.length for point in self.points]

    def seconds(self, step: str) -> list[float]:
        """Median seconds of a step at each length."""
        return [point.times[step].median for point in self.points]

    def memory(self, step: str) -> list[int]:
        """Bytes of the tensors that a step makes at each length."""
        return [point.memory[step] for point in self.points]

    def time_fit(self, step: str) -> Fit | None:
        """Growth of the seconds of a step, see `upper_fit`."""
        return upper_fit(self.lengths, self.seconds(step))

    def memory_fit(self, step: str) -> Fit | None:
        """Growth of the bytes of a step, see `upper_fit`."""
        return upper_fit(self.lengths, self.memory(step))

    def quadratic_seconds(self) -> float:
        """Seconds of the three steps that grow with n², at the longest length."""
        return sum(self.seconds(step)[-1] for step in QUADRATIC)

    def speed(self, step: str) -> float:
        """Operations a second at the longest length."""
        return operations(self.sizes, self.lengths[-1])[step] / self.seconds(step)[-1]

    def overtaken(self) -> int | None:
        """Length from which on the steps that grow with n² take longer than the projections; None if from none."""

        def quadratic_longer(point: Point) -> bool:
            return sum(point.times[step].median for step in QUADRATIC) > point.times["projections"].median

        point = first_of_tail(self.points, quadratic_longer)
        return point.length if point else None


def lengths_up_to(longest: int) -> list[int]:
    """Lengths by doubling up to the longest, with some half-way between in the upper part, where growth is read."""
    lengths = {longest}
    length = SHORTEST
    while length < longest:
        lengths |= {length, length * 3 // 2} if 8 * length >= longest else {length}
        length *= 2
    return sorted(length for length in lengths if length <= longest)


def quadratic_operations(sizes: Sizes, length: int) -> int:
    """Operations of the three steps that grow with n²."""
    counts = operations(sizes, length)
    return sum(counts[step] for step in QUADRATIC)


def crossing(sizes: Sizes) -> int:
    """First length at which the three steps that grow with n² have more operations than the projections."""

    def more(length: int) -> bool:
        return quadratic_operations(sizes, length) > operations(sizes, length)["projections"]

    return bisect_left(range(MOST), True, lo=1, key=more)


Judgement = Literal["few", "unsure", "agrees", "faster", "slower"]


def judge(growth: Fit | None, claimed: int) -> Judgement:
    """Comparison of a fitted exponent with the claimed one, as far as that can be told."""
    if growth is None or math.isnan(growth.error):
        return "few"
    if growth.error > UNSURE:
        return "unsure"
    if growth.agrees(claimed):
        return "agrees"
    return "faster" if growth.exponent > claimed else "slower"


def upper_fit(lengths: Sequence[int], values: Numbers) -> Fit | None:
    """Growth of values with the length, in the upper part of the lengths; None from fewer than two points."""
    upper_lengths = upper(lengths)
    return fit(upper_lengths, values[-len(upper_lengths) :])


def growth(sizes: Sizes, longest: int, least: int = ROUNDS, seconds: float = SECONDS) -> Iterator[Report[Growth]]:
    """Measure each step at ever longer lengths. least: runs. seconds: at each length, at least.

    Raises:
        ValueError: the longest does not fit into memory.
    """
    require_room(sizes, longest)
    lengths, spent = lengths_up_to(longest), 0.0
    points: list[Point] = []
    attention, here = new_attention(sizes), machine(sizes.device, sizes.dtype)
    with torch.inference_mode():
        for number, length in enumerate(lengths):
            require_room(sizes, length)  # other programs take memory too
            tasks = steps(attention, sizes, length)
            memory = {name: peak_memory(task) for name, task in tasks.items()}
            taken = 0.0
            for times in rounds(tasks, sizes.device, least, seconds):
                runs = next(iter(times.values())).runs
                round_seconds = sum(step.median for step in times.values())
                taken = runs * round_seconds
                # A round takes four times as long with each doubling, once it takes longer than the minimum.
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
    """Tasks of the network's own modules, one by one, and of the kernel that does all of them at once.

    Queries and keys are made before. One map is the input of both softmax and weighting: that saves memory, and times
    do not depend on the numbers.
    """
    x = standard_normal(sizes, sizes.batch, length, sizes.config.d_model)
    query = attention.query(x)
    key, value = attention.keys_and_values(x)
    visible = Mask().visible(length, length, sizes.device)
    scaled = attention.scaled(attention.scores(query, key))

    def projections(_given: Any) -> object:
        return attention.query(x), attention.keys_and_values(x), attention.output(x_heads)

    x_heads = standard_normal(sizes, sizes.batch, length, sizes.heads * sizes.width, seed=1)
    return {
        "projections": Task(projections),
        "scores": Task(lambda _given: attention.scores(query, key)),
        "softmax": Task(lambda _given: attention.weights(scaled, visible)),
        "values": Task(lambda _given: scaled @ value),
        "fused": Task(lambda _given: fused(attention, query, key, value, Mask())),
    }
