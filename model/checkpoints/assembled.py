"""A network put around existing weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from model.message import Message
from model.network.config import TransformerConfig
from model.network.transformer import Network, skeleton
from model.runtime import cancellation
from model.runtime.errors import CheckpointError, OtherWeightsError
from model.runtime.file_pages import FilePages
from model.runtime.memory import require_room

CPU = torch.device("cpu")


def assembled(
    config: TransformerConfig,
    weights: Mapping[str, Tensor],
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float32,
) -> Network:
    """Network of a config with copies of these weights, in evaluation mode and without gradients.

    weights: by our names, in the shapes of our parameters; a tied matrix under any of its names. No weights are
    initialised first: memory holds the network and one tensor more, or some pages of a file.

    Raises:
        OtherWeightsError: a weight is missing, unknown or of another shape.
        CheckpointError: one is of a type that a network cannot have, or they do not fit into memory.
    """
    network = skeleton(config)
    require_room(network.parameter_count(), dtype, device)
    names = dict(network.named_parameters(remove_duplicate=False))
    if unknown := sorted(weights.keys() - names.keys()):
        raise OtherWeightsError(
            Message(
                "the weights hold {unknown} ({count} such), which this config has not",
                unknown=unknown[0],
                count=len(unknown),
            )
        )
    copies: dict[int, nn.Parameter] = {}
    pages = FilePages()
    for name, tensor in weights.items():
        cancellation.check()
        if tensor.shape != names[name].shape:
            shapes = tuple(tensor.shape), tuple(names[name].shape)
            raise OtherWeightsError(
                Message(
                    "{name} has shape {shapes}, the config asks for {shapes_2}",
                    name=name,
                    shapes=shapes[0],
                    shapes_2=shapes[1],
                )
            )
        copy = _copied(name, tensor, device, dtype)
        pages.copied(tensor)
        copies[id(names[name])] = nn.Parameter(copy, requires_grad=False)
    if missing := [name for name, parameter in names.items() if id(parameter) not in copies]:
        raise OtherWeightsError(
            Message("the weights lack {missing} ({count} such)", missing=missing[0], count=len(missing))
        )
    for parameter in names.values():
        parameter.requires_grad_(False)  # assign=True keeps requires_grad of the parameter that was there
    network.load_state_dict({name: copies[id(parameter)] for name, parameter in names.items()}, assign=True)
    for module in network.modules():
        for name, table in module.named_buffers(recurse=False):
            setattr(module, name, table.to(device, dtype))
    return network.eval()


def _copied(name: str, tensor: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    try:
        if not tensor.is_floating_point():
            raise NotImplementedError("its numbers are complex, or whole ones, which are codes")
        # One allocation, not two: those between which smaller ones lie are no room for the next.
        return torch.empty(tensor.shape, dtype=dtype, device=device).copy_(tensor)
    except NotImplementedError as error:  # torch knows only the name of some types, as float4
        raise CheckpointError(
            "{file} is of type {dtype}, with which no network computes here: its tensors can be looked at under "
            "Checkpoints → Read",
            file=name,
            dtype=str(tensor.dtype).removeprefix("torch."),
        ) from error
