"""Position encodings: added to token embeddings (section 3.5), turning queries and keys, or biasing scores."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.message import InputError
from model.network.config import TransformerConfig
from model.network.masks import positions


def sinusoidal(length: int, d_model: int, base: float = 10000.0) -> Float[Tensor, "length d_model"]:
    """PE(pos, 2i) = sin(pos / base^(2i/d_model)), PE(pos, 2i+1) = cos(pos / base^(2i/d_model)) (section 3.5); float64.

    Raises:
        ValueError: d_model is odd, base is not above 0, or length is not at least 1.
    """
    if d_model % 2:
        raise ValueError(f"d_model ({d_model}) must be even: a sine is paired with a cosine")
    if base <= 0:
        raise InputError("{name} ({value}) must be greater than 0", name="base", value=base)
    if length < 1:
        raise InputError("length ({length}) must be at least 1", length=length)
    # On the CPU whatever the default device: others may have no float64.
    pair = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu")
    angle = torch.arange(length, dtype=torch.float64, device="cpu")[:, None] / base ** (pair / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


class SinusoidalPositions(nn.Module):
    """Sinusoidal encodings of the paper (section 3.5), in a table that grows with the longest input.

    `first` is the position of the first token.
    """

    table: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.base = config.position_base
        table = self.curves(config.max_length, config.d_model)
        self.register_buffer("table", table.float(), persistent=False)

    def curves(self, length: int, d_model: int) -> Float[Tensor, "length d_model"]:
        """Table of encodings: each sine beside its cosine."""
        return sinusoidal(length, d_model, self.base)

    def forward(
        self, tokens: Float[Tensor, "batch length d_model"], first: int = 0
    ) -> Float[Tensor, "1 length d_model"]:
        end, d_model = first + tokens.shape[1], tokens.shape[2]
        if end > len(self.table):
            self.table = self.curves(end, d_model).to(self.table)
        return self.table[None, first:end]


class HalvedSinusoidalPositions(SinusoidalPositions):
    """Sinusoidal encodings in the order of Marian: all sines, then all cosines."""

    def curves(self, length: int, d_model: int) -> Float[Tensor, "length d_model"]:
        return super().curves(length, d_model).unflatten(1, (-1, 2)).mT.flatten(1)


class LearnedPositions(nn.Module):
    """Trained vector of each position up to max_length (section 3.5).

    Raises (when called):
        ValueError: the input is longer.
    """

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
        return self.table[None, first:end].clone()  # not a view, which training would change


class NoPositions(nn.Module):
    """Zeros: nothing is added to the tokens."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()

    def forward(
        self, tokens: Float[Tensor, "batch length d_model"], first: int = 0
    ) -> Float[Tensor, "1 length d_model"]:
        return torch.zeros_like(tokens[:1])


POSITIONS: dict[str, type[nn.Module]] = {
    "sinusoidal": SinusoidalPositions,
    "sinusoidal-halves": HalvedSinusoidalPositions,
    "learned": LearnedPositions,
    "rotary": NoPositions,
    "alibi": NoPositions,
    "relative": NoPositions,
    "none": NoPositions,
}
FIRST_TURNS = 1024  # positions in a rotation's first table; it grows with the longest input


class Rotation(nn.Module):
    """Rotary positions: channels i and i + d_k/2 turned by pos / base^(2i/d_k) radians (Su et al., 2021, equation 34).

    The product of a turned query and a turned key depends on their distance alone. Pairs are those of Llama and
    GPT-NeoX; the paper's pairs are neighbours, which is the same up to the order of the channels.
    `first` is the position of the first vector.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.base, self.length = config.position_base, config.max_length
        self.stretch, self.short, self.long = config.rotary_stretch, config.rotary_short, config.rotary_long
        self._tables: dict[tuple[torch.dtype, torch.device], tuple[Tensor, Tensor]] = {}

    def forward(
        self, x: Float[Tensor, "batch head length channel"], first: int = 0
    ) -> Float[Tensor, "batch head length channel"]:
        end = first + x.shape[2]
        cosine, sine = self._table(x, end)
        left, right = x.chunk(2, dim=-1)
        return x * cosine[first:end] + torch.cat([-right, left], dim=-1) * sine[first:end]

    def _table(self, x: Tensor, end: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines (position, channel) of at least `end` positions, from float64, in the precision of `x`."""
        table = self._tables.get((x.dtype, x.device))
        if table is None or len(table[0]) < end:
            length = max(end, min(self.length, FIRST_TURNS) if table is None else 2 * len(table[0]))
            with torch.inference_mode(False):  # training may need them later
                pair = torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1]
                angle = torch.arange(length, dtype=torch.float64)[:, None] / self._stretched(self.base**pair)
                both = torch.cat([angle, angle], dim=-1)
                table = both.cos().to(x.device, x.dtype), both.sin().to(x.device, x.dtype)
            self._tables[x.dtype, x.device] = table
        return table

    def _stretched(self, periods: Float[Tensor, pair]) -> Float[Tensor, pair]:
        """Periods (wavelength / 2π) for longer inputs: times `stretch` where wavelengths are above `long`, unchanged
        below `short`, with linearly interpolated frequencies between (Chen et al., 2023; Llama 3.1's code, 2024).
        """
        if self.stretch == 1:
            return periods
        wavelengths = 2 * math.pi * periods
        low, high = (torch.tensor(limit, dtype=torch.float64).reciprocal() for limit in (self.long, self.short))
        unstretched = (wavelengths.reciprocal() - low) / (high - low)
        unstretched = unstretched.where(wavelengths < self.long, 0.0).where(wavelengths >= self.short, 1.0)
        return periods / ((1 - unstretched) / self.stretch + unstretched)


