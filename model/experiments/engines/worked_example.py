"""Three inputs of four numbers through one head of attention, step by step, by the network's own modules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from model.network.attention import MultiHeadAttention
from model.network.config import TransformerConfig

Rows = tuple[tuple[float, ...], ...]

SHAPES = {"X": (3, 4), "W_Q": (4, 3), "W_K": (4, 3), "W_V": (4, 3)}
LARGEST = 1e6  # absolute value of a typed number

# The example that many explanations share (Karim, "Illustrated: Self-Attention", 2019).
DOCUMENT: dict[str, Rows] = {
    "X": ((1.0, 0.0, 1.0, 0.0), (0.0, 2.0, 0.0, 2.0), (1.0, 1.0, 1.0, 1.0)),
    "W_Q": ((1.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, 1.0, 1.0)),
    "W_K": ((0.0, 0.0, 1.0), (1.0, 1.0, 0.0), (0.0, 1.0, 0.0), (1.0, 1.0, 0.0)),
    "W_V": ((0.0, 2.0, 0.0), (0.0, 3.0, 0.0), (1.0, 0.0, 3.0), (1.0, 1.0, 0.0)),
}


@dataclass(frozen=True)
class Steps:
    """All quantities between the inputs and the outputs, in float64."""

    query: Float[Tensor, "3 channel"]
    key: Float[Tensor, "3 channel"]
    value: Float[Tensor, "3 channel"]
    scores: Float[Tensor, "3 3"]
    scaled: Float[Tensor, "3 3"]
    weights: Float[Tensor, "3 3"]
    factor: float

    @cached_property
    def weighted(self) -> Float[Tensor, "query key channel"]:
        """Values times their weights."""
        return self.weights[:, :, None] * self.value

    @property
    def outputs(self) -> Float[Tensor, "3 channel"]:
        """Outputs of the head."""
        return self.weights @ self.value

    def rounded(self, step: float) -> tuple[Float[Tensor, "3 3"], Float[Tensor, "3 channel"]]:
        """Weights rounded to multiples of `step`, and the outputs that these give."""
        weights = (self.weights / step).round() * step
        return weights, weights @ self.value


def take_steps(matrices: Mapping[str, Rows], scaled: bool) -> Steps:
    """softmax(Q Kᵀ / √d_k) V with Q = X W_Q, K = X W_K, V = X W_V; without 1/√d_k unless `scaled` (section 3.2.1)."""
    attention = one_head(matrices, scaled)
    x = torch.tensor(matrices["X"], dtype=torch.float64)[None]
    visible = torch.ones(3, 3, dtype=torch.bool)
    with torch.inference_mode():
        query, (key, value) = attention.query(x), attention.keys_and_values(x)
        scores = attention.scores(query, key)
        scaled_scores = attention.scaled(scores)
        weights = attention.weights(attention.masked(scaled_scores, visible), visible)
    query, key, value, scores, scaled_scores, weights = (
        tensor[0, 0] for tensor in (query, key, value, scores, scaled_scores, weights)
    )
    return Steps(query, key, value, scores, scaled_scores, weights, attention.scaled.factor)


def one_head(matrices: Mapping[str, Rows], scaled: bool) -> MultiHeadAttention:
    """Attention of one head with the weights W_Q, W_K and W_V."""
    config = TransformerConfig.one_stack(
        "encoder-only", 2, 1, d_model=4, n_heads=1, head_width=3, position="none", bias=False, scale_attention=scaled
    )
    attention = MultiHeadAttention(config).double()
    with torch.no_grad():
        for name, part in (("W_Q", attention.query), ("W_K", attention.key), ("W_V", attention.value)):
            part.weight.copy_(torch.tensor(matrices[name], dtype=torch.float64).mT)
    return attention


def parse(texts: Sequence[str]) -> dict[str, Rows]:
    """Matrices of all cells as they are typed, X first, row by row.

    Raises:
        CellError: about the first cell without a usable number.
    """
    cells = iter(texts)
    return {
        name: tuple(tuple(_number(next(cells), name, row, column) for column in range(columns)) for row in range(rows))
        for name, (rows, columns) in SHAPES.items()
    }


class CellError(ValueError):
    """A cell without a usable number; reason: "empty", "text", "large"."""

    def __init__(self, name: str, row: int, column: int, text: str, reason: str) -> None:
        super().__init__(f"{name}, row {row + 1}, column {column + 1}: {text!r} is {reason}")
        self.name, self.row, self.column, self.text, self.reason = name, row, column, text, reason


def _number(text: str, name: str, row: int, column: int) -> float:
    text = text.strip()
    if not text:
        raise CellError(name, row, column, text, "empty")
    try:
        value = float(text.replace("−", "-"))
    except ValueError:
        raise CellError(name, row, column, text, "text") from None
    if not math.isfinite(value) or abs(value) > LARGEST:
        raise CellError(name, row, column, text, "text" if math.isnan(value) else "large")
    return value


def texts_of(matrices: Mapping[str, Rows]) -> list[str]:
    """Texts of all cells, X first, row by row."""
    return [f"{value:.12g}" for name in SHAPES for row in matrices[name] for value in row]
