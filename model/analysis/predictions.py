"""What logits say of the tokens: losses, ranks, entropies, and how a softmax saturates."""

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
from model.inference.models import MaskedLanguageModel, Translator
from model.inference.text_model import TextModel
from model.network.config import Kind
from model.runtime.device import exact, float64_place
from model.text.tokenizer import Tokens

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
    return head_metrics.entropies(logits.float().softmax(dim=-1))


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
    return Saturation(p.amax(dim=-1), head_metrics.entropies(p) / most, derivative_norm(p))


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


# How surprised a model is by a text: the loss of each token.

HIDDEN = 64  # tokens of a text that are hidden, one at a time, from a model that fills in masks


def token_losses(logits: Float[Tensor, "position vocabulary"], labels: Sequence[int]) -> Float[Tensor, position]:
    """−ln softmax(logits)[label] in nats, in float64; NaN where the label is −1: nothing to predict is known."""
    logits = exact(logits)
    asked = torch.tensor(list(labels), dtype=torch.long, device=logits.device)
    losses = -logits.log_softmax(dim=-1).gather(1, asked.clamp(min=0)[:, None])[:, 0]
    return losses.masked_fill(asked < 0, torch.nan)


def perplexity(losses: Float[Tensor, position]) -> float:
    """exp of the mean loss of the tokens that have one; NaN where none has."""
    mean = float(losses.nanmean())
    return math.inf if mean >= 700 else math.exp(mean)


def labels_of(model: TextModel, source: Tokens, target: Tokens | None) -> list[int]:
    """What a model that writes should say at each position: the next token, and `</s>` after a target's last one.

    −1 after the end of a text that only goes on.
    """
    if isinstance(model, Translator):
        assert target is not None
        return [*target.ids[1:], *(model.target_tokenizer.ending or [-1])]
    return [*source.ids[1:], -1]


@torch.inference_mode()
def text_losses(
    model: TextModel, trace: Trace, source: Tokens, target: Tokens | None = None
) -> Float[Tensor, position]:
    """The loss at each position of a trace of these tokens, as its kind of model is trained.

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
    return torch.full((length,), torch.nan, dtype=torch.float64, device=float64_place(model.device))


def _hidden_losses(model: MaskedLanguageModel, source: Tokens) -> Float[Tensor, position]:
    tokenizer = model.source_tokenizer
    losses = _unknown(model, len(source))
    known = [place for place, token in enumerate(source.ids) if token not in tokenizer.special][:HIDDEN]
    if not known or not model.fills:
        return losses
    assert tokenizer.mask is not None
    rows = torch.tensor([source.ids] * len(known), device=model.device)
    places = torch.tensor(known, device=model.device)
    each = torch.arange(len(known), device=model.device)
    rows[each, places] = tokenizer.mask
    states = model.network.states(rows)[each, places]
    losses[places.to(losses.device)] = token_losses(
        model.network.output(states), [source.ids[place] for place in known]
    )
    return losses
