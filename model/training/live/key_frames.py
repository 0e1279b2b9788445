"""Key frames of a training: states to go back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from model.network.transformer import Network
from model.training.optimizer import load_weights
from model.training.settings import RunSettings


@dataclass(frozen=True)
class KeyFrame:
    """State from which a run goes on exactly as it did.

    run: number of its run. tensors: weights, moments and average, as in `Trainer.state_dict`. figures: progress and
    scaling. Random numbers follow from the seed, which is among the settings, and the step.
    """

    run: int
    step: int
    settings: RunSettings
    tensors: Mapping[str, Tensor]
    figures: Mapping[str, str]

    @property
    def size(self) -> int:
        """Bytes of the tensors."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())

    def load(self, network: Network) -> None:
        """Copy its weights into a network."""
        load_weights(network, self.tensors, "model.")
