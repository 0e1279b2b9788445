"""Copies of a model: one that sees the same weights, one that keeps them as they are now."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from model.inspectable import Inspectable
from model.network import Network


def sharing(lens: Inspectable) -> Inspectable:
    """The same weights in modules of their own: the copy evaluates while the model is in training mode."""
    return with_weights(lens, lambda weight: weight)


def alone(lens: Inspectable) -> Inspectable:
    """Weights of its own, as they are now, which no training changes."""
    return with_weights(lens, lambda weight: nn.Parameter(weight.detach().clone(), requires_grad=False))


def trainable(network: Network) -> Network:
    """A copy to train, in float32 whatever the precision of the original.

    Raises:
        ValueError: the model is run by transformers' own code, and cannot be copied.
    """
    require_ours(network)
    return _network_with(network, lambda weight: nn.Parameter(weight.detach().float().clone())).train()


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
def with_weights(lens: Inspectable, of: Callable[[nn.Parameter], Any]) -> Inspectable:
    """The same in modules of their own, with what `of` puts in the place of each weight.

    Raises:
        ValueError: the model is run by transformers' own code.
    """
    require_ours(lens.model)
    other = copy.copy(lens)
    other.model = _network_with(lens.model, of)
    if other.model.training:
        other.model.eval()
    return other


def _network_with(network: Network, of: Callable[[nn.Parameter], Any]) -> Network:
    """A copy with other weights, those that are used twice made once."""
    made: dict[nn.Parameter, Any] = {}

    def once(weight: nn.Parameter) -> Any:
        if weight not in made:
            made[weight] = of(weight)
        return made[weight]

    copied = _copied(network, once)
    assert isinstance(copied, Network)
    return copied


def _copied(module: nn.Module, of: Callable[[nn.Parameter], Any]) -> nn.Module:
    """Much quicker than copy.deepcopy: what is neither a module nor a weight is constant, and is shared."""
    copied = object.__new__(type(module))
    copied.__dict__ = dict(module.__dict__)
    weights: Iterable[tuple[str, nn.Parameter | None]] = module._parameters.items()
    copied.__dict__["_parameters"] = {name: None if weight is None else of(weight) for name, weight in weights}
    children = module._modules.items()
    copied.__dict__["_modules"] = {name: None if child is None else _copied(child, of) for name, child in children}
    return copied
