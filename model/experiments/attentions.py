"""Attentions of any size to measure, what they compute counted, and whether they fit into memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from model.analysis.costs import attention_flops, parameters
from model.attention import MultiHeadAttention, explicit_attention
from model.config import TransformerConfig
from model.masks import Mask
from model.memory import SPARE, available
from model.skeleton import NothingDrawn

MAPS = 3  # of size query × key that are there at once: what softmax reads, what it makes, what the next step makes
ROWS = 8  # of size length × d: the input, queries, keys, values, heads, the output, and two that are being made


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


def memory_needed(sizes: Sizes, length: int) -> int:
    """Bytes that measuring takes at its fullest."""
    maps = MAPS * sizes.batch * sizes.heads * length * length * sizes.dtype.itemsize
    rows = ROWS * sizes.batch * length * max(sizes.config.d_model, sizes.heads * sizes.width) * sizes.dtype.itemsize
    visible = 2 * length * length  # booleans
    return maps + rows + visible + sizes.parameters * sizes.dtype.itemsize


@dataclass(frozen=True)
class Room:
    """Bytes that are needed and free, and the longest length that would fit, 0 where none does."""

    needed: int
    free: int
    longest: int

    @property
    def enough(self) -> bool:
        return SPARE * self.needed <= self.free


def room(sizes: Sizes, length: int, free: int | None = None) -> Room:
    """Whether so many tokens fit. free: bytes, for the device's own where None."""
    free = available(sizes.device) if free is None else free
    longest = length
    while longest and SPARE * memory_needed(sizes, longest) > free:
        longest //= 2
    return Room(memory_needed(sizes, length), free, longest)


def require_room(sizes: Sizes, length: int) -> None:
    """What does not fit is not begun: a process that takes more than there is is killed.

    Raises:
        ValueError: it does not fit.
    """
    found = room(sizes, length)
    if not found.enough:
        raise ValueError(
            f"{length} tokens need {found.needed / 1e9:.1f} GB of memory and {found.free / 1e9:.1f} GB are free: "
            "choose fewer"
        )


def made(sizes: Sizes, seed: int = 0) -> MultiHeadAttention:
    """The network's own module with random weights, on the device; other draws of random numbers go on undisturbed."""
    with torch.device("meta"), NothingDrawn():
        attention = MultiHeadAttention(sizes.config)
    attention = attention.to(sizes.dtype).to_empty(device=sizes.device)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in attention.parameters():
            drawn = torch.randn(weight.shape, generator=draw) * weight.shape[-1] ** -0.5
            weight.copy_(drawn.to(weight.device, weight.dtype))
    return attention.eval()


def drawn(sizes: Sizes, *shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers of a seed, on the device."""
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return numbers.to(sizes.device, sizes.dtype)


def step_by_step(attention: MultiHeadAttention, x: Tensor) -> Tensor:
    """The whole attention, its maps written into memory."""
    token = explicit_attention.set(True)
    try:
        output: Tensor = attention(x, x, Mask())
    finally:
        explicit_attention.reset(token)
    return output
