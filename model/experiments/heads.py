"""What heads cost: h heads of d/h beside one of d, and narrow heads beside wide ones (section 3.2.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from model.attention import MultiHeadAttention
from model.experiments.attentions import Sizes, drawn, made, operations, require_room, step_by_step
from model.experiments.running import Report
from model.experiments.timing import ROUNDS, SECONDS, Machine, Task, Times, machine, rounds
from model.masks import Mask

PIECES = ("fused", "explicit", "products", "softmax")
SAME = 0.1  # as a share: times nearer to each other than this are called the same
WAYS = ("narrow", "wide")
PASSES = ("forward", "backward")


@dataclass(frozen=True)
class Timed:
    """Seconds of each piece, by what was measured: a number of heads, or a way of making them."""

    sizes: Mapping[Any, Sizes]
    length: int
    machine: Machine
    times: Mapping[tuple[Any, str], Times]

    def median(self, what: object, piece: str) -> float:
        return self.times[what, piece].median


def head_counts(d_model: int) -> list[int]:
    """Every h that divides d, up to d / 2."""
    return [heads for heads in range(1, d_model // 2 + 1) if d_model % heads == 0] or [1]


def with_heads(sizes: Sizes, heads: int) -> Sizes:
    """The same d in other pieces."""
    return replace(sizes, heads=heads, width=sizes.config.d_model // heads)


def counted(sizes: Sizes, length: int) -> dict[str, int]:
    """Operations of a whole attention: its matrix products, its softmax."""
    found = operations(sizes, length)
    return {"products": found["projections"] + found["scores"] + found["values"], "softmax": found["softmax"]}


def by_heads(sizes: Sizes, length: int, least: int = ROUNDS, seconds: float = SECONDS) -> Iterator[Report[Timed]]:
    """A whole attention with 1 to d / 2 heads, in the fused kernel and step by step, and its pieces; all interleaved.

    Raises:
        ValueError: the most heads do not fit.
    """
    several = {heads: with_heads(sizes, heads) for heads in head_counts(sizes.config.d_model)}
    require_room(several[max(several)], length)
    attentions: dict[int, MultiHeadAttention] = {}
    for heads, each in several.items():
        attentions[heads] = made(each)
        # The same weights for all: they are only cut otherwise.
        attentions[heads].load_state_dict(attentions[1].state_dict(), assign=True)
    tasks: dict[tuple[Any, str], Task] = {}
    with torch.inference_mode():
        x = drawn(sizes, sizes.batch, length, sizes.config.d_model)
        for heads, attention in attentions.items():
            tasks |= {(heads, piece): task for piece, task in _pieces(attention, x).items()}
        yield from _timed(several, length, tasks, sizes, least, seconds)


def _pieces(attention: MultiHeadAttention, x: Tensor) -> dict[str, Task]:
    """Maps are made when they are needed, and not kept: all numbers of heads together have many."""
    length = x.shape[1]
    visible = Mask().visible(length, length, x.device)
    query = attention.query(x)
    key, value = attention.project(x)

    def scaled() -> Tensor:
        found: Tensor = attention.scaled(attention.scores(query, key))
        return found

    return {
        "fused": Task(lambda _given: attention(x, x, Mask())),
        "explicit": Task(lambda _given: step_by_step(attention, x)),
        "products": Task(lambda _given: attention.scores(query, key) @ value),
        "softmax": Task(lambda given: attention.weights(given, visible), scaled),
    }


def narrow_and_wide(sizes: Sizes) -> dict[str, Sizes]:
    """h heads of d / h, and h heads that are each as wide as the whole d."""
    d_model = sizes.config.d_model
    return {
        "narrow": Sizes(**(vars(sizes) | {"width": d_model // sizes.heads, "d_model": d_model})),
        "wide": Sizes(**(vars(sizes) | {"width": d_model, "d_model": d_model})),
    }


def ways(sizes: Sizes, length: int, least: int = ROUNDS, seconds: float = SECONDS) -> Iterator[Report[Timed]]:
    """One attention of each way, forwards as in training, and backwards to its weights and its input.

    Raises:
        ValueError: the wide one does not fit.
    """
    both = narrow_and_wide(sizes)
    require_room(both["wide"], length)
    tasks: dict[tuple[Any, str], Task] = {}
    for way, each in both.items():
        attention = made(each).train()
        x = drawn(each, each.batch, length, each.config.d_model).requires_grad_()
        tasks[way, "forward"], tasks[way, "backward"] = _passes(attention, x)
    yield from _timed(both, length, tasks, sizes, least, seconds)


def _passes(attention: MultiHeadAttention, x: Tensor) -> tuple[Task, Task]:
    def forward(_given: Any = None) -> Tensor:
        output: Tensor = attention(x, x, Mask())
        return output

    read = [x, *attention.parameters()]
    gradient = torch.ones_like(x)
    return Task(forward), Task(lambda output: torch.autograd.grad(output, read, gradient), forward)


def _timed(
    several: Mapping[Any, Sizes],
    length: int,
    tasks: Mapping[tuple[Any, str], Task],
    sizes: Sizes,
    least: int,
    seconds: float,
) -> Iterator[Report[Timed]]:
    here = machine(sizes.device, sizes.dtype)
    for times in rounds(tasks, sizes.device, least, seconds * len(several)):
        runs = next(iter(times.values())).runs
        spent = runs * sum(each.median for each in times.values())
        left = max(0.0, seconds * len(several) - spent, (least - runs) * spent / runs)
        yield Report(spent / (spent + left), Timed(several, length, here, times))
