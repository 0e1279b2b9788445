"""Operations of a bridged model's blocks, by the matrices that its modules were seen to multiply by in a probe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import nn

from model.checkpoints.bridge.experts import experts_call
from model.checkpoints.bridge.modules import module_tensor
from model.checkpoints.bridge.probe import Event, close, is_linear


@dataclass(frozen=True)
class Products:
    """Multiply-adds in the weight matrices of a block, for each token of the stream and each key of a cross-attention.

    width: channels of a query and a value together, in all heads.
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
        for rows, size in _matrices(event, events, tokens):
            if partly:
                counts[tokens] += rows * size / tokens
            elif rows in counts:
                counts[rows] += size
            else:
                return None
        if _is_unknown(event, events):
            return None
    return Products(counts[tokens], 0 if keys is None else counts[keys], width)


def _matrices(event: Event, events: Sequence[Event], tokens: int) -> list[tuple[int, int]]:
    """Rows that a call multiplied by a matrix, and multiply-adds for each row."""
    weight = module_tensor(event.module)
    if is_linear(event) and weight is not None:
        rows = event.x.numel() // event.x.shape[-1]
        return [(rows, event.x.shape[-1] * event.y.shape[-1])]  # of a quantized one, the weight is of another shape
    if multiplies_by_own_matrix(event) and weight is not None:
        return [(len(event.x), weight.numel())]
    if (experts := experts_call(event, events)) is not None:
        return [(tokens, experts.per_token)]
    return []


def multiplies_by_own_matrix(event: Event) -> bool:
    """True if a call multiplied by a matrix of its own, as routers do, though it is no linear layer."""
    weight = module_tensor(event.module)
    if is_linear(event) or isinstance(event.module, nn.Embedding) or weight is None or weight.dim() != 2:
        return False
    if not event.inputs or event.x.shape[-1] != weight.shape[1]:
        return False
    bias = module_tensor(event.module, "bias")
    bias = bias if bias is not None and bias.shape == weight.shape[:1] else None
    x = event.x.to(weight.dtype)
    product = F.linear(x, weight.to(x.device), None if bias is None else bias.to(x.device))
    return any(close(product, y.to(product.dtype)) for y in event.outputs if y.is_floating_point())


def _is_unknown(event: Event, events: Sequence[Event]) -> bool:
    """True if a call has matrices of its own that are not known to multiply anything."""
    if is_linear(event) or isinstance(event.module, nn.Embedding) or multiplies_by_own_matrix(event):
        return False
    matrices = [tensor for tensor in event.module.parameters(recurse=False) if tensor.dim() > 1]
    if not matrices:
        return False
    return not any(experts_call(call, events) for call in (event, *event.within[-1:]))
