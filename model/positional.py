"""Position encodings: where a token stands, added to what it is (section 3.5)."""

from __future__ import annotations

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
    pair = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = torch.arange(length, dtype=torch.float64)[:, None] / base ** (pair / d_model)
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
    """Zeros: the model sees a set of tokens, not a sequence."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()

    def forward(
        self, tokens: Float[Tensor, "batch length d_model"], first: int = 0
    ) -> Float[Tensor, "1 length d_model"]:
        return torch.zeros_like(tokens[:1])


POSITIONS = {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions, "none": NoPositions}
