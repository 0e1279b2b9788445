"""Measures of predictions: losses, ranks and entropies of logits, sampling, and the saturation of a softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.analysis import head_metrics
from model.capture.trace import Trace
from model.inference.decoding import Sampling
from model.inference.models import MaskedLanguageModel
from model.inference.text_model import TextModel
from model.network.config import TWO_STACKS, Kind
from model.runtime.device import exact, float64_place
from model.text.tokenizer import Tokens

UNKNOWN = -1  # the token of a position whose token is not known


def actual_tokens(kind: Kind, ids: Sequence[int], end: int | None, hidden: int | None) -> list[int]:
    """Token that the logits of each position are asked for, or UNKNOWN.

    Models that write are asked for the next token; after the last one comes `end`, where the text ended there. An
    encoder-only model is asked for the token itself, which is not known where it is `hidden`.
    """
    if kind == "encoder-only":
        return [UNKNOWN if token == hidden else token for token in ids]
    last = end if end is not None and kind in TWO_STACKS else UNKNOWN
    return [*ids[1:], last]


def losses(
    logits: Float[Tensor, "position vocabulary"], actual: Int[Tensor, " position"]
) -> Float[Tensor, " position"]:
    """Cross-entropy −ln softmax(z)[actual] in nats, in float32 at least; NaN where the token or a logit is unknown."""
    logs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    return -logs.gather(-1, actual.clamp(min=0)[:, None])[:, 0].masked_fill(actual == UNKNOWN, torch.nan)


def ranks(logits: Float[Tensor, "position vocabulary"], actual: Int[Tensor, " position"]) -> Float[Tensor, " position"]:
    """Rank of the actual token, 1 + the number of tokens with a larger logit; NaN where it or a logit is unknown."""
    actual_logits = logits.gather(-1, actual.clamp(min=0)[:, None])
    places = 1.0 + (logits > actual_logits).sum(dim=-1)
    return places.masked_fill((actual == UNKNOWN) | actual_logits[:, 0].isnan(), torch.nan)


def entropies(logits: Float[Tensor, "*batch vocabulary"]) -> Float[Tensor, "*batch"]:
    """−Σ p ln p of softmax(z), in nats: 0 for one sure token, ln n for n equal ones."""
    return head_metrics.entropies(logits.float().softmax(dim=-1))


@dataclass(frozen=True)
class Sampled:
    """Distribution before and after temperature, top-k and top-p, most probable tokens first.

    left: number of tokens that can still be drawn. mass: probability that these had before.
    """

    tokens: Int[Tensor, " vocabulary"]
    before: Float[Tensor, " vocabulary"]
    after: Float[Tensor, " vocabulary"]
    left: int
    mass: float


def sampled(logits: Float[Tensor, " vocabulary"], sampling: Sampling) -> Sampled:
    """Distribution of logits before and after `sampling`; no forward pass is needed."""
    ordered, tokens = logits.float().sort(descending=True, stable=True)
    before, after = ordered.softmax(dim=-1), sampling(ordered)
    possible = after > 0
    return Sampled(tokens, before, after, int(possible.sum()), float(before[possible].sum()))


@dataclass(frozen=True)
class Saturation:
    """Largest probability of a softmax at several temperatures, its entropy as a share of ln n, and the norm of its
    derivative: how much it still moves.
    """

    largest: Float[Tensor, " temperature"]
    entropy: Float[Tensor, " temperature"]
    derivative: Float[Tensor, " temperature"]


def saturation(logits: Float[Tensor, " vocabulary"], temperatures: Sequence[float]) -> Saturation:
    """Saturation of p = softmax(z/T) for each T: ‖∂p/∂(z/T)‖ = ‖diag(p) − ppᵀ‖ (Frobenius) is near 0 where one p is
    nearly 1.
    """
    logits = exact(logits)
    scaled = logits / torch.tensor(temperatures, dtype=torch.float64, device=logits.device)[:, None]
    p = scaled.softmax(dim=-1)
    most = torch.tensor(float(max(2, p.shape[-1]))).log()
    return Saturation(p.amax(dim=-1), head_metrics.entropies(p) / most, derivative_norm(p))


def derivative_norm(weights: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch"]:
    """‖diag(w) − wwᵀ‖ (Frobenius), a softmax's derivative, in float64: √(Σ w²(1 − w)² + Σ_{i≠j} w_i² w_j²).

    Nothing is subtracted, so that it stays exact where one weight is nearly 1.
    """
    square = exact(weights).square()
    diagonal = square * _others(exact(weights)).square()
    return (diagonal + square * _others(square)).sum(dim=-1).sqrt()


def _others(values: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch key"]:
    """Sum of all others of the row, for each value."""
    padded = torch.nn.functional.pad(values, (1, 1))
    before, after = padded[..., :-2].cumsum(dim=-1), padded[..., 2:].flip(-1).cumsum(dim=-1).flip(-1)
    return before + after


# The loss of each token of a text.

HIDDEN = 64  # tokens of a text that are hidden, one at a time, from a model that fills in masks


def token_losses(logits: Float[Tensor, "position vocabulary"], labels: Sequence[int]) -> Float[Tensor, position]:
    """Losses of the labels in nats, in float64; NaN where a label is UNKNOWN."""
    logits = exact(logits)
    return losses(logits, torch.tensor(list(labels), dtype=torch.long, device=logits.device))


def perplexity(losses: Float[Tensor, position]) -> float:
    """Exponential of the mean loss in nats of the tokens that have one; NaN where none has."""
    mean = float(losses.nanmean())
    return math.inf if mean >= 700 else math.exp(mean)


def labels_of(model: TextModel, source: Tokens, target: Tokens | None) -> list[int]:
    """Token that a model which writes should predict at each position: the next one, and `</s>` after a target's last.

    UNKNOWN after the end of a text that only goes on.
    """
    written = source if target is None else target
    return actual_tokens(model.kind, written.ids, model.target_tokenizer.end, hidden=None)


@torch.inference_mode()
def text_losses(
    model: TextModel, trace: Trace, source: Tokens, target: Tokens | None = None
) -> Float[Tensor, position]:
    """Loss in nats at each position of a trace of these tokens, as its kind of model is trained.

    Encoder-decoder: of the target's next token, given source and target so far. Decoder-only: of the text's next token.
    Encoder-only: each of the first `HIDDEN` tokens is hidden alone and predicted from all others, in a forward pass of
    its own (Salazar et al., 2020); NaN at special tokens, where the text hides a token itself, and everywhere if the
    model has no logits or no mask token.
    """
    if not model.predicts:
        return _unknown(model, len(source if target is None else target))
    if isinstance(model, MaskedLanguageModel):
        return _hidden_losses(model, source)
    return token_losses(trace["output.logits"], labels_of(model, source, target))


def _unknown(model: TextModel, length: int) -> Float[Tensor, position]:
    """NaN at every position."""
    return torch.full((length,), torch.nan, dtype=torch.float64, device=float64_place(model.device))


def _hidden_losses(model: MaskedLanguageModel, source: Tokens) -> Float[Tensor, position]:
    """Losses of a masked language model: row i of its batch is the text with the i-th ordinary token hidden."""
    tokenizer = model.source_tokenizer
    losses = _unknown(model, len(source))
    hidden = [place for place, token in enumerate(source.ids) if token not in tokenizer.special][:HIDDEN]
    if not hidden or tokenizer.mask is None or not model.fills:
        return losses
    row, place = torch.arange(len(hidden), device=model.device), torch.tensor(hidden, device=model.device)
    ids = torch.tensor([source.ids] * len(hidden), device=model.device)
    ids[row, place] = tokenizer.mask
    logits = model.network.output(model.network.states(ids)[row, place])
    losses[place.to(losses.device)] = token_losses(logits, [source.ids[number] for number in hidden])
    return losses
