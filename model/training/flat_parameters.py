"""The tensors of a network side by side in one piece of memory, so that one kernel call acts on all of them.

A small network has a hundred tensors, and calling a kernel for each takes as long as the work of the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

ALIGNED = 64  # bytes: alignment of each tensor, as kernels like it


class FlatParameters:
    """Zeros in one row, in the shapes of some tensors.

    whole: all tensors in their order, with zeros between them. parts: each tensor, a view of `whole`. sizes: elements
    of each in `whole`, the zeros behind it included.

    Raises:
        ValueError: the tensors are of several types or on several devices.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        if len(kinds := {(tensor.dtype, tensor.device) for tensor in tensors}) != 1:
            raise ValueError(f"the weights are of several types or on several devices ({kinds}): make them alike")
        ((dtype, device),) = kinds
        step = max(1, ALIGNED // dtype.itemsize)
        self.sizes = [-(-tensor.numel() // step) * step for tensor in tensors]
        self.whole: Float[Tensor, " all"] = torch.zeros(sum(self.sizes), dtype=dtype, device=device)
        slices = zip(self.whole.split(self.sizes), tensors, strict=True)
        self.parts = [part[: tensor.numel()].view(tensor.shape) for part, tensor in slices]

    def parts_of(self, rows: Float[Tensor, "row all"]) -> list[Float[Tensor, "row ..."]]:
        """Each tensor as it is in several rows like `whole`: views of these."""
        slices = zip(rows.split(self.sizes, dim=1), self.parts, strict=True)
        return [part[:, : tensor.numel()].view(len(rows), *tensor.shape) for part, tensor in slices]


def weights_in_a_row(parameters: Sequence[nn.Parameter]) -> FlatParameters:
    """Move weights, of any shapes, into one row, of which they are parts from now on."""
    row = FlatParameters(parameters)
    for parameter, part in zip(parameters, row.parts, strict=True):
        part.copy_(parameter.data)
        parameter.data = part
    return row
