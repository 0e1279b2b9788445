"""A running average of the weights, put into a model for a while."""

from __future__ import annotations

import torch
from torch import Tensor

from model.transformer import Transformer


class AveragedWeights:
    """Swaps averaged weights into a model on entry and the trained ones back on exit."""

    def __init__(self, model: Transformer, average: dict[str, Tensor]) -> None:
        self.model, self.average = model, average

    def __enter__(self) -> Transformer:
        self.was_training = self.model.training
        self.trained = {name: tensor.detach().clone() for name, tensor in self.model.named_parameters()}
        self._load(self.average)
        return self.model.eval()

    def __exit__(self, *error: object) -> None:
        self._load(self.trained)
        self.model.train(self.was_training)

    @torch.no_grad()
    def _load(self, weights: dict[str, Tensor]) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.copy_(weights[name])
