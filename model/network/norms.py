"""Norms over the features of each position: torch's LayerNorm, the textbook's, RMSNorm, or none."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from model.network.config import TransformerConfig
from model.runtime.device import exact

# Roundings, each of half an epsilon: from x to (x − μ) / σ, and behind it.
STEPS, LAST = 4, 4
FINEST = 2.0**-48  # what float64 itself, summed over many features, can tell


class Norm(nn.Module):
    """Norm with γ (`weight`), and β (`bias`) unless biases are off, both (d_model)."""

    shifts = True  # whether the norm has a β
    centred = True  # whether it takes the mean away
    rounds_steps = False  # whether every step is rounded to the precision of x; else they are float32, or x's if finer

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
    ) -> tuple[Float[Tensor, "norm position d_model"], Float[Tensor, "norm position d_model"]]:
        """Outputs of norms with the same rule, each on its own input, by their formula step by step in float64; and how
        far from them rounding alone takes the norms' own outputs.

        The mean is rounded relative to its own size, which may be many deviations, and takes that along into x − μ.
        """
        weight = torch.stack([norm.weight for norm in norms])[:, None]
        precision = max(torch.finfo(x.dtype), torch.finfo(weight.dtype), key=lambda each: each.eps)
        unit, least = max(precision.eps / 2, FINEST), precision.smallest_normal * precision.eps
        steps = STEPS + x.shape[-1] ** 0.5 / 16  # sums of many features are rounded more often
        fine = steps * (unit if norms[0].rounds_steps else min(unit, torch.finfo(torch.float32).eps / 2))
        x, weight = exact(x), exact(weight)
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        std = centred.square().mean(dim=-1, keepdim=True).sqrt()
        divisor = norms[0].divisor(mean, std)
        scaled = (centred if norms[0].centred else x) / divisor * weight
        share = torch.full_like(mean, LAST * unit + fine)  # of x · γ that may be rounded away, at each position
        if norms[0].rounds_steps:  # so the variance is no finer than the least number
            share += (least / (std * divisor)).clamp(max=1)
        if norms[0].centred:
            far = fine * mean.abs() / divisor
            rounding = ((share + far) * scaled.abs()).addcmul_(far + fine * std / divisor, weight.abs()).add_(least)
        else:
            rounding = (share * scaled.abs()).add_(least)
        if norms[0].bias is None:
            return scaled, rounding
        shift = exact(torch.stack([norm.bias for norm in norms if norm.bias is not None])[:, None])
        return scaled + shift, rounding.add_(shift.abs(), alpha=unit)

    def standardised(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Output without γ and β, in float64: x − μ, or x where no mean is taken away, over the divisor."""
        x = exact(x)
        mean = self.mean(x)
        divisor = self.divisor(mean, self.std(x))
        return (x - mean[..., None] if self.centred else x) / divisor[..., None]

    def divisor(self, mean: Float[Tensor, "*batch"], std: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        """Divisor of x, or of x − μ. mean, std: μ and σ of its positions."""
        raise NotImplementedError


class LayerNorm(Norm):
    """(x − μ) / √(σ² + ε) · γ + β over the features of each position (Ba et al., 2016), as torch computes it."""

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)

    def divisor(self, mean: Tensor, std: Tensor) -> Tensor:
        return (std**2 + self.eps).sqrt()


class TextbookNorm(Norm):
    """(x − μ) / (σ + ε) · γ + β: ε is added to the deviation (form of the Annotated Transformer)."""

    correction = 0  # the population deviation
    rounds_steps = True

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        variance, mean = torch.var_mean(x, dim=-1, correction=self.correction, keepdim=True)
        normal = (x - mean) / (variance.sqrt() + self.eps) * self.weight
        return normal if self.bias is None else normal + self.bias

    def divisor(self, mean: Tensor, std: Tensor) -> Tensor:
        features = len(self.weight)
        return std * (features / (features - self.correction)) ** 0.5 + self.eps


class SampleTextbookNorm(TextbookNorm):
    """TextbookNorm with the sample deviation, which divides by d_model − 1."""

    correction = 1


class RMSNorm(Norm):
    """x / √(mean(x²) + ε) · γ: no mean is subtracted, no β added (Zhang and Sennrich, 2019, equation 4)."""

    shifts = centred = False

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)

    def divisor(self, mean: Tensor, std: Tensor) -> Tensor:
        return (std**2 + mean**2 + self.eps).sqrt()


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
