"""Removing heads: their weighted values are 0 before W^O (Michel et al., 2019, section 2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from model.interventions import AttentionChange, Intervention
from model.quantities import ATTENTION_PATHS, AttentionKind


class HeadsRemoved(Intervention):
    """Heads of one layer that give nothing: ξ_h = 0 in Σ_h ξ_h · (softmax(Q Kᵀ / √d_k) V)_h W^O_h."""

    kind: AttentionKind
    layer: int

    def empty(self, heads: Float[Tensor, "*batch head query channel"]) -> None:
        """Write the zeros."""
        raise NotImplementedError

    def before(self, path: str, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """
        Raises:
            ValueError: only the model's own code has the heads apart.
        """
        if path == self._path and not hasattr(module, "heads"):
            raise ValueError("the heads of this model cannot be removed: it computes its attention by code of its own")
        return inputs

    def after(self, path: str, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        if not path.endswith(".heads") or path != f"{self._path}.heads":
            return output
        output = output.clone()
        self.empty(output)
        return output

    @cached_property
    def _path(self) -> str:  # kept: many may be removed, and each is asked about every module of a pass
        return ATTENTION_PATHS[self.kind].format(self.layer)


@dataclass(frozen=True)
class RemovedHead(AttentionChange, HeadsRemoved):
    """One head; one that the model does not have is no change.

    Each token's output is that of its own pass without the head, so a cache of keys and values stays exact.
    """

    layer: int
    head: int

    def empty(self, heads: Float[Tensor, "*batch head query channel"]) -> None:
        heads[..., self.head : self.head + 1, :, :] = 0

    def __str__(self) -> str:
        return f"{self.kind}.{self.layer}.{self.head}:remove"


@dataclass(frozen=True)
class EachRemoved(HeadsRemoved):
    """For a batch of copies of one text: in the first the first of these heads is removed, and so on."""

    kind: AttentionKind
    layer: int
    heads: tuple[int, ...]

    def empty(self, heads: Float[Tensor, "*batch head query channel"]) -> None:
        heads[torch.arange(len(self.heads)), list(self.heads)] = 0


def removed_heads(changes: Sequence[Intervention], kind: str, layer: int) -> list[int]:
    """The heads of a layer that these changes remove."""
    removals = [each for each in changes if isinstance(each, RemovedHead)]
    return sorted({each.head for each in removals if (each.kind, each.layer) == (kind, layer)})
