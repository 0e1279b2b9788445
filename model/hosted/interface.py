"""The one attention function that every hosted model calls, and the mask function that goes with it."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor, nn

from model.hosted.passes import current, shadows
from model.network.attention import for_each_head
from model.runtime.errors import CheckpointError

NAME = "vitrine"  # of our function among transformers' attention implementations
# Arguments that say nothing beside the mask, or are of no concern in evaluation. Any other that is not None is a step
# that we do not know: then the model's own function computes.
KNOWN = frozenset(
    {"scaling", "dropout", "softcap", "position_bias", "is_causal", "sliding_window", "output_attentions"}
    | {"position_ids", "use_cache", "cache_position", "past_key_values", "output_hidden_states", "return_dict"}
    | {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "num_items_in_batch", "deterministic"}
    | {"position_embeddings", "layer_idx", "cache"}
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
        return heads.contiguous(), None
    (shadow,) = shadows(module, now, "attention") or (None,)
    if shadow is None:
        return _unseen(call), None
    # In order, as of the model's own function: what comes next may view it in another shape.
    return shadow(call, key, now.rule(call, query.shape[-2], key.shape[-2])).contiguous(), None


def _unseen(call: Call) -> Tensor:
    heads, _weights = _plainly(call) if call.known else call.by_itself(call.query, call.key, call.value)
    return heads.contiguous()


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
