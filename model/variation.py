"""A checkpoint with other positions than it was trained with: the same weights in a network of another config."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import Tensor, nn

from model.config import Position, TransformerConfig
from model.copies import require_ours
from model.inspectable import Inspectable
from model.network import Network
from model.skeleton import skeleton

LONGEST = 4096  # tokens: above that the maps of all heads do not fit into the memory of a small machine
BASES = (0.001, 1e12)  # beyond them angles are no longer numbers, or all 0, in float32
LEARNED = ".positions.table"  # how the name of a trained table of positions ends


def vary(
    lens: Inspectable,
    *,
    position: Position | None = None,
    position_base: float | None = None,
    max_length: int | None = None,
) -> Inspectable:
    """`lens` with another type of positions, another base or another longest input; what is None stays as trained.

    The weights are the checkpoint's own, shared and not copied. A table of learned positions is left out where another
    type is asked for, and cut where the longest input is shorter. Where nothing changes, it is `lens` itself.

    Raises:
        ValueError: the checkpoint has no such positions, or not so many, an option is out of its range, or the model is
            run by code that is not ours.
    """
    asked: dict[str, Any] = {"position": position, "position_base": position_base, "max_length": max_length}
    changes = {name: value for name, value in asked.items() if value not in (None, getattr(lens.config, name))}
    if not changes:
        return lens
    require_ours(lens.model)
    config = dataclasses.replace(lens.config, **changes)
    _require_possible(lens, config)
    return type(lens)(lens.name, _network(lens, config), (lens.source_tokenizer, lens.target_tokenizer), lens.training)


def _require_possible(lens: Inspectable, config: TransformerConfig) -> None:
    low, high = BASES
    if not low <= config.position_base <= high:
        raise ValueError(f"position_base ({config.position_base:g}) must be between {low:g} and {high:g}")
    if config.max_length > max(LONGEST, lens.config.max_length):
        raise ValueError(f"max_length ({config.max_length}) must be at most {max(LONGEST, lens.config.max_length)}")
    if config.position != "learned":
        return
    if lens.config.position != "learned":
        raise ValueError(
            f"{lens.name} has no learned positions: it was trained with {lens.config.position}; choose another type"
        )
    if config.max_length > lens.config.max_length:
        raise ValueError(
            f"max_length ({config.max_length}) is above {lens.config.max_length}: the learned positions of "
            f"{lens.name} end there; choose a shorter length or another type of positions"
        )


def _network(lens: Inspectable, config: TransformerConfig) -> Network:
    """The network of this config with the parameters of `lens`, which also keep their ties."""
    model = skeleton(config)  # no memory and no random numbers for weights that are replaced at once
    kept = {name: _fitting(name, tensor, config) for name, tensor in lens.model.state_dict(keep_vars=True).items()}
    for name, parameter in model.named_parameters():  # assigning sets what is given to what was there
        if name in kept:
            parameter.requires_grad_(kept[name].requires_grad)
    missing, _unused = model.load_state_dict(kept, strict=False, assign=True)
    if missing:
        raise ValueError(f"{lens.name} has no {missing[0]}, which positions of type {config.position} need")
    for module in model.modules():
        for name, table in module.named_buffers(recurse=False):
            setattr(module, name, table.to(lens.device, lens.dtype))
    return model.eval()


def _fitting(name: str, tensor: Tensor, config: TransformerConfig) -> Tensor:
    """A table of learned positions as long as the config's longest input; any other tensor as it is."""
    if not name.endswith(LEARNED) or config.position != "learned" or len(tensor) == config.max_length:
        return tensor
    return nn.Parameter(tensor[: config.max_length], requires_grad=False)
