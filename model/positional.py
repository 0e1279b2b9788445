"""Position encodings: where a token stands, added to what it is (section 3.5)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from model.config import TransformerConfig
from model.masks import positions


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
        table = sinusoidal(config.max_length, config.d_model, self.base)
        self.register_buffer("table", table.float(), persistent=False)

    def forward(
        self, tokens: Float[Tensor, "batch length d_model"], first: int = 0
    ) -> Float[Tensor, "1 length d_model"]:
        end, d_model = first + tokens.shape[1], tokens.shape[2]
        if end > len(self.table):
            self.table = sinusoidal(end, d_model, self.base).to(self.table)
        return self.table[None, first:end]


class LearnedPositions(nn.Module):
    """One trained vector per position, none beyond max_length."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(config.max_length, config.d_model))
        nn.init.normal_(self.table, std=config.d_model**-0.5)

    def forward(
        self, tokens: Float[Tensor, "batch length d_model"], first: int = 0
    ) -> Float[Tensor, "1 length d_model"]:
        end = first + tokens.shape[1]
        if end > len(self.table):
            raise ValueError(
                f"length ({end}) is above max_length ({len(self.table)}): learned positions end there; "
                "shorten the input or use sinusoidal positions"
            )
        return self.table[None, first:end]


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
    "learned": LearnedPositions,
    "rotary": NoPositions,
    "alibi": NoPositions,
    "none": NoPositions,
}


class Rotation(nn.Module):
    """Turns each pair of channels (i, i + d_k/2) by position / base^(2i/d_k) (Su et al., 2021, equation 34).

    The product of a turned query and a turned key depends on how far apart they are, not on where they stand.
    The pairs are those of Llama and GPT-NeoX; the paper pairs neighbours, which is the same up to the channels' order.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.base, self.length = config.position_base, config.max_length
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
            with torch.inference_mode(False):  # training may need them later
                pair = torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1]
                angle = torch.arange(max(end, self.length), dtype=torch.float64)[:, None] / self.base**pair
                both = torch.cat([angle, angle], dim=-1)
                kept = both.cos().to(x.device, x.dtype), both.sin().to(x.device, x.dtype)
            self._tables[x.dtype, x.device] = kept
        return kept


def alibi_slopes(n_heads: int) -> Float[Tensor, head]:
    """2^(−8h/n) for head h of n = 2^k; for other n those of the next lower 2^k, then every second of the next
    higher (Press et al., 2022, section 3 and its published code).
    """
    power = 1 << (n_heads.bit_length() - 1)

    def slopes(n: int) -> Tensor:
        return 2.0 ** (-8.0 / n * torch.arange(1, n + 1, dtype=torch.float64, device="cpu"))

    return torch.cat([slopes(power), slopes(2 * power)[::2][: n_heads - power]])


class Unbiased(nn.Identity):
    """Scores as they are: the attention knows no positions by itself."""

    def bias(self, queries: int, keys: int, like: Tensor) -> Float[Tensor, "head query key"] | None:
        return None


class Alibi(nn.Module):
    """Scaled scores minus slope × distance, a slope for each head (Press et al., 2022); in an encoder both ways."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.slopes = alibi_slopes(config.n_heads)

    def forward(self, scaled: Float[Tensor, "*batch head query key"]) -> Float[Tensor, "*batch head query key"]:
        queries, keys = scaled.shape[-2:]
        return scaled + self.bias(queries, keys, scaled)

    def bias(self, queries: int, keys: int, like: Tensor) -> Float[Tensor, "head query key"]:
        """−slope × distance, on the device and in the precision of `like`."""
        query, key = positions(queries, keys, like.device)
        slopes = self.slopes.to(like.device, like.dtype)
        return -slopes[:, None, None] * (query - key).abs()


def position_bias(config: TransformerConfig, cross: bool) -> Unbiased | Alibi:
    """What positions add to scaled scores. Source and target have no common positions."""
    return Alibi(config) if config.position == "alibi" and not cross else Unbiased()
