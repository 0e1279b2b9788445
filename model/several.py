"""One network with several sets of weights at once: each example of a batch has a set of its own.

A pass of a tiny network costs calls, not products; so read, the network of ten moments costs about as many as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.capture.hooks import kind_of
from model.inference.copies import with_weights
from model.inference.model import Inspectable
from model.network.attention import HeadProjection, TurnedProjection
from model.network.layers import TokenEmbedding
from model.network.norms import NORMS
from model.network.positions import LearnedPositions
from model.rows import Row

READERS = {nn.Linear, HeadProjection, TurnedProjection, TokenEmbedding, LearnedPositions, nn.RMSNorm, *NORMS.values()}


class Weight:
    """A weight of a network, one of each set. To the module that has it it looks like one; torch's functions, given
    it, read `sets`.
    """

    def __init__(self, sets: Float[Tensor, "example ..."]) -> None:
        self.sets = sets

    @property
    def shape(self) -> torch.Size:
        return self.sets.shape[1:]

    @property
    def device(self) -> torch.device:
        return self.sets.device

    @property
    def dtype(self) -> torch.dtype:
        return self.sets.dtype

    def __len__(self) -> int:
        return len(self.sets[0])

    def __getitem__(self, index: tuple[None, slice]) -> Float[Tensor, "example ..."]:
        """Rows of a table, for a batch."""
        _batch, rows = index
        return self.sets[:, rows]

    def beside(self, x: Tensor) -> Tensor:
        """In as many dimensions as `x` (example, …, feature) has."""
        between = (1,) * (x.dim() - self.sets.dim())
        return self.sets.view(len(self.sets), *between, *self.shape)

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, given: Sequence[Any] = (), named: Mapping[str, Any] | None = None
    ) -> Tensor:
        if function not in RULES:
            raise NotImplementedError(f"{function.__name__} does not know several sets of weights: add its rule")
        return RULES[function](*given, **(named or {}))


def _linear(x: Tensor, weight: Weight, bias: Weight | None = None) -> Tensor:
    if bias is None:
        return torch.bmm(x, weight.sets.mT)
    return torch.baddbmm(bias.beside(x), x, weight.sets.mT)


def _embedding(ids: Int[Tensor, "example length"], weight: Weight, *_options: Any, **_named: Any) -> Tensor:
    return weight.sets[torch.arange(len(ids), device=ids.device)[:, None], ids]


def _layer_norm(x: Tensor, shape: torch.Size, weight: Weight, bias: Weight | None, eps: float) -> Tensor:
    normal = F.layer_norm(x, shape, eps=eps)
    return normal * weight.beside(x) if bias is None else torch.addcmul(bias.beside(x), normal, weight.beside(x))


def _rms_norm(x: Tensor, shape: Sequence[int], weight: Weight, eps: float | None) -> Tensor:
    return F.rms_norm(x, list(shape), eps=eps) * weight.beside(x)


RULES: dict[Callable[..., Any], Callable[..., Tensor]] = {
    F.linear: _linear,
    F.embedding: _embedding,
    F.layer_norm: _layer_norm,
    F.rms_norm: _rms_norm,
    Tensor.mul: lambda x, weight: x * weight.beside(x),
    Tensor.add: lambda x, weight: x + weight.beside(x),
}


class Several:
    """The network of a lens, for the weights of several moments, each a row as `row` has them.

    lens: reads a batch with as many examples as there are rows.
    """

    def __init__(self, lens: Inspectable, row: Row) -> None:
        """row: of all weights of `lens`, in the order of its parameters."""
        self._row = row
        parts = [Weight(part[None]) for part in row.parts]
        self._weights: dict[Tensor, Weight] = dict(zip(lens.model.parameters(), parts, strict=True))
        self.lens = with_weights(lens, self._weights.__getitem__)

    def load(self, rows: Float[Tensor, "moment all"]) -> None:
        """From now on, these are the weights."""
        for weight, sets in zip(self._weights.values(), self._row.parts_of(rows), strict=True):
            weight.sets = sets

    def of(self, weights: Sequence[Tensor]) -> list[Float[Tensor, "moment ..."]]:
        """What these weights of the lens given at the start are at those moments."""
        return [self._weights[weight].sets for weight in weights]


def can_be_several(network: nn.Module) -> bool:
    """Whether all that has weights in it can read several."""
    return all(not module._parameters or kind_of(module) in READERS for module in network.modules())
