"""Linear layers: few rows, as a decoding step brings them, are quicker with the weight in oneDNN's layout."""

from __future__ import annotations

import statistics
import threading
import time
import weakref
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SMALL = 1 << 15  # weights that are read in no time either way
ROOM = 1 << 27  # bytes of weights in another layout, of all networks of this process
FASTER = 1.1  # times torch's own: less is noise
TURNS = 7
MOST_ROWS, MOST_OUTPUTS = 64, 4096  # of a comparison: more take longer and change little
UNREAD = 1 << 22  # bytes of weights that are read in turn, as in a network: none is still in a fast cache

_room = threading.Lock()
_taken = 0  # bytes


class Linear(nn.Linear):
    """x Wᵀ + b.

    Where nothing is learned, on a CPU in float32, and where that is faster, W is laid out anew for oneDNN once it is
    read a second time unchanged, and kept so beside itself.
    """

    _layout: Layout | None = None

    def forward(self, x: Tensor) -> Tensor:
        weight, packed = self.weight, None
        if torch.is_grad_enabled():
            if self._layout is not None:  # fused optimizers leave no trace on a weight, but need a gradient first
                self.__dict__["_layout"] = None
        elif self.in_features * self.out_features >= SMALL and x.dtype == torch.float32 and x.numel():
            if self._layout is not None and self._layout.is_of(weight):
                packed = self.packed(x.numel() // self.in_features)
            elif not torch.compiler.is_compiling():
                self._begin(weight)
        return F.linear(x, weight, self.bias) if packed is None else product(x, packed, self.bias)

    def packed(self, rows: int) -> Tensor | None:
        """The weight laid out for so many rows; None where it is better taken as it is, or compiled, or counted."""
        weight = self.weight
        if weight.numel() < SMALL or weight.dtype != torch.float32 or weight.device.type != "cpu":
            return None
        if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
            return None
        if torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling():
            return None
        if not packed_is_faster(_about(rows), *weight.shape, torch.get_num_threads()):
            return None
        if self._layout is None or not self._layout.is_of(weight):
            self._begin(weight)
        return self._layout.packed() if self._layout else None

    def _begin(self, weight: Tensor) -> None:
        """From now on it counts whether the weight is written to, which inference tensors do not tell."""
        self.__dict__["_layout"] = None if weight.is_inference() else Layout(weight)


class Layout:
    """A weight in oneDNN's layout, as long as it is the same and unchanged."""

    def __init__(self, weight: Tensor) -> None:
        self._weight, self._version = weight.detach(), weight._version  # held, so that its memory stays its own
        self._packed: Tensor | None = None

    def is_of(self, weight: Tensor) -> bool:
        """Whether it is this weight's, which has not been written to since."""
        return self._version == weight._version and self._weight.data_ptr() == weight.data_ptr()

    def packed(self) -> Tensor | None:
        """None where there is no room left for another layout."""
        if self._packed is None and _take(self, self._weight.nbytes):
            self._packed = packed(self._weight)
        return self._packed

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """A copied or stored weight has no layout yet."""
        return type(None), ()


def _take(owner: object, size: int) -> bool:
    """Whether there is room for so many bytes, which are then the owner's as long as it lives."""
    global _taken
    with _room:
        if _taken + size > ROOM:
            return False
        _taken += size
    weakref.finalize(owner, _give_back, size)
    return True


def _give_back(size: int) -> None:
    global _taken
    with _room:
        _taken -= size


def packed(weight: Tensor) -> Tensor:
    """`weight` (outputs, features) in oneDNN's layout for few rows."""
    result: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, MOST_ROWS)
    return result


def product(x: Tensor, packed: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    return result


def _about(rows: int) -> int:
    """The next power of two, for which a comparison holds."""
    return min(MOST_ROWS, 1 << (rows - 1).bit_length())


@cache
def packed_is_faster(rows: int, outputs: int, features: int, threads: int) -> bool:
    """Whether the other layout is the faster one here: it is on an AMD EPYC, where MKL is slow.

    threads: of torch, for which the answer holds. Some milliseconds, once.
    """
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(rows, features, generator=draw)
    weight = torch.randn(min(outputs, MOST_OUTPUTS), features, generator=draw)
    weights = [weight.clone() for _ in range(max(1, UNREAD // weight.nbytes))]
    ratios = []
    with torch.inference_mode():
        layouts = [packed(each) for each in weights]
        for _ in range(TURNS):
            began = time.perf_counter()
            for each in weights:
                F.linear(x, each)
            between = time.perf_counter()
            for each in layouts:
                product(x, each)
            ratios.append((between - began) / (time.perf_counter() - between))
    return statistics.median(ratios) >= FASTER
