"""Key frames of a training: steps that one can go back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from model.network.transformer import Network
from model.training.settings import RunSettings


@dataclass(frozen=True)
class KeyFrame:
    """All that a run needs to go on from a step exactly as it did.

    run: the number of the one it belongs to. tensors: weights, moments and average. figures: progress and scaling.
    Random numbers follow from the seed, which is among the choices, and the step.
    """

    run: int
    step: int
    choices: RunSettings
    tensors: Mapping[str, Tensor]
    figures: Mapping[str, str]

    @property
    def size(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())

    @torch.no_grad()
    def load(self, network: Network) -> None:
        """Put its weights into a model."""
        for name, parameter in network.named_parameters():
            parameter.copy_(self.tensors[f"model.{name}"])
