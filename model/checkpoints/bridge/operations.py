"""Operations of a bridged model's blocks, by the matrices that its modules were seen to multiply by in a probe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from model.checkpoints.bridge.modules import module_tensor
from model.checkpoints.bridge.probe import Event, close, is_linear


@dataclass(frozen=True)
class Products:
    """Multiply-adds of the products with matrices of a block: for each token of the stream, and for each key of a
    cross-attention. width: of a query and a value together in all heads, of an attention.
    """

    per_token: int | float
    per_key: int | float = 0
    width: int = 0

    def flops(self, tokens: int, keys: int = 0) -> int:
        """Operations, 2 per multiply-add, also of the products of queries with keys and of weights with values."""
        return round(2 * (tokens * self.per_token + keys * self.per_key + tokens * keys * self.width))


def products(
    events: Sequence[Event], tokens: int, keys: int | None = None, width: int = 0, partly: bool = False
) -> Products | None:
    """Products of a block with these calls; None: it multiplies by something in a way that is not known here.

    tokens, keys: of the probe; None: keys are the tokens themselves. partly: some matrices multiply some of the tokens
    only, as of experts, and count for their share.
    """
    counts: dict[int, int | float] = {tokens: 0, tokens if keys is None else keys: 0}
    for event in events:
        for rows, size in _matrices(event, tokens):
            if partly:
                counts[tokens] += rows * size / tokens
            elif rows in counts:
                counts[rows] += size
            else:
                return None
        if _is_unknown(event):
            return None
    return Products(counts[tokens], 0 if keys is None else counts[keys], width)


def _matrices(event: Event, tokens: int) -> list[tuple[int, int]]:
    """Rows that a call multiplied by a matrix, and multiply-adds for each row."""
    weight = module_tensor(event.module)
    if is_linear(event) and weight is not None:
        rows = event.x.numel() // event.x.shape[-1]
        return [(rows, event.x.shape[-1] * event.y.shape[-1])]  # of a quantized one, the weight is of another shape
    if is_router(event) and weight is not None:
        return [(len(event.x), weight.numel())]
    if (experts := chosen_experts(event)) is not None:
        return [(tokens, experts.per_token)]
    return []


@dataclass(frozen=True)
class ExpertsCall:
    """What a call of a module that holds the matrices of all experts was given.

    x: (position, d_model). chosen, weights: (position, k), the numbers of the experts of each token, and their weights.
    """

    x: Tensor
    chosen: Tensor
    weights: Tensor
    count: int
    per_token: int  # multiply-adds


def chosen_experts(event: Event) -> ExpertsCall | None:
    """Experts that a call was told to use for each token; None: it is no such call."""
    own = [tensor for tensor in event.module.parameters(recurse=False) if tensor.dim() == 3]
    if not own or len({len(tensor) for tensor in own}) > 1 or len(event.inputs) < 3:
        return None
    x, chosen, weights = event.inputs[:3]
    if chosen.is_floating_point() and not weights.is_floating_point():
        chosen, weights = weights, chosen
    count = len(own[0])
    if chosen.is_floating_point() or chosen.shape != weights.shape or chosen.shape[:1] != x.shape[:1]:
        return None
    per_token = chosen.shape[-1] * sum(tensor[0].numel() for tensor in own)
    return ExpertsCall(x, chosen, weights, count, per_token)


def is_router(event: Event) -> bool:
    """Whether a call multiplied by a matrix of its own, as routers do, though it is no linear layer."""
    weight = module_tensor(event.module)
    if is_linear(event) or isinstance(event.module, nn.Embedding) or weight is None or weight.dim() != 2:
        return False
    if not event.inputs or event.x.shape[-1] != weight.shape[1]:
        return False
    bias = module_tensor(event.module, "bias")
    bias = bias if bias is not None and bias.shape == weight.shape[:1] else None
    x = event.x.to(weight.dtype)
    made = F.linear(x, weight.to(x.device), None if bias is None else bias.to(x.device))
    return any(close(made, y.to(made.dtype)) for y in event.outputs if y.is_floating_point())


def _is_unknown(event: Event) -> bool:
    """Whether a call has matrices of its own that are not known to multiply anything."""
    if is_linear(event) or isinstance(event.module, nn.Embedding) or is_router(event):
        return False
    matrices = [tensor for tensor in event.module.parameters(recurse=False) if tensor.dim() > 1]
    if not matrices:
        return False
    return chosen_experts(event) is None
