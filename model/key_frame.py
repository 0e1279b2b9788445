"""A step of a training that one can go back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from model.changes import Choices
from model.network.transformer import Network


@dataclass(frozen=True)
class KeyFrame:
    """All that a run needs to go on from a step exactly as it did.

    run: the number of the one it belongs to. tensors: weights, moments and average. figures: progress and scaling.
    Random numbers follow from the seed, which is among the choices, and the step.
    """

    run: int
    step: int
    choices: Choices
    tensors: Mapping[str, Tensor]
    figures: Mapping[str, str]

    @property
    def size(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())

    @torch.no_grad()
    def load(self, model: Network) -> None:
        """Put its weights into a model."""
        for name, parameter in model.named_parameters():
            parameter.copy_(self.tensors[f"model.{name}"])
