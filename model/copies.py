"""Copies of a model: one that sees the same weights, one that keeps them as they are now."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

import torch
from torch import nn

from model.inspectable import Inspectable
from model.network import Network


def sharing(lens: Inspectable) -> Inspectable:
    """The same weights in modules of their own: the copy evaluates while the model is in training mode."""
    return _with_model(lens, lambda weight: weight)


def alone(lens: Inspectable) -> Inspectable:
    """Weights of its own, as they are now, which no training changes."""
    return _with_model(lens, lambda weight: nn.Parameter(weight.detach().clone(), requires_grad=False))


def trainable(network: Network) -> Network:
    """A copy to train, in float32 whatever the precision of the original.

    Raises:
        ValueError: the model is run by transformers' own code, and cannot be copied.
    """
    require_ours(network)
    made = {parameter: nn.Parameter(parameter.detach().float().clone()) for parameter in network.parameters()}
    copied = _copied(network, made)
    assert isinstance(copied, Network)
    return copied.train()


def require_ours(network: Network) -> None:
    """
    Raises:
        ValueError: the model is run by transformers' own code.
    """
    if not network.ours:
        raise ValueError(
            "this model is run by transformers' own code, which can be looked into and not copied: to train or to "
            "change its positions, choose a model of ours or of a family that is rebuilt as ours"
        )


@torch.no_grad()
def _with_model(lens: Inspectable, of: Callable[[nn.Parameter], nn.Parameter]) -> Inspectable:
    require_ours(lens.model)
    other = copy.copy(lens)
    made = {parameter: of(parameter) for parameter in lens.model.parameters()}
    copied = _copied(lens.model, made)
    assert isinstance(copied, Network)
    other.model = copied.eval()
    return other


def _copied(module: nn.Module, made: dict[nn.Parameter, nn.Parameter]) -> nn.Module:
    """Much quicker than copy.deepcopy: what is neither a module nor a weight is constant, and is shared."""
    copied = object.__new__(type(module))
    copied.__dict__ = dict(module.__dict__)
    weights: Iterable[tuple[str, nn.Parameter | None]] = module._parameters.items()
    copied.__dict__["_parameters"] = {name: None if old is None else made[old] for name, old in weights}
    children = module._modules.items()
    copied.__dict__["_modules"] = {name: None if child is None else _copied(child, made) for name, child in children}
    return copied
