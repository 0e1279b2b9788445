"""The tensors of a network side by side in one piece of memory: what is done to each of them is then done once.

A small network has a hundred tensors, and to call a kernel for each takes as long as what the kernels do.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

ALIGNED = 64  # bytes: where each tensor begins, as kernels like it


class FlatParameters:
    """whole: all tensors in their order; between them are zeros. parts: each of them, a view of `whole`.

    Raises:
        ValueError: the tensors are of several types or on several devices.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        """A row of zeros for tensors like these."""
        if len(kinds := {(each.dtype, each.device) for each in tensors}) != 1:
            raise ValueError(f"the weights are of several types or on several devices ({kinds}): make them alike")
        ((dtype, device),) = kinds
        step = max(1, ALIGNED // dtype.itemsize)
        self.sizes = [-(-each.numel() // step) * step for each in tensors]
        self.whole: Float[Tensor, " all"] = torch.zeros(sum(self.sizes), dtype=dtype, device=device)
        places = zip(self.whole.split(self.sizes), tensors, strict=True)
        self.parts = [place[: each.numel()].view(each.shape) for place, each in places]

    def parts_of(self, rows: Float[Tensor, "row all"]) -> list[Float[Tensor, "row ..."]]:
        """Each tensor, from several rows like this one: views of them."""
        places = zip(rows.split(self.sizes, dim=1), self.parts, strict=True)
        return [place[:, : each.numel()].view(len(rows), *each.shape) for place, each in places]

    @torch.no_grad()
    def fill(self, tensors: Sequence[Tensor]) -> None:
        """The values of these."""
        for part, tensor in zip(self.parts, tensors, strict=True):
            part.copy_(tensor)


def weights_in_a_row(parameters: Sequence[nn.Parameter]) -> FlatParameters:
    """From now on these weights are parts of the row."""
    row = FlatParameters(parameters)
    row.fill(parameters)
    for parameter, part in zip(parameters, row.parts, strict=True):
        parameter.data = part
    return row
