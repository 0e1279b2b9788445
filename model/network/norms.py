"""Normalisation of the residual stream: torch's LayerNorm, the textbook's, RMSNorm, or none."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from model.network.config import TransformerConfig
from model.runtime.device import exact


class Norm(nn.Module):
    """What every norm here has: γ over the features, β unless biases are off, and statistics of its input.

    σ² is the population variance; `mean` and `std` are what the views show, whichever of them the norm uses.
    """

    shifts = True  # whether there can be a β

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.eps = config.norm_epsilon
        self.weight = nn.Parameter(torch.ones(config.d_model))
        self.bias = nn.Parameter(torch.zeros(config.d_model)) if self.shifts and config.bias else None

    @staticmethod
    def mean(x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch"]:
        return x.mean(dim=-1)

    @staticmethod
    def std(x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch"]:
        return x.std(dim=-1, correction=0)

    @property
    def rule(self) -> tuple[object, ...]:
        """Norms of one rule differ in γ and β alone."""
        return type(self), self.eps, self.bias is None

    @staticmethod
    def exactly(
        norms: Sequence[Norm], x: Float[Tensor, "norm position d_model"]
    ) -> Float[Tensor, "norm position d_model"]:
        """The formula of norms of one rule step by step in float64, each on its input, to check `forward` with."""
        x, first = exact(x), norms[0]
        mean = x.mean(dim=-1, keepdim=True)
        std = (x - mean).square().mean(dim=-1, keepdim=True).sqrt()  # torch's own is slow in float64
        normal = first._normal(x, mean, std)
        normal = normal * exact(torch.stack([each.weight for each in norms])[:, None])
        shifts: list[Tensor] = [each.bias for each in norms if each.bias is not None]
        return normal + exact(torch.stack(shifts)[:, None]) if shifts else normal

    def _normal(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        raise NotImplementedError


class LayerNorm(Norm):
    """(x − μ) / √(σ² + ε) · γ + β over the features of each position (Ba et al., 2016), as torch computes it."""

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)

    def _normal(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        return (x - mean) / (std**2 + self.eps).sqrt()


class TextbookNorm(Norm):
    """(x − μ) / (σ + ε) · γ + β, ε added to the deviation (the Annotated Transformer's form)."""

    correction = 0  # the population deviation

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        variance, mean = torch.var_mean(x, dim=-1, correction=self.correction, keepdim=True)
        normal = (x - mean) / (variance.sqrt() + self.eps) * self.weight
        return normal if self.bias is None else normal + self.bias

    def _normal(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        features = x.shape[-1]
        deviation = std * (features / (features - self.correction)) ** 0.5
        return (x - mean) / (deviation + self.eps)


class SampleTextbookNorm(TextbookNorm):
    """The same with the sample deviation, which divides by n − 1."""

    correction = 1


class RMSNorm(Norm):
    """x / √(mean(x²) + ε) · γ: no mean is taken away, no β (Zhang and Sennrich, 2019, equation 4)."""

    shifts = False

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)

    def _normal(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        return x / (std**2 + mean**2 + self.eps).sqrt()


class NoNorm(nn.Identity):
    """The residual stream as it is."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()


NORMS = {
    "layer": LayerNorm,
    "textbook": TextbookNorm,
    "textbook-sample": SampleTextbookNorm,
    "rms": RMSNorm,
    "none": NoNorm,
}


def norm(config: TransformerConfig) -> nn.Module:
    """The norm that the config asks for."""
    made: nn.Module = NORMS[config.norm](config)
    return made
