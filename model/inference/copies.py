"""Copies of a model: one that sees the same weights, one that keeps them as they are now."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from model.inference.text_model import TextModel
from model.network.config import Position, TransformerConfig
from model.network.transformer import Network, skeleton


def sharing(model: TextModel) -> TextModel:
    """The same weights in modules of their own: the copy evaluates while the model is in training mode."""
    return with_weights(model, lambda weight: weight)


def alone(model: TextModel) -> TextModel:
    """Weights of its own, as they are now, which no training changes."""
    return with_weights(model, lambda weight: nn.Parameter(weight.detach().clone(), requires_grad=False))


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
def with_weights(model: TextModel, of: Callable[[nn.Parameter], Any]) -> TextModel:
    """The same in modules of their own, with what `of` puts in the place of each weight.

    Raises:
        ValueError: the model is run by transformers' own code.
    """
    require_ours(model.network)
    other = copy.copy(model)
    other.network = _network_with(model.network, of)
    if other.network.training:
        other.network.eval()
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


# A checkpoint with other positions than it was trained with: the same weights in a network of another config.

LONGEST = 4096  # tokens: above that the maps of all heads do not fit into the memory of a small machine
BASES = (0.001, 1e12)  # beyond them angles are no longer numbers, or all 0, in float32
LEARNED = ".positions.table"  # how the name of a trained table of positions ends


def vary(
    model: TextModel,
    *,
    position: Position | None = None,
    position_base: float | None = None,
    max_length: int | None = None,
) -> TextModel:
    """`model` with another type of positions, another base or another longest input; what is None stays as trained.

    The weights are the checkpoint's own, shared and not copied. A table of learned positions is left out where another
    type is asked for, and cut where the longest input is shorter. Where nothing changes, it is `model` itself.

    Raises:
        ValueError: the checkpoint has no such positions, or not so many, an option is out of its range, or the model is
            run by code that is not ours.
    """
    asked: dict[str, Any] = {"position": position, "position_base": position_base, "max_length": max_length}
    changes = {name: value for name, value in asked.items() if value not in (None, getattr(model.config, name))}
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
        raise ValueError(f"position_base ({config.position_base:g}) must be between {low:g} and {high:g}")
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
    """The network of this config with the parameters of `model`, which also keep their ties."""
    network = skeleton(config)  # no memory and no random numbers for weights that are replaced at once
    kept = {name: _fitting(name, tensor, config) for name, tensor in model.network.state_dict(keep_vars=True).items()}
    for name, parameter in network.named_parameters():  # assigning sets what is given to what was there
        if name in kept:
            parameter.requires_grad_(kept[name].requires_grad)
    missing, _unused = network.load_state_dict(kept, strict=False, assign=True)
    if missing:
        raise ValueError(f"{model.name} has no {missing[0]}, which positions of type {config.position} need")
    for module in network.modules():
        for name, table in module.named_buffers(recurse=False):
            setattr(module, name, table.to(model.device, model.dtype))
    return network.eval()


def _fitting(name: str, tensor: Tensor, config: TransformerConfig) -> Tensor:
    """A table of learned positions as long as the config's longest input; any other tensor as it is."""
    if not name.endswith(LEARNED) or config.position != "learned" or len(tensor) == config.max_length:
        return tensor
    return nn.Parameter(tensor[: config.max_length], requires_grad=False)
