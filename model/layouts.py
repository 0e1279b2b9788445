"""Weights as oneDNN wants them: few rows, as a step of decoding brings them, are multiplied faster so on some machines.

Only decoding takes them: what is traced or compared is torch's own product, the same each time.
"""

from __future__ import annotations

import statistics
import threading
import time
import weakref
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

SMALL = 1 << 15  # weights that are read in no time either way
ROOM = 1 << 27  # bytes of weights laid out, of all networks of this process; beyond, they are taken as they are
FASTER = 1.1  # times torch's own: less is noise
TURNS = 5
MOST_ROWS, MOST_WIDTH = 64, 2048  # of a comparison: more take longer and change little
UNREAD = 1 << 22  # bytes of weights that are read in turn, as in a network: none is still in a fast cache

_lock = threading.RLock()
_layouts: WeakTensorKeyDictionary = WeakTensorKeyDictionary()  # by weight
_taken = 0  # bytes


class _Layout:
    """A weight laid out, as long as the weight is the same and nobody has written to it in a way that torch counts."""

    def __init__(self, weight: Tensor) -> None:
        self.packed = _packed(weight)
        self._weight, self._version = weight.detach(), weight._version  # held, so that its memory stays its own
        weakref.finalize(self, _take, -weight.nbytes)
        _take(weight.nbytes)

    def is_of(self, weight: Tensor) -> bool:
        return self._version == weight._version and weight.is_set_to(self._weight)


def laid_out(weight: Tensor, rows: int) -> Tensor | None:
    """`weight` (outputs, features) in oneDNN's layout, where that is faster for so many rows and there is room.

    None elsewhere than on a CPU, in other precisions than float32, and where someone counts or redirects operations.
    """
    if weight.numel() < SMALL or weight.dtype != torch.float32 or weight.device.type != "cpu" or weight.is_inference():
        return None
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        return None
    if torch.is_autocast_enabled("cpu") or not is_faster(about(rows), *weight.shape, torch.get_num_threads()):
        return None
    with _lock:
        layout: _Layout | None = _layouts.get(weight)
        if layout is None or not layout.is_of(weight):
            _layouts.pop(weight, None)
            del layout  # its room is free before more is taken
            if _taken + weight.nbytes > ROOM:
                return None
            layout = _layouts[weight] = _Layout(weight)
        return layout.packed


def product(x: Tensor, packed: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b, W laid out."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    return result


def _packed(weight: Tensor) -> Tensor:
    result: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), MOST_ROWS)
    return result


def _take(size: int) -> None:
    global _taken
    with _lock:
        _taken += size


def about(rows: int) -> int:
    """1, 4, 16 or 64 rows, for which a comparison is made."""
    return min(MOST_ROWS, 1 << 2 * ((rows - 1).bit_length() + 1 >> 1))


@cache
def is_faster(rows: int, outputs: int, features: int, threads: int) -> bool:
    """Whether the layout gains time here: it does on an AMD EPYC, where MKL is slow.

    threads: of torch, for which the answer holds. Some hundredths of a second, once.
    """
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    draw = torch.Generator().manual_seed(0)
    outputs, features = min(outputs, MOST_WIDTH), min(features, MOST_WIDTH)
    x, weight = (torch.randn(length, features, generator=draw) for length in (rows, outputs))
    weights = [weight.clone() for _ in range(max(1, UNREAD // weight.nbytes))]
    ratios = []
    with torch.inference_mode():
        layouts = [_packed(each) for each in weights]
        for _ in range(TURNS):
            began = time.perf_counter()
            for each in weights:
                F.linear(x, each)
            between = time.perf_counter()
            for each in layouts:
                product(x, each)
            ratios.append((between - began) / (time.perf_counter() - between))
    return statistics.median(ratios) >= FASTER
