"""Attention of a network with a variant in the place of equation 1, to be trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

from model.network.attention import MultiHeadAttention, for_each_head, side_by_side
from model.network.config import TransformerConfig
from model.network.kv_cache import Cache
from model.network.masks import Mask
from model.network.transformer import Network

if TYPE_CHECKING:
    from model.experiments.variants.variant import Attend, Variant


class VariantAttention(MultiHeadAttention):
    """Self-attention whose heads are those of `attend`; it goes without dropout, biases of positions and a cache."""

    def __init__(self, config: TransformerConfig, causal: bool, attend: Attend | None = None) -> None:
        super().__init__(config, causal=causal)
        self.rule = attend

    def forward(self, x: Tensor, memory: Tensor, mask: Mask, cache: Cache | None = None) -> Tensor:
        visible = mask.visible(x.shape[1], x.shape[1], x.device)
        return self.output(side_by_side(self.heads(self.attended_of(x, visible))))

    def attended_of(self, x: Tensor, visible: Tensor) -> Tensor:
        """Heads (batch, head, query, channel) of the input."""
        query, (key, value) = self.query(x), self.keys_and_values(x)
        heads = query.shape[1]
        return self.attended(query, for_each_head(key, heads), for_each_head(value, heads), visible, x)

    def attended(self, query: Tensor, key: Tensor, value: Tensor, visible: Tensor, x: Tensor) -> Tensor:
        """Heads of queries, keys and values, each (batch, head, length, channel)."""
        assert self.rule is not None
        return self.rule(query, key, value, visible).heads


def putting(variant: Variant) -> Callable[[Network], None]:
    """Change of a network that puts a variant into every self-attention, with the weights that both have."""

    def put(network: Network) -> None:
        for stack in network.config.stacks:
            causal = stack == "decoder"
            if causal and variant.cache_tensors is None:
                continue  # it cannot keep later tokens out
            for layer in getattr(network, stack).layers:
                make = variant.module or (lambda config, causal: VariantAttention(config, causal, variant.attend))
                other = make(network.config, causal)
                other.load_state_dict(layer.self_attention.state_dict(), strict=False)
                layer.self_attention = other

    return put
