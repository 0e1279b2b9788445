"""Cost of heads: h heads of d/h beside one of d, and narrow heads beside wide ones (section 3.2.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from model.experiments.engines.attention_cost import (
    Sizes,
    cut,
    new_attention,
    operations,
    require_room,
    standard_normal,
    step_by_step,
)
from model.experiments.engines.timing import ROUNDS, SECONDS, Machine, Task, Times, machine, rounds
from model.experiments.runner import Report
from model.network.attention import MultiHeadAttention
from model.network.masks import Mask

PIECES = ("fused", "explicit", "products", "softmax")
SAME = 0.1  # as a share: closer times are called the same
WAYS = ("narrow", "wide")
PASSES = ("forward", "backward")


@dataclass(frozen=True)
class HeadTimes:
    """Times of each piece, by the number of heads or one of `WAYS`, on `length` tokens."""

    sizes: Mapping[Any, Sizes]
    length: int
    machine: Machine
    times: Mapping[tuple[Any, str], Times]

    def median(self, what: object, piece: str) -> float:
        """Median seconds of a piece, of a number of heads or a way."""
        return self.times[what, piece].median


def head_counts(d_model: int) -> list[int]:
    """Numbers of heads that divide d_model, up to d_model / 2."""
    return [heads for heads in range(1, d_model // 2 + 1) if d_model % heads == 0] or [1]


def with_heads(sizes: Sizes, heads: int) -> Sizes:
    """Sizes with the same d_model in another number of heads."""
    return replace(sizes, heads=heads, width=sizes.config.d_model // heads)


def counted(sizes: Sizes, length: int) -> dict[str, int]:
    """Operations of a whole attention on `length` tokens: of its matrix products, and of its softmax."""
    counts = operations(sizes, length)
    return {"products": counts["projections"] + counts["scores"] + counts["values"], "softmax": counts["softmax"]}


def all_operations(sizes: Sizes, length: int) -> int:
    """Operations of a whole attention on `length` tokens."""
    return sum(counted(sizes, length).values())


def by_heads(sizes: Sizes, length: int, least: int = ROUNDS, seconds: float = SECONDS) -> Iterator[Report[HeadTimes]]:
    """Time an attention with 1 to d / 2 heads, in the fused kernel and step by step, and its pieces, all interleaved.

    Raises:
        ValueError: the largest number of heads does not fit into memory.
    """
    several = {heads: with_heads(sizes, heads) for heads in head_counts(sizes.config.d_model)}
    require_room(several[max(several)], length)
    attention = new_attention(several[1])
    tasks: dict[tuple[Any, str], Task] = {}
    with torch.inference_mode():
        x = standard_normal(sizes, sizes.batch, length, sizes.config.d_model)
        for heads, other in several.items():
            tasks |= {(heads, piece): task for piece, task in _pieces(cut(attention, other), x).items()}
        yield from _timed(several, length, tasks, sizes, least, seconds)


def _pieces(attention: MultiHeadAttention, x: Tensor) -> dict[str, Task]:
    """Tasks of the pieces of an attention; their inputs, of which there are many, are made only when needed."""

    def projected() -> tuple[Tensor, Tensor, Tensor]:
        return attention.query(x), *attention.keys_and_values(x)

    def products(given: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        query, key, value = given
        output: Tensor = attention.scores(query, key) @ value
        return output

    def masked() -> tuple[Tensor, Tensor]:
        scaled = attention.scaled(attention.scores(attention.query(x), attention.key(x)))
        return scaled, Mask().visible(x.shape[1], x.shape[1], x.device)

    return {
        "fused": Task(lambda _given: attention(x, x, Mask())),
        "explicit": Task(lambda _given: step_by_step(attention, x)),
        "products": Task(products, projected),
        "softmax": Task(lambda given: attention.weights(*given), masked),
    }


def narrow_and_wide(sizes: Sizes) -> dict[str, Sizes]:
    """Sizes of h heads of d / h, and of h heads that are all as wide as d."""
    d_model = sizes.config.d_model
    return {
        "narrow": replace(sizes, width=d_model // sizes.heads, d_model=d_model),
        "wide": replace(sizes, width=d_model, d_model=d_model),
    }


def ways(sizes: Sizes, length: int, least: int = ROUNDS, seconds: float = SECONDS) -> Iterator[Report[HeadTimes]]:
    """Time an attention of each way, forwards as in training, and backwards to its weights and its input.

    Raises:
        ValueError: the wide one does not fit into memory.
    """
    both = narrow_and_wide(sizes)
    require_room(both["wide"], length, backward=True)
    tasks: dict[tuple[Any, str], Task] = {}
    for way, size in both.items():
        attention = new_attention(size).train()
        x = standard_normal(size, size.batch, length, size.config.d_model).requires_grad_()
        tasks[way, "forward"], tasks[way, "backward"] = _passes(attention, x)
    yield from _timed(both, length, tasks, sizes, least, seconds)


def _passes(attention: MultiHeadAttention, x: Tensor) -> tuple[Task, Task]:
    def forward(_given: Any = None) -> Tensor:
        output: Tensor = attention(x, x, Mask())
        return output

    inputs = [x, *attention.parameters()]
    gradient = torch.ones_like(x)
    return Task(forward), Task(lambda output: torch.autograd.grad(output, inputs, gradient), forward)


def _timed(
    several: Mapping[Any, Sizes],
    length: int,
    tasks: Mapping[tuple[Any, str], Task],
    sizes: Sizes,
    least: int,
    seconds: float,
) -> Iterator[Report[HeadTimes]]:
    here = machine(sizes.device, sizes.dtype)
    for times in rounds(tasks, sizes.device, least, seconds * len(several)):
        runs = next(iter(times.values())).runs
        spent = runs * sum(piece.median for piece in times.values())
        left = max(0.0, seconds * len(several) - spent, (least - runs) * spent / runs)
        yield Report(spent / (spent + left), HeadTimes(several, length, here, times))
