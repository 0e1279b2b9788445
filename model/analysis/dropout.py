"""Dropout over many masks: what it does to a vector on average (section 5.4; Srivastava et al., 2014)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from model.network.config import TransformerConfig
from model.network.dropout import dropout
from model.runtime.device import exact
from model.runtime.random import fork_rng

TOGETHER = 1 << 20  # numbers drawn at once


@dataclass(frozen=True)
class MaskStatistics:
    """Over many masks: `mean` and population `variance` of each entry, and the `kept` share of all entries.

    counts, errors: ‖mean over so many masks − x‖ / ‖x‖.
    """

    mean: Float[Tensor, " entry"]
    variance: Float[Tensor, " entry"]
    kept: float
    counts: list[int]
    errors: list[float]


def sites(config: TransformerConfig) -> dict[str, float]:
    """The places where dropout sits, with its rate there: embedding, attention weights, block, units."""
    rates = (config.dropout, config.attention_dropout, config.dropout, config.activation_dropout)
    return dict(zip(("embedding", "weights", "block", "units"), rates, strict=True))


@torch.no_grad()
def over_masks(x: Float[Tensor, " entry"], rate: float, masks: int, seed: str) -> MaskStatistics:
    """The model's own dropout on x, `masks` times. An entry's mean is x and its variance x² p / (1 − p), for rate p.

    Raises:
        ValueError: the rate is not above 0 and below 1, or there is no mask.
    """
    if not 0 < rate < 1:
        raise ValueError(f"the rate ({rate}) must be above 0 and below 1: at 0 nothing is dropped")
    if masks < 1:
        raise ValueError(f"masks ({masks}) must be at least 1")
    x = x.float().clone()
    whole = exact(x)
    total, squares = whole * 0, whole * 0
    kept, done = 0, 0
    counts, errors = _counts(masks), []
    size = float(x.norm().clamp(min=torch.finfo(torch.float32).tiny))
    with fork_rng(seed, x.device):
        for count in counts:
            while done < count:
                rows = min(count - done, max(1, TOGETHER // max(1, x.numel())))
                dropped = exact(dropout(x.expand(rows, -1).contiguous(), rate, training=True))
                total, squares = total + dropped.sum(dim=0), squares + dropped.square().sum(dim=0)
                kept += int((dropped != 0).sum())
                done += rows
            errors.append(float((total / done - whole).norm()) / size)
    mean = total / masks
    nonzero = int((x != 0).sum()) * masks
    variance = (squares / masks - mean.square()).clamp(min=0)
    return MaskStatistics(mean, variance, kept / nonzero if nonzero else float("nan"), counts, errors)


def expected_error(rate: float, masks: int) -> float:
    """√(p / ((1 − p) N)): the expected ‖mean over N masks − x‖ / ‖x‖ (its root mean square)."""
    return float((rate / ((1 - rate) * masks)) ** 0.5)


def _counts(masks: int) -> list[int]:
    """1, 2, 5, 10, 20 … up to all masks."""
    found = [step * 10**power for power in range(len(str(masks))) for step in (1, 2, 5)]
    return [count for count in found if count < masks] + [masks]
