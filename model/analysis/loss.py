"""How surprised a model is by a text: the loss of each token."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from model.capture.trace import Trace
from model.inference.model import Inspectable
from model.inference.models import MaskFiller, Translator
from model.runtime.device import exact, float64_place
from model.text.tokenizer import Tokens

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


def labels_of(lens: Inspectable, source: Tokens, target: Tokens | None) -> list[int]:
    """What a model that writes should say at each position: the next token, and `</s>` after a target's last one.

    −1 after the end of a text that only goes on.
    """
    if isinstance(lens, Translator):
        assert target is not None
        return [*target.ids[1:], *(lens.target_tokenizer.ending or [-1])]
    return [*source.ids[1:], -1]


@torch.inference_mode()
def text_losses(
    lens: Inspectable, trace: Trace, source: Tokens, target: Tokens | None = None
) -> Float[Tensor, position]:
    """The loss at each position of a trace of these tokens, as its kind of model is trained.

    Encoder-decoder: of the target's next token, given source and target so far. Decoder-only: of the text's next token.
    Encoder-only: each of the first `HIDDEN` tokens is hidden alone and predicted from all others, in a forward pass of
    its own (Salazar et al., 2020); NaN at special tokens, where the text hides a token itself, and everywhere if the
    model has no logits or no mask token.
    """
    if not lens.predicts:
        return _unknown(lens, len(source if target is None else target))
    if isinstance(lens, MaskFiller):
        return _hidden_losses(lens, source)
    return token_losses(trace["output.logits"], labels_of(lens, source, target))


def _unknown(lens: Inspectable, length: int) -> Float[Tensor, position]:
    return torch.full((length,), torch.nan, dtype=torch.float64, device=float64_place(lens.device))


def _hidden_losses(lens: MaskFiller, source: Tokens) -> Float[Tensor, position]:
    tokenizer = lens.source_tokenizer
    losses = _unknown(lens, len(source))
    known = [place for place, token in enumerate(source.ids) if token not in tokenizer.special][:HIDDEN]
    if not known or not lens.fills:
        return losses
    assert tokenizer.mask is not None
    rows = torch.tensor([source.ids] * len(known), device=lens.device)
    places = torch.tensor(known, device=lens.device)
    each = torch.arange(len(known), device=lens.device)
    rows[each, places] = tokenizer.mask
    states = lens.model.states(rows)[each, places]
    losses[places.to(losses.device)] = token_losses(lens.model.output(states), [source.ids[place] for place in known])
    return losses
