"""What logits say of the tokens: losses, ranks, entropies, and how a softmax saturates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.analysis import information
from model.inference.decoding import Sampling
from model.network.config import Kind
from model.runtime.device import exact

UNKNOWN = -1  # in the place of a token that nobody has written


def actual_tokens(kind: Kind, ids: Sequence[int], end: int | None, hidden: int | None) -> list[int]:
    """For each position the token that its logits are asked for, or UNKNOWN.

    Models that write are asked for the next token; after the last one comes `end`, where the text ended there. An
    encoder-only model is asked for the token itself, which nobody knows of those that are `hidden` from it.
    """
    if kind == "encoder-only":
        return [UNKNOWN if token == hidden else token for token in ids]
    last = end if end is not None and kind == "encoder-decoder" else UNKNOWN
    return [*ids[1:], last]


def losses(
    logits: Float[Tensor, "position vocabulary"], actual: Int[Tensor, " position"]
) -> Float[Tensor, " position"]:
    """Cross-entropy −ln softmax(z)[actual] in nats; NaN where the token or the logits are unknown."""
    known = actual != UNKNOWN
    own = logits.float().log_softmax(dim=-1).gather(-1, actual.clamp(min=0)[:, None])[:, 0]
    return (-own).masked_fill(~known, torch.nan)


def ranks(logits: Float[Tensor, "position vocabulary"], actual: Int[Tensor, " position"]) -> Float[Tensor, " position"]:
    """1 + the number of tokens with a larger logit; NaN where the token or the logits are unknown."""
    own = logits.gather(-1, actual.clamp(min=0)[:, None])
    places = 1.0 + (logits > own).sum(dim=-1)
    return places.masked_fill((actual == UNKNOWN) | own[:, 0].isnan(), torch.nan)


def entropies(logits: Float[Tensor, "*batch vocabulary"]) -> Float[Tensor, "*batch"]:
    """−Σ p ln p of softmax(z), in nats: 0 for one sure token, ln n for n equal ones."""
    return information.entropies(logits.float().softmax(dim=-1))


@dataclass(frozen=True)
class Sampled:
    """A distribution before and after temperature, top-k and top-p, most probable tokens first.

    left: how many tokens can still be drawn. kept: how much probability these had before.
    """

    tokens: Int[Tensor, " vocabulary"]
    before: Float[Tensor, " vocabulary"]
    after: Float[Tensor, " vocabulary"]
    left: int
    kept: float


def sampled(logits: Float[Tensor, " vocabulary"], sampling: Sampling) -> Sampled:
    """What `sampling` makes of logits that are there already: no forward pass is needed."""
    ordered, tokens = logits.float().sort(descending=True, stable=True)
    before, after = ordered.softmax(dim=-1), sampling(ordered)
    open_to = after > 0
    return Sampled(tokens, before, after, int(open_to.sum()), float(before[open_to].sum()))


@dataclass(frozen=True)
class Saturation:
    """A softmax at several temperatures: its largest probability, its entropy as a share of ln n, and how much it still
    moves: the norm of its derivative.
    """

    largest: Float[Tensor, " temperature"]
    entropy: Float[Tensor, " temperature"]
    derivative: Float[Tensor, " temperature"]


def saturation(logits: Float[Tensor, " vocabulary"], temperatures: Sequence[float]) -> Saturation:
    """p = softmax(z/T) for each T, and ‖∂p/∂(z/T)‖ = ‖diag(p) − ppᵀ‖ (Frobenius): towards 0 where one p is nearly 1."""
    logits = exact(logits)
    scaled = logits / torch.tensor(temperatures, dtype=torch.float64, device=logits.device)[:, None]
    p = scaled.softmax(dim=-1)
    most = torch.tensor(float(max(2, p.shape[-1]))).log()
    return Saturation(p.amax(dim=-1), information.entropies(p) / most, derivative_norm(p))


def derivative_norm(weights: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch"]:
    """‖diag(w) − wwᵀ‖ (Frobenius), a softmax's derivative, in float64: √(Σ w²(1 − w)² + Σ_{i≠j} w_i² w_j²).

    Nothing is subtracted, so that it stays exact where one weight is nearly 1.
    """
    square = exact(weights).square()
    diagonal = square * _others(exact(weights)).square()
    return (diagonal + square * _others(square)).sum(dim=-1).sqrt()


def _others(values: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch key"]:
    """For each the sum of all others of its row."""
    padded = torch.nn.functional.pad(values, (1, 1))
    before, after = padded[..., :-2].cumsum(dim=-1), padded[..., 2:].flip(-1).cumsum(dim=-1).flip(-1)
    return before + after
