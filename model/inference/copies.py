"""Copies of a model: with shared weights, with weights of its own, or with other positions."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from model.inference.text_model import TextModel
from model.message import InputError
from model.network.config import Position, TransformerConfig
from model.network.transformer import Network, skeleton


def sharing(model: TextModel) -> TextModel:
    """Copy with the same weights in other modules, in evaluation mode while the model may be in training mode."""
    return with_weights(model, lambda weight: weight)


def alone(model: TextModel) -> TextModel:
    """Copy with the present weights, which no training changes."""
    return with_weights(model, lambda weight: nn.Parameter(weight.detach().clone(), requires_grad=False))


def differentiable(network: Network) -> Network:
    """Copy in evaluation mode that shares the weights, whose gradients can be taken: weights of the network itself get
    none, and whether they require them stays as it is.

    Raises:
        ValueError: the network is run by transformers' own code.
    """
    require_ours(network)
    return _network_with(network, lambda weight: nn.Parameter(weight.detach())).eval()


def trainable(network: Network) -> Network:
    """Copy to train, in float32 whatever the precision of the network.

    Raises:
        ValueError: the network is run by transformers' own code.
    """
    require_ours(network)
    return _network_with(network, lambda weight: nn.Parameter(weight.detach().float().clone())).train()


def require_ours(network: Network) -> None:
    """Refuse a network that is not made of our modules.

    Raises:
        ValueError: the network is run by transformers' own code.
    """
    if not network.ours:
        raise ValueError(
            "this model is run by transformers' own code, which can be looked into and not copied: to train or to "
            "change its positions, choose a model of ours or of a family that is rebuilt as ours"
        )


@torch.no_grad()
def with_weights(model: TextModel, replace: Callable[[nn.Parameter], Any]) -> TextModel:
    """Copy in evaluation mode with `replace(weight)` in the place of each weight.

    Raises:
        ValueError: the model is run by transformers' own code.
    """
    require_ours(model.network)
    other = copy.copy(model)
    other.network = _network_with(model.network, replace)
    if other.network.training:
        other.network.eval()
    return other


def _network_with(network: Network, replace: Callable[[nn.Parameter], Any]) -> Network:
    """Copy with other weights; a tied weight is replaced once."""
    copied = _copied(network, cache(replace))
    assert isinstance(copied, Network)
    return copied


def _copied(module: nn.Module, replace: Callable[[nn.Parameter], Any]) -> nn.Module:
    """Copy of a module with other weights; much faster than copy.deepcopy, as all that is constant is shared."""
    copied = object.__new__(type(module))
    copied.__dict__ = dict(module.__dict__)
    weights: Iterable[tuple[str, nn.Parameter | None]] = module._parameters.items()
    copied.__dict__["_parameters"] = {name: None if weight is None else replace(weight) for name, weight in weights}
    children = module._modules.items()
    copied.__dict__["_modules"] = {name: None if child is None else _copied(child, replace) for name, child in children}
    return copied


# Models with other positions than they were trained with: the same weights in a network of another configuration.

LONGEST = 4096  # most tokens: the maps of all heads of longer inputs do not fit into the memory of a small machine
BASES = (0.001, 1e12)  # beyond these bases angles are not finite, or all 0, in float32
LEARNED = ".positions.table"  # end of the name of a trained table of positions


def vary(
    model: TextModel,
    *,
    position: Position | None = None,
    position_base: float | None = None,
    max_length: int | None = None,
) -> TextModel:
    """Model with another type of positions, another base or another longest input (tokens); None: as trained.

    The weights are shared with `model`. A table of learned positions is left out for another type, and cut for a
    shorter input. Without a change the result is `model` itself.

    Raises:
        ValueError: the model has no such positions, or not so many; an option is out of its range; or the network is
            run by transformers' own code.
    """
    options: dict[str, Any] = {"position": position, "position_base": position_base, "max_length": max_length}
    changes = {name: value for name, value in options.items() if value not in (None, getattr(model.config, name))}
    if not changes:
        return model
    require_ours(model.network)
    config = dataclasses.replace(model.config, **changes)
    _require_possible(model, config)
    return type(model)(
        model.name, _network(model, config), (model.source_tokenizer, model.target_tokenizer), model.training
    )


def _require_possible(model: TextModel, config: TransformerConfig) -> None:
    low, high = BASES
    if not low <= config.position_base <= high:
        raise InputError(
            "{name} ({value}) must be between {low} and {high}",
            name="position_base",
            value=f"{config.position_base:g}",
            low=f"{low:g}",
            high=f"{high:g}",
        )
    if config.max_length > max(LONGEST, model.config.max_length):
        raise ValueError(f"max_length ({config.max_length}) must be at most {max(LONGEST, model.config.max_length)}")
    if config.position != "learned":
        return
    if model.config.position != "learned":
        raise ValueError(
            f"{model.name} has no learned positions: it was trained with {model.config.position}; choose another type"
        )
    if config.max_length > model.config.max_length:
        raise ValueError(
            f"max_length ({config.max_length}) is above {model.config.max_length}: the learned positions of "
            f"{model.name} end there; choose a shorter length or another type of positions"
        )


def _network(model: TextModel, config: TransformerConfig) -> Network:
    """Network of this configuration with the parameters of `model`, tied as they are there."""
    network = skeleton(config)  # no memory and no random numbers for weights that are replaced at once
    weights = {name: _cut(name, tensor, config) for name, tensor in model.network.state_dict(keep_vars=True).items()}
    for name, parameter in network.named_parameters():  # assigned weights take `requires_grad` of those they replace
        if name in weights:
            parameter.requires_grad_(weights[name].requires_grad)
    missing, _unused = network.load_state_dict(weights, strict=False, assign=True)
    if missing:
        raise ValueError(f"{model.name} has no {missing[0]}, which positions of type {config.position} need")
    for module in network.modules():
        for name, table in module.named_buffers(recurse=False):
            setattr(module, name, table.to(model.device, model.dtype))
    return network.eval()


def _cut(name: str, tensor: Tensor, config: TransformerConfig) -> Tensor:
    """Table of learned positions, cut at the longest input; any other tensor unchanged."""
    if not name.endswith(LEARNED) or config.position != "learned" or len(tensor) == config.max_length:
        return tensor
    return nn.Parameter(tensor[: config.max_length], requires_grad=False)