class PartialRotation(Rotation):
    """Rotary positions on the first `channels` of a head, none on the others (Black et al., 2022, section 2.1)."""

    def __init__(self, config: TransformerConfig, channels: int) -> None:
        super().__init__(config)
        self.channels = channels

    def forward(
        self, x: Float[Tensor, "batch head length channel"], first: int = 0
    ) -> Float[Tensor, "batch head length channel"]:
        return torch.cat([super().forward(x[..., : self.channels], first), x[..., self.channels :]], dim=-1)


def turning(config: TransformerConfig) -> Rotation:
    """Rotation of as many channels as the configuration asks for."""
    return PartialRotation(config, config.rotary_channels) if config.rotary_channels else Rotation(config)


# Biases of attention scores: none, ALiBi, or a trained one for each distance.


def alibi_slopes(n_heads: int) -> Float[Tensor, head]:
    """Slopes 2^(−8h/n) of heads h = 1 … n, where n is a power of 2; for other n those of the next lower power, then
    every second slope of the next higher one (Press et al., 2022, section 3 and its published code).
    """
    power = 1 << (n_heads.bit_length() - 1)

    def slopes(n: int) -> Tensor:
        return 2.0 ** (-8.0 / n * torch.arange(1, n + 1, dtype=torch.float64, device="cpu"))

    return torch.cat([slopes(power), slopes(2 * power)[::2][: n_heads - power]])


def relative_buckets(
    relative: Int[Tensor, distance], buckets: int, reach: int, both_ways: bool
) -> Int[Tensor, distance]:
    """Bucket of each key position minus query position (Raffel et al., 2020, section 2.1 and their code).

    Half of the buckets hold one distance each, the others ranges that grow as a geometric series up to `reach`, the
    last one all farther distances. both_ways: the second half of all buckets is for keys after the query; otherwise
    these count as distance 0. In float32 as in the published code, whose rounding decides at the borders of ranges.
    """
    one_way = buckets // 2 if both_ways else buckets
    single = one_way // 2
    distance = relative.abs() if both_ways else (-relative).clamp(min=0)
    share = (distance.clamp(min=1).float() / single).log() / math.log(reach / single)
    ranged = (single + (share * (one_way - single)).long()).clamp(max=one_way - 1)
    return torch.where(distance < single, distance, ranged) + one_way * (relative > 0) * both_ways


class Unbiased(nn.Identity):
    """Scaled scores themselves: positions add nothing."""

    def bias(self, queries: int, keys: int, like: Tensor) -> Float[Tensor, "head query key"] | None:
        """Bias of the scores; None: there is none."""
        return None


class PositionBias(nn.Module):
    """Scaled scores plus a bias of each head for the position of a key relative to the query's."""

    def forward(self, scaled: Float[Tensor, "*batch head query key"]) -> Float[Tensor, "*batch head query key"]:
        queries, keys = scaled.shape[-2:]
        return scaled + self.bias(queries, keys, scaled)

    def bias(
        self, queries: int, keys: int, like: Tensor, heads: slice = slice(None)
    ) -> Float[Tensor, "head query key"]:
        """Bias of the `heads`, on the device and in the precision of `like`; the last query stands at the last key."""
        raise NotImplementedError


class Alibi(PositionBias):
    """Scaled scores minus slope × distance, with a slope for each head (Press et al., 2022); in encoders both ways."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.slopes = alibi_slopes(config.n_heads)

    def bias(
        self, queries: int, keys: int, like: Tensor, heads: slice = slice(None)
    ) -> Float[Tensor, "head query key"]:
        query, key = positions(queries, keys, like.device)
        slopes = self.slopes[heads].to(like.device, like.dtype)
        return -slopes[:, None, None] * (query - key).abs()


class RelativeBias(PositionBias):
    """Scaled scores plus a trained number for each head and bucket of distances (Raffel et al., 2020, section 2.1)."""

    def __init__(self, config: TransformerConfig, causal: bool) -> None:
        super().__init__()
        self.causal, self.reach = causal, config.position_reach
        self.table = nn.Parameter(torch.empty(config.position_buckets, config.n_heads))
        nn.init.normal_(self.table, std=config.d_model**-0.5)

    def bias(
        self, queries: int, keys: int, like: Tensor, heads: slice = slice(None)
    ) -> Float[Tensor, "head query key"]:
        """table[bucket(key − query), head]."""
        relative = torch.arange(1 - keys, queries, device=like.device)
        buckets = relative_buckets(relative, len(self.table), self.reach, not self.causal)
        by_distance = self.table[buckets, heads].to(like.dtype).T  # (head, distance), the last query's first
        return by_distance.unfold(1, keys, 1).flip(1)


def share_bias(layers: Iterable[nn.Module]) -> None:
    """Let the self-attentions of a stack share one table of relative biases, where they have them."""
    biases = [layer.get_submodule("self_attention.biased") for layer in layers]
    learned = [bias for bias in biases if isinstance(bias, RelativeBias)]
    for bias in learned:
        bias.table = learned[0].table


def position_bias(config: TransformerConfig, cross: bool, causal: bool) -> Unbiased | PositionBias:
    """Bias of scores that the configuration asks for; none in cross-attention: source and target share no positions."""
    if cross:
        return Unbiased()
    if config.position == "relative":
        return RelativeBias(config, causal)
    return Alibi(config) if config.position == "alibi" else Unbiased()
