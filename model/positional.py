"""Position encodings: where a token stands, added to what it is (section 3.5)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from model.config import TransformerConfig


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
