"""One attention function for every model of `transformers`: it computes by our own small modules, at our paths, so that
maps on demand and what-if changes work as in a network of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from model.attention import Masked, MultiHeadAttention, Scores, Weights, explicit_attention, for_each_head
from model.errors import CheckpointError
from model.hosted.passes import Pass, current, shadows
from model.masks import ChangedMask, Mask
from model.observing import ordinary
from model.position_bias import Unbiased

NAME = "vitrine"  # of our function among transformers' attention implementations
# Arguments that say nothing beside the mask, or are of no concern in evaluation. Any other that is not None is a step
# that we do not know: then the model's own function computes.
KNOWN = frozenset(
    {"scaling", "dropout", "softcap", "position_bias", "is_causal", "sliding_window", "output_attentions"}
    | {"position_ids", "use_cache", "cache_position", "past_key_values", "output_hidden_states", "return_dict"}
    | {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "num_items_in_batch", "deterministic"}
    | {"position_embeddings", "layer_idx", "cache"}
)


class Given(nn.Module):
    """A quantity that was computed elsewhere, as it comes; n_heads: how many heads it has."""

    def __init__(self, n_heads: int = 0) -> None:
        super().__init__()
        self.n_heads = n_heads

    def forward(self, x: Tensor) -> Tensor:
        return x


class GivenFactor(nn.Module):
    """Scores times a factor, 1/√d_k or what the model says instead."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, scores: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
        return scores * self.factor


