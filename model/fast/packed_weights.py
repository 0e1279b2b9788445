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
TURNS = 3
MOST_ROWS, MOST_WIDTH = 64, 2048  # of a comparison: more take longer and change little
UNREAD = 1 << 24  # bytes of weights that are read in turn, as in a network: few are still in a fast cache

_lock = threading.RLock()
_layouts: WeakTensorKeyDictionary = WeakTensorKeyDictionary()  # by weight
_taken = 0  # bytes


class _Layout:
    """A weight laid out, as long as the weight is the same and nobody has written to it in a way that torch counts.

    first: the text that it is asked for first. That takes as long as dozens of products, so it is done for the second.
    """

    def __init__(self, weight: Tensor, first: object) -> None:
        self._weight, self._version = weight.detach(), weight._version  # held, so that its memory stays its own
        self._first = weakref.ref(first)
        self._packed: Tensor | None = None

    def is_of(self, weight: Tensor) -> bool:
        return self._version == weight._version and weight.is_set_to(self._weight)

    def packed(self, text: object) -> Tensor | None:
        """None for the first text, and where there is no room."""
        size = self._weight.nbytes
        if self._packed is None and self._first() is not text and _taken + size <= ROOM:
            self._packed = _packed(self._weight)
            weakref.finalize(self, _take, -size)
            _take(size)
        return self._packed


def laid_out(weight: Tensor, rows: int, text: object) -> Tensor | None:
    """`weight` (outputs, features) in oneDNN's layout, where that is faster for so many rows and there is room.

    text: what is being written. From the second on that needs the same weight, unchanged, there is a layout.
    None elsewhere than on a CPU, in other precisions than float32, and where someone counts or redirects operations.
    """
    if weight.dtype != torch.float32 or weight.device.type != "cpu":
        with _lock:
            _layouts.pop(weight, None)  # of what it was before
        return None
    if weight.numel() < SMALL or weight.is_inference():
        return None
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        return None
    if torch.is_autocast_enabled("cpu") or not is_faster(about(rows), *weight.shape, torch.get_num_threads()):
        return None
    with _lock:
        if weight in _layouts and not _layouts[weight].is_of(weight):
            del _layouts[weight]
        if weight not in _layouts:
            _layouts[weight] = _Layout(weight, text)
        packed: Tensor | None = _layouts[weight].packed(text)
        return packed


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
    draw, outputs, features = torch.Generator().manual_seed(0), min(outputs, MOST_WIDTH), min(features, MOST_WIDTH)
    sizes = ((rows, features), (outputs, features))
    x, weight = (torch.randn(size, generator=draw, dtype=torch.float32, device="cpu") for size in sizes)
    weights = [weight.clone() for _ in range(max(1, UNREAD // weight.nbytes))]
    ratios = []
    with torch.inference_mode():
        layouts = [_packed(each) for each in weights]
        for _ in range(1 + TURNS):  # kernels are made in the first
            began = time.perf_counter()
            for each in weights:
                F.linear(x, each)
            between = time.perf_counter()
            for each in layouts:
                product(x, each)
            ratios.append((between - began) / (time.perf_counter() - between))
    return statistics.median(ratios[1:]) >= FASTER
