"""What positions add to the scores of an attention: nothing, ALiBi, or a learned bias for each distance."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.config import TransformerConfig
from model.masks import positions


def alibi_slopes(n_heads: int) -> Float[Tensor, head]:
    """2^(−8h/n) for head h of n = 2^k; for other n those of the next lower 2^k, then every second of the next
    higher (Press et al., 2022, section 3 and its published code).
    """
    power = 1 << (n_heads.bit_length() - 1)

    def slopes(n: int) -> Tensor:
        return 2.0 ** (-8.0 / n * torch.arange(1, n + 1, dtype=torch.float64, device="cpu"))

    return torch.cat([slopes(power), slopes(2 * power)[::2][: n_heads - power]])


def relative_buckets(relative: Int[Tensor, place], buckets: int, reach: int, both_ways: bool) -> Int[Tensor, place]:
    """The bucket of each key's position minus the query's (Raffel et al., 2020, section 2.1 and their code).

    Half of the buckets are for one distance each, the others for ranges that grow as a geometric series up to `reach`;
    all that is farther shares the last. both_ways: the second half of all buckets is for keys after the query; else
    these count as distance 0. In float32 as in the published code: at the borders of ranges its rounding decides.
    """
    own = buckets // 2 if both_ways else buckets
    single = own // 2
    distance = relative.abs() if both_ways else (-relative).clamp(min=0)
    share = (distance.clamp(min=1).float() / single).log() / math.log(reach / single)
    ranged = (single + (share * (own - single)).long()).clamp(max=own - 1)
    return torch.where(distance < single, distance, ranged) + own * (relative > 0) * both_ways


class Unbiased(nn.Identity):
    """Scores as they are: the attention knows no positions by itself."""

    def bias(self, queries: int, keys: int, like: Tensor) -> Float[Tensor, "head query key"] | None:
        return None


class PositionBias(nn.Module):
    """Scaled scores plus what each head gives to the place of a key as seen from a query."""

    def forward(self, scaled: Float[Tensor, "*batch head query key"]) -> Float[Tensor, "*batch head query key"]:
        queries, keys = scaled.shape[-2:]
        return scaled + self.bias(queries, keys, scaled)

    def bias(
        self, queries: int, keys: int, like: Tensor, heads: slice = slice(None)
    ) -> Float[Tensor, "head query key"]:
        """What is added, of these heads, on the device and in the precision of `like`; the last query stands at the
        last key.
        """
        raise NotImplementedError


class Alibi(PositionBias):
    """Scaled scores minus slope × distance, a slope for each head (Press et al., 2022); in an encoder both ways."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.slopes = alibi_slopes(config.n_heads)

    def bias(
        self, queries: int, keys: int, like: Tensor, heads: slice = slice(None)
    ) -> Float[Tensor, "head query key"]:
        """−slope × distance."""
        query, key = positions(queries, keys, like.device)
        slopes = self.slopes[heads].to(like.device, like.dtype)
        return -slopes[:, None, None] * (query - key).abs()


class RelativeBias(PositionBias):
    """Scaled scores plus a learned number for each head and bucket of distances (Raffel et al., 2020, section 2.1)."""

    def __init__(self, config: TransformerConfig, causal: bool) -> None:
        super().__init__()
        self.causal, self.reach = causal, config.position_reach
        self.table = nn.Parameter(torch.empty(config.position_buckets, config.n_heads))
        nn.init.normal_(self.table, std=config.d_model**-0.5)

    def bias(
        self, queries: int, keys: int, like: Tensor, heads: slice = slice(None)
    ) -> Float[Tensor, "head query key"]:
        """table[bucket(key − query)]; each distance is looked up once."""
        relative = torch.arange(1 - keys, queries, device=like.device)
        buckets = relative_buckets(relative, len(self.table), self.reach, not self.causal)
        by_distance = self.table[buckets, heads].to(like.dtype).T  # (head, distance), the last query's first
        return by_distance.unfold(1, keys, 1).flip(1)


def share_bias(layers: Iterable[nn.Module]) -> None:
    """One table for the self-attentions of a stack, where there are tables."""
    biases = [layer.get_submodule("self_attention.biased") for layer in layers]
    learned = [bias for bias in biases if isinstance(bias, RelativeBias)]
    for bias in learned[1:]:
        bias.table = learned[0].table


def position_bias(config: TransformerConfig, cross: bool, causal: bool) -> Unbiased | PositionBias:
    """What positions add to scaled scores. Source and target have no common positions."""
    if cross:
        return Unbiased()
    if config.position == "relative":
        return RelativeBias(config, causal)
    return Alibi(config) if config.position == "alibi" else Unbiased()
