"""Norms over the features of each position: torch's LayerNorm, the textbook's, RMSNorm, or none."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from model.network.config import TransformerConfig
from model.runtime.device import exact


class Norm(nn.Module):
    """Norm with γ (`weight`), and β (`bias`) unless biases are off, both (d_model)."""

    shifts = True  # whether the norm has a β
    centred = True  # whether it takes the mean away

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.eps = config.norm_epsilon
        self.weight = nn.Parameter(torch.ones(config.d_model))
        self.bias = nn.Parameter(torch.zeros(config.d_model)) if self.shifts and config.bias else None

    @staticmethod
    def mean(x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch"]:
        """μ of each position."""
        return x.mean(dim=-1)

    @staticmethod
    def std(x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch"]:
        """σ of each position, the population standard deviation."""
        return x.std(dim=-1, correction=0)

    @property
    def rule(self) -> tuple[object, ...]:
        """Key of the formula: norms with the same rule differ in γ and β only."""
        return type(self), self.eps, self.bias is None

    @staticmethod
    def exactly(
        norms: Sequence[Norm], x: Float[Tensor, "norm position d_model"]
    ) -> Float[Tensor, "norm position d_model"]:
        """Outputs of norms with the same rule, each on its own input, by their formula step by step in float64."""
        x = exact(x)
        mean = x.mean(dim=-1, keepdim=True)
        std = (x - mean).square().mean(dim=-1, keepdim=True).sqrt()
        scaled = norms[0]._normal(x, mean, std) * exact(torch.stack([norm.weight for norm in norms])[:, None])
        shifts: list[Tensor] = [norm.bias for norm in norms if norm.bias is not None]
        return scaled + exact(torch.stack(shifts)[:, None]) if shifts else scaled

    def _normal(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        """x normalised, before γ and β; mean, std: μ and σ of its positions."""
        raise NotImplementedError


class LayerNorm(Norm):
    """(x − μ) / √(σ² + ε) · γ + β over the features of each position (Ba et al., 2016), as torch computes it."""

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)

    def _normal(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        return (x - mean) / (std**2 + self.eps).sqrt()


class TextbookNorm(Norm):
    """(x − μ) / (σ + ε) · γ + β: ε is added to the deviation (form of the Annotated Transformer)."""

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
    """TextbookNorm with the sample deviation, which divides by d_model − 1."""

    correction = 1


class RMSNorm(Norm):
    """x / √(mean(x²) + ε) · γ: no mean is subtracted, no β added (Zhang and Sennrich, 2019, equation 4)."""

    shifts = centred = False

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)

    def _normal(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        return x / (std**2 + mean**2 + self.eps).sqrt()


class NoNorm(nn.Identity):
    """The residual stream itself, without a norm."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()


NORMS: dict[str, type[nn.Module]] = {
    "layer": LayerNorm,
    "textbook": TextbookNorm,
    "textbook-sample": SampleTextbookNorm,
    "rms": RMSNorm,
    "none": NoNorm,
}


def norm(config: TransformerConfig) -> nn.Module:
    """Norm that the configuration asks for."""
    return NORMS[config.norm](config)
