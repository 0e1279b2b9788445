"""A network around weights that are there already."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from model.network.config import TransformerConfig
from model.network.transformer import Network, skeleton
from model.runtime.errors import CheckpointError
from model.runtime.memory import require_room

CPU = torch.device("cpu")


def assembled(
    config: TransformerConfig,
    weights: Mapping[str, Tensor],
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float32,
) -> Network:
    """The network of this config with copies of these weights, by our names, in evaluation mode and without gradients.

    No weights are drawn first: memory holds the network and one tensor more. Ties are kept; of a tied matrix any name
    will do.

    Raises:
        CheckpointError: a weight is missing, of another shape or of a type that a network cannot have, there is one too
            many, or they do not fit into memory.
    """
    model = skeleton(config)
    require_room(model.parameter_count(), dtype, device)
    names = dict(model.named_parameters(remove_duplicate=False))
    if unknown := sorted(weights.keys() - names.keys()):
        raise CheckpointError(f"the weights hold {unknown[0]} ({len(unknown)} such), which this config has not")
    made: dict[int, nn.Parameter] = {}
    for name, tensor in weights.items():
        if tensor.shape != names[name].shape:
            shapes = tuple(tensor.shape), tuple(names[name].shape)
            raise CheckpointError(f"{name} has shape {shapes[0]}, the config asks for {shapes[1]}")
        copy = _copied(name, tensor, device, dtype)
        made[id(names[name])] = nn.Parameter(copy, requires_grad=False)
    if missing := [name for name, parameter in names.items() if id(parameter) not in made]:
        raise CheckpointError(f"the weights lack {missing[0]} ({len(missing)} such)")
    for parameter in names.values():
        parameter.requires_grad_(False)  # assigning sets what is given to what was there
    model.load_state_dict({name: made[id(parameter)] for name, parameter in names.items()}, assign=True)
    for module in model.modules():
        for name, table in module.named_buffers(recurse=False):
            setattr(module, name, table.to(device, dtype))
    return model.eval()


def _copied(name: str, tensor: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    try:
        if tensor.is_complex():
            raise NotImplementedError("its numbers are complex")
        return tensor.to(device, dtype, copy=True).contiguous()
    except NotImplementedError as error:  # of a type that is only a name in torch, as float4
        raise CheckpointError(
            f"{name} is of type {str(tensor.dtype).removeprefix('torch.')}, with which no network computes here: its "
            "tensors can be looked at under Checkpoints → Read"
        ) from error
