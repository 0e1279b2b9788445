"""Norms and matrices of a hosted model, recognised by what they computed."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.hosted.offloaded import held
from model.hosted.parts import HostedLinear, HostedNorm
from model.hosted.probe import Event, close
from model.runtime.device import exact

EPSILONS = ("eps", "variance_epsilon", "epsilon")
USUAL = (1e-5, 1e-6, 1e-12, 1e-8)


def as_norm(event: Event) -> HostedNorm | None:
    """The norm over the channels that this call computed, None if it was none that we know."""
    module = event.module
    if "norm" not in type(module).__name__.lower() or not event.inputs or not event.outputs:
        return None
    x, y = event.x, event.y
    if x.dim() != 2 or x.shape != y.shape:
        return None
    found = held(module), held(module, "bias")
    weight, bias = (None if each is None else each.to(x.device) for each in found)
    if any(each is not None and (each.is_meta or each.shape != x.shape[-1:]) for each in (weight, bias)):
        return None
    own = [getattr(module, name) for name in EPSILONS if isinstance(getattr(module, name, None), float)]
    for eps in (*own, *USUAL):
        for centred in (True, False):
            for scale in (weight, None if weight is None else 1 + weight):
                if close(_normed(x, scale, bias, eps, centred), y):
                    return HostedNorm(scale, bias, eps, centred, x.shape[-1])
    return None


def _normed(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool) -> Tensor:
    width = x.shape[-1:]
    scale, shift = (None if each is None else exact(each) for each in (weight, bias))
    if bias is not None and not centred:
        return torch.full_like(x, torch.nan)
    y = F.layer_norm(exact(x), width, scale, shift, eps) if centred else F.rms_norm(exact(x), width, scale, eps)
    return y.to(x.dtype).to(x.device)


def is_linear(event: Event) -> bool:
    """Whether this call multiplied by a matrix: nn.Linear, or GPT-2's Conv1D."""
    weight = getattr(event.module, "weight", None)
    known = isinstance(event.module, nn.Linear) or type(event.module).__name__ == "Conv1D"
    return known and event.leaf and bool(event.inputs) and isinstance(weight, Tensor) and weight.dim() == 2


def as_linear(event: Event) -> HostedLinear | None:
    """The matrix of this call as rows of the output; None if it is not what was multiplied by, as if quantized."""
    weight = held(event.module)
    assert weight is not None
    if not isinstance(event.module, nn.Linear):
        weight = weight.T
    if not weight.is_floating_point() or weight.is_meta:
        return None
    made = HostedLinear(weight, held(event.module, "bias"))
    return made if close(made(event.x), event.y) else None
