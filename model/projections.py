"""From the residual stream to queries, keys and values, head by head."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from model.config import TransformerConfig
from model.positional import turning


class HeadProjection(nn.Linear):
    """x W + b, split into heads: (batch, length, d_model) to (batch, head, length, channel)."""

    def __init__(self, config: TransformerConfig, n_heads: int) -> None:
        super().__init__(config.d_model, n_heads * config.d_head, bias=config.attention_biases[0])
        self.n_heads = n_heads

    def forward(
        self, x: Float[Tensor, "batch length d_model"], first: int = 0
    ) -> Float[Tensor, "batch head length channel"]:
        """`first`: the position of the first of these tokens."""
        return self.split(super().forward(x), first)

    def split(
        self, projected: Float[Tensor, "batch length channels"], first: int = 0
    ) -> Float[Tensor, "batch head length channel"]:
        """What the product gives, head by head."""
        batch, length, _ = projected.shape
        return projected.view(batch, length, self.n_heads, -1).transpose(1, 2)


class TurnedProjection(HeadProjection):
    """A query or key whose length is normalised (QK-norm; Henry et al., 2020) or which is turned to its position."""

    def __init__(self, config: TransformerConfig, n_heads: int, rotary: bool) -> None:
        super().__init__(config, n_heads)
        self.norm = nn.RMSNorm(config.d_head, eps=config.norm_epsilon) if config.qk_norm else nn.Identity()
        self.rotation = turning(config) if rotary else None

    def split(
        self, projected: Float[Tensor, "batch length channels"], first: int = 0
    ) -> Float[Tensor, "batch head length channel"]:
        heads = self.norm(super().split(projected, first))
        return self.rotation(heads, first) if self.rotation else heads


def query_or_key(config: TransformerConfig, n_heads: int, cross: bool) -> HeadProjection:
    """The projection whose products become scores. Source and target have no common positions to turn to."""
    rotary = config.position == "rotary" and not cross
    if rotary or config.qk_norm:
        return TurnedProjection(config, n_heads, rotary)
    return HeadProjection(config, n_heads)


def for_each_head(
    shared: Float[Tensor, "*batch kv_head length channel"], n_heads: int
) -> Float[Tensor, "*batch head length channel"]:
    """Keys or values with one entry per head, where heads share them in groups (Ainslie et al., 2023)."""
    groups = shared.shape[-3]
    return shared if groups == n_heads else shared.repeat_interleave(n_heads // groups, dim=-3)