class Capped(nn.Module):
    """c · tanh(scores / c): no score beyond ±c (Gemma Team, 2024, section 2)."""

    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def forward(self, scaled: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
        return torch.tanh(scaled / self.cap) * self.cap


class GivenBias(nn.Module):
    """Scores plus what the model adds for the positions (Raffel et al., 2020, section 2.1)."""

    def forward(
        self, scaled: Float[Tensor, "*batch head query key"], bias: Float[Tensor, "*batch head query key"]
    ) -> Float[Tensor, "*batch head query key"]:
        return scaled + bias


class HostedAttention(MultiHeadAttention):
    """The part of a hosted attention between its projections, step by step.

    output: its W^O, where that was found. own: whether these modules compute it; else the model's own function does,
    and gives its weights; outside: not even that is called, and the weights are all that is seen, at a place of what the
    module returns.
    """

    def __init__(
        self,
        heads: int,
        key_heads: int,
        factor: float,
        *,
        cap: float | None = None,
        biased: bool = False,
        own: bool = True,
        outside: bool = False,
        cross: bool = False,
        place: int = 0,
        output: nn.Module | None = None,
    ) -> None:
        nn.Module.__init__(self)
        self.own, self.outside, self.cross, self.place = own, outside, cross, place
        self.dropout, self.cap = 0.0, cap
        self.weights = Weights() if own else Given(heads)  # type: ignore[assignment]
        if outside:
            return
        self.query, self.key, self.value = Given(heads), Given(key_heads), Given(key_heads)  # type: ignore[assignment]
        if own:
            self.scores, self.scaled = Scores(), GivenFactor(factor)  # type: ignore[assignment]
            if cap is not None:
                self.capped = Capped(cap)
            if biased:
                self.bias = Given(heads)
            self.biased = GivenBias() if biased else Unbiased()  # type: ignore[assignment]
            self.masked = Masked()
        self.heads = nn.Identity()
        if output is not None:
            self.output = output  # type: ignore[assignment]

    @property
    def sums_to_one(self) -> bool:
        """Whether a query gives its keys all of its weight: a step that is not known here may keep some of it."""
        return self.own or self.outside

    def forward(  # type: ignore[override]
        self, call: Any, key: Any, mask: Mask, cache: None = None
    ) -> Tensor:
        """The heads (batch, query, head, channel) of a call; of one whose weights are all that is seen, these."""
        if self.outside:
            self.refuse(mask)
            return self.weights(call)
        query, key, value = self.query(call.query), self.key(key), self.value(call.value)
        return self.heads(self._attend(call, query, key, value, mask)).transpose(1, 2)

    def _attend(self, call: Call, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        if not self.own:
            self.refuse(mask)
            heads, weights = call.by_itself(query, key, value)
            self.weights(weights)
            return heads.transpose(1, 2)
        bias = () if call.bias is None else (self.bias(call.bias),)
        if explicit_attention.get():
            return self._explicit(query, key, value, mask, bias)
        if self.cap is None:
            return self._fused(query, key, value, mask, bias)
        with ordinary():  # nothing of size query × key is kept
            return self._explicit(query, key, value, mask, bias)

    def refuse(self, mask: Mask) -> None:
        """Only the model's own steps know its masks.

        Raises:
            ValueError: the mask was changed.
        """
        if isinstance(mask, ChangedMask):
            raise ValueError("the masks of this model cannot be changed: it computes its attention by code of its own")

    def _explicit(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, bias: tuple[Tensor, ...]) -> Tensor:
        visible = mask.visible(query.shape[-2], key.shape[-2], query.device)
        scores = self.scaled(self.scores(query, key))
        scores = self.biased(scores if self.cap is None else self.capped(scores), *bias)
        return self.weights(self.masked(scores, visible), visible) @ for_each_head(value, query.shape[1])

    def _fused(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, bias: tuple[Tensor, ...]) -> Tensor:
        if not bias:
            return self.fused(query, key, value, mask)
        visible = mask.visible(query.shape[-2], key.shape[-2], query.device)
        return F.scaled_dot_product_attention(
            query,
            for_each_head(key, query.shape[1]),
            for_each_head(value, query.shape[1]),
            attn_mask=bias[0].masked_fill(~visible, -torch.inf),
            scale=self.scaled.factor,
        )


class Call:
    """What a module of transformers asks of the attention function."""

    def __init__(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: dict[str, Any]
    ) -> None:
        self.module, self.query, self.key, self.value = module, query, key, value
        self.mask, self.options = mask, options
        self.bias: Tensor | None = options.get("position_bias")

    @property
    def factor(self) -> float:
        given = self.options.get("scaling")
        return float(self.query.shape[-1] ** -0.5 if given is None else given)

    @property
    def cap(self) -> float | None:
        return self.options.get("softcap")

    @property
    def known(self) -> bool:
        """Whether our modules take every step that is asked for."""
        beside = [name for name, value in self.options.items() if value is not None and name not in KNOWN]
        return not beside and (self.mask is None or self.mask.dtype == torch.bool)

    def by_itself(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Heads (batch, query, head, channel) and weights by the eager function of the model's own source.

        Raises:
            CheckpointError: it has none.
        """
        eager = getattr(sys.modules[type(self.module).__module__], "eager_attention_forward", None)
        if eager is None:
            raise CheckpointError(f"{type(self.module).__name__} has no eager attention: its weights cannot be seen")
        mask = self.mask
        if mask is not None and mask.dtype == torch.bool:
            lowest = torch.finfo(query.dtype).min
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, lowest)
        heads, weights = eager(self.module, query, key, value, mask, **self.options)
        return heads, weights


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """The attention function that transformers calls; boolean masks, True = may look."""
    call, now = Call(module, query, key, value, attention_mask, options), current.get()
    if now is None:
        return _unseen(call), None
    if now.probe is not None:
        heads, weights = _plainly(call) if call.known else call.by_itself(query, key, value)
        now.probe(call, heads, weights)
        return heads, None
    (shadow,) = shadows(module, now, "attention") or (None,)
    if shadow is None:
        return _unseen(call), None
    return shadow(call, key, now.rule(call, query.shape[-2], key.shape[-2])), None


def _unseen(call: Call) -> Tensor:
    heads, _weights = _plainly(call) if call.known else call.by_itself(call.query, call.key, call.value)
    return heads


def _plainly(call: Call) -> tuple[Tensor, Tensor]:
    """Every step in a row, on tensors alone."""
    n_heads = call.query.shape[1]
    scores = call.query @ for_each_head(call.key, n_heads).mT * call.factor
    if call.cap is not None:
        scores = torch.tanh(scores / call.cap) * call.cap
    if call.bias is not None:
        scores = scores + call.bias
    if call.mask is not None:
        scores = scores.masked_fill(~call.mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    return (weights @ for_each_head(call.value, n_heads)).transpose(1, 2), weights


def whole_mask(*arguments: Any, **options: Any) -> Tensor | None:
    """A boolean mask (batch, 1, query, key), never left to the attention function to guess."""
    from transformers.masking_utils import sdpa_mask

    never = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    made: Tensor | None = sdpa_mask(*arguments, **(options | never))
    return made


def register() -> str:
    """Make our function known to transformers; the name by which models ask for it."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, whole_mask)
    return NAME


Probe = Callable[[Call, Tensor, Tensor], None]
__all__ = ["NAME", "Call", "Given", "HostedAttention", "Pass", "Probe", "attend", "register"]
