"""Position encodings: where a token stands, added to what it is (section 3.5)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.network.config import TransformerConfig
from model.network.masks import positions


def sinusoidal(length: int, d_model: int, base: float = 10000.0) -> Float[Tensor, "length d_model"]:
    """PE(pos, 2i) = sin(pos / base^(2i/d_model)), PE(pos, 2i+1) = cos(the same) (section 3.5), in float64.

    Raises:
        ValueError: d_model is odd, base is not above 0, or length is not at least 1.
    """
    if d_model % 2:
        raise ValueError(f"d_model ({d_model}) must be even: a sine is paired with a cosine")
    if base <= 0:
        raise ValueError(f"base ({base}) must be greater than 0")
    if length < 1:
        raise ValueError(f"length ({length}) must be at least 1")
    # On the CPU, whatever torch's default: other devices may have no float64.
    pair = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu")
    angle = torch.arange(length, dtype=torch.float64, device="cpu")[:, None] / base ** (pair / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


class SinusoidalPositions(nn.Module):
    """The paper's fixed curves, kept as a table that grows when a longer input comes."""

    table: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.base = config.position_base
        table = self.curves(config.max_length, config.d_model)
        self.register_buffer("table", table.float(), persistent=False)

    def curves(self, length: int, d_model: int) -> Float[Tensor, "length d_model"]:
        """Each sine beside its cosine."""
        return sinusoidal(length, d_model, self.base)

    def forward(
        self, tokens: Float[Tensor, "batch length d_model"], first: int = 0
    ) -> Float[Tensor, "1 length d_model"]:
        end, d_model = first + tokens.shape[1], tokens.shape[2]
        if end > len(self.table):
            self.table = self.curves(end, d_model).to(self.table)
        return self.table[None, first:end]


class HalvedSinusoidalPositions(SinusoidalPositions):
    """The same curves in another order, as in Marian: all sines, then all cosines."""

    def curves(self, length: int, d_model: int) -> Float[Tensor, "length d_model"]:
        return super().curves(length, d_model).unflatten(1, (-1, 2)).mT.flatten(1)


class LearnedPositions(nn.Module):
    """One trained vector per position, none beyond max_length."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(config.max_length, config.d_model))
        nn.init.normal_(self.table, std=config.d_model**-0.5)

    def forward(
        self, tokens: Float[Tensor, "batch length d_model"], first: int = 0
    ) -> Float[Tensor, "#batch length d_model"]:
        end = first + tokens.shape[1]
        if end > len(self.table):
            raise ValueError(
                f"length ({end}) is above max_length ({len(self.table)}): learned positions end there; "
                "shorten the input or use sinusoidal positions"
            )
        return self.table[None, first:end].clone()  # what is kept of a pass stays when the table is trained


class NoPositions(nn.Module):
    """Zeros: the model sees a set of tokens, unless its attention knows positions by itself."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()

    def forward(
        self, tokens: Float[Tensor, "batch length d_model"], first: int = 0
    ) -> Float[Tensor, "1 length d_model"]:
        return torch.zeros_like(tokens[:1])


POSITIONS = {
    "sinusoidal": SinusoidalPositions,
    "sinusoidal-halves": HalvedSinusoidalPositions,
    "learned": LearnedPositions,
    "rotary": NoPositions,
    "alibi": NoPositions,
    "relative": NoPositions,
    "none": NoPositions,
}
FIRST_TURNS = 1024  # positions whose turns are computed at first: some models could read a hundred times as many


class Rotation(nn.Module):
    """Turns each pair of channels (i, i + d_k/2) by position / base^(2i/d_k) (Su et al., 2021, equation 34).

    The product of a turned query and a turned key depends on how far apart they are, not on where they stand.
    The pairs are those of Llama and GPT-NeoX; the paper pairs neighbours, which is the same up to the channels' order.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.base, self.length = config.position_base, config.max_length
        self.stretch, self.short, self.long = config.rotary_stretch, config.rotary_short, config.rotary_long
        self._tables: dict[tuple[torch.dtype, torch.device], tuple[Tensor, Tensor]] = {}

    def forward(
        self, x: Float[Tensor, "batch head length channel"], first: int = 0
    ) -> Float[Tensor, "batch head length channel"]:
        """`first`: the position of the first of these vectors."""
        cosine, sine = self._table(x, first + x.shape[2])
        left, right = x.chunk(2, dim=-1)
        place = slice(first, first + x.shape[2])
        return x * cosine[place] + torch.cat([-right, left], dim=-1) * sine[place]

    def _table(self, x: Tensor, end: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines (position, channel), computed in float64, kept in the precision of `x`."""
        kept = self._tables.get((x.dtype, x.device))
        if kept is None or len(kept[0]) < end:
            length = max(end, min(self.length, FIRST_TURNS)) if kept is None else max(end, 2 * len(kept[0]))
            with torch.inference_mode(False):  # training may need them later
                pair = torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1]
                angle = torch.arange(length, dtype=torch.float64)[:, None] / self._stretched(self.base**pair)
                both = torch.cat([angle, angle], dim=-1)
                kept = both.cos().to(x.device, x.dtype), both.sin().to(x.device, x.dtype)
            self._tables[x.dtype, x.device] = kept
        return kept

    def _stretched(self, periods: Float[Tensor, pair]) -> Float[Tensor, pair]:
        """Wavelengths 2π · period times `stretch`: those above `long` wholly, those below `short` not at all; between
        them their frequencies go over linearly (Chen et al., 2023; Grattafiori et al., 2024, in Llama's code).
        """
        if self.stretch == 1:
            return periods
        wavelengths = 2 * math.pi * periods
        low, high = (torch.tensor(each, dtype=torch.float64).reciprocal() for each in (self.long, self.short))
        kept = (wavelengths.reciprocal() - low) / (high - low)
        kept = kept.where(wavelengths < self.long, 0.0).where(wavelengths >= self.short, 1.0)
        return periods / ((1 - kept) / self.stretch + kept)


class PartialRotation(Rotation):
    """The same of the first channels of a head; the others are as they are (Black et al., 2022, section 2.1)."""

    def __init__(self, config: TransformerConfig, channels: int) -> None:
        super().__init__(config)
        self.channels = channels

    def forward(
        self, x: Float[Tensor, "batch head length channel"], first: int = 0
    ) -> Float[Tensor, "batch head length channel"]:
        """`first`: the position of the first of these vectors."""
        return torch.cat([super().forward(x[..., : self.channels], first), x[..., self.channels :]], dim=-1)


def turning(config: TransformerConfig) -> Rotation:
    """The rotation of as many channels as the config asks for."""
    return PartialRotation(config, config.rotary_channels) if config.rotary_channels else Rotation(config)


# What positions add to the scores of an attention: nothing, ALiBi, or a learned bias for each distance.


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
