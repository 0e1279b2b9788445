"""Dropout over many masks: what it does to a vector on average (section 5.4; Srivastava et al., 2014)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from model.message import InputError
from model.network.config import TransformerConfig
from model.network.dropout import dropout
from model.runtime.device import exact
from model.runtime.random import fork_rng

TOGETHER = 1 << 20  # numbers drawn together


@dataclass(frozen=True)
class MaskStatistics:
    """Mean and population variance of each entry over many masks, and the share of the nonzero entries that survived.

    errors: ‖mean over so many masks − x‖ / ‖x‖, for each number of masks in `counts`.
    """

    mean: Float[Tensor, " entry"]
    variance: Float[Tensor, " entry"]
    share: float
    counts: list[int]
    errors: list[float]


def sites(config: TransformerConfig) -> dict[str, float]:
    """Rate of dropout at each place where it acts: embedding, attention weights, block, units."""
    return {
        "embedding": config.dropout,
        "weights": config.attention_dropout,
        "block": config.dropout,
        "units": config.activation_dropout,
    }


@torch.no_grad()
def over_masks(
    x: Float[Tensor, " entry"], rate: float, masks: int, seed: str, drop: Callable[..., Tensor] = dropout
) -> MaskStatistics:
    """Statistics of the model's own dropout, or of `drop`, on x under `masks` masks, drawn from `seed`.

    An entry's mean is x and its variance x² p / (1 − p), for rate p (Srivastava et al., 2014).

    Raises:
        ValueError: the rate is not above 0 and below 1, or there is no mask.
    """
    if not 0 < rate < 1:
        raise ValueError(f"the rate ({rate}) must be above 0 and below 1: at 0 nothing is dropped")
    if masks < 1:
        raise InputError("{name} ({value}) must be at least {least}", name="masks", value=masks, least=1)
    x = x.float().clone()
    whole = exact(x)
    total, squares = whole * 0, whole * 0
    survivors, done = 0, 0
    counts, errors = _counts(masks), []
    size = float(x.norm().clamp(min=torch.finfo(torch.float32).tiny))
    with fork_rng(seed, x.device):
        for count in counts:
            while done < count:
                rows = min(count - done, max(1, TOGETHER // max(1, x.numel())))
                dropped = exact(drop(x.expand(rows, -1).contiguous(), rate, training=True))
                total, squares = total + dropped.sum(dim=0), squares + dropped.square().sum(dim=0)
                survivors += int((dropped != 0).sum())
                done += rows
            errors.append(float((total / done - whole).norm()) / size)
    mean = total / masks
    nonzero = int((x != 0).sum()) * masks
    variance = (squares / masks - mean.square()).clamp(min=0)
    return MaskStatistics(mean, variance, survivors / nonzero if nonzero else float("nan"), counts, errors)


def expected_error(rate: float, masks: int) -> float:
    """√(p / ((1 − p) N)), the root mean square of ‖mean over N masks − x‖ / ‖x‖ for rate p."""
    return float((rate / ((1 - rate) * masks)) ** 0.5)


def _counts(masks: int) -> list[int]:
    """Numbers of masks at which the error is noted: 1, 2, 5, 10, 20 … up to all."""
    counts = [step * 10**power for power in range(len(str(masks))) for step in (1, 2, 5)]
    return [count for count in counts if count < masks] + [masks]
