"""Weights in oneDNN's layout, by which the few rows of a step of decoding are multiplied faster on some machines.

Only decoding uses them; traces and comparisons use torch's own products.
"""

from __future__ import annotations

import statistics
import time
import weakref
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from model.runtime.locks import Lock

SMALL = 1 << 15  # weights of a matrix: below, the layout gains nothing
ROOM = 1 << 27  # most bytes of weights in this layout, of all networks of this process
FASTER = 1.1  # least speed of the layout, in speeds of torch's own product: less is noise
TURNS = 3
ROWS, SIDE = 4, 512  # of the product by which both are compared
MOST_ROWS = 64  # for which a weight is laid out
UNREAD = 1 << 24  # bytes of weights that the comparison reads in turn: more than a processor's cache holds

_lock = Lock("layouts")
_layouts: WeakTensorKeyDictionary = WeakTensorKeyDictionary()  # by weight
_sizes: dict[int, int] = {}  # bytes of each layout, by its id: a finalizer takes one out in one step


class _Layout:
    """Layout of one version of a weight.

    first: the first text that uses the weight. Computing the layout takes as long as dozens of products, so it waits
    for the second text.
    """

    def __init__(self, weight: Tensor, first: object) -> None:
        self._weight = weight.detach()  # kept, so that its memory is not reused
        self._version = weight._version
        self._first = weakref.ref(first)
        self._packed: Tensor | None = None

    def is_of(self, weight: Tensor) -> bool:
        """True if `weight` is the same memory in the same version."""
        return self._version == weight._version and weight.is_set_to(self._weight)

    def packed(self, text: object) -> Tensor | None:
        """Weight in oneDNN's layout; None for the first text, and beyond `ROOM`."""
        size = self._weight.nbytes
        if self._packed is None and self._first() is not text and sum(_sizes.values()) + size <= ROOM:
            self._packed = _packed(self._weight)
            _sizes[id(self)] = size
            weakref.finalize(self, _sizes.pop, id(self))
        return self._packed


def laid_out(weight: Tensor, text: object) -> Tensor | None:
    """Weight (outputs, features) in oneDNN's layout, where that is faster; else None.

    text: cache of the text that is written; the first text that uses a weight gets None, and all beyond `ROOM`.
    None also on other devices than the CPU, in other precisions than float32, and where operations are counted or
    redirected.
    """
    if weight.dtype != torch.float32 or weight.device.type != "cpu":
        with _lock:
            _layouts.pop(weight, None)  # of its former device or precision
        return None
    if weight.numel() < SMALL or weight.is_inference():
        return None
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        return None
    if torch.is_autocast_enabled("cpu") or not is_faster(torch.get_num_threads()):
        return None
    with _lock:
        if weight in _layouts and not _layouts[weight].is_of(weight):
            del _layouts[weight]
        if weight not in _layouts:
            _layouts[weight] = _Layout(weight, text)
        packed: Tensor | None = _layouts[weight].packed(text)
        return packed


def product(x: Tensor, packed: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b (…, outputs) of x (…, features); packed: W in oneDNN's layout."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    return result


def _packed(weight: Tensor) -> Tensor:
    result: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), MOST_ROWS)
    return result


@cache
def is_faster(threads: int) -> bool:
    """True if the layout is faster on this machine (on an AMD EPYC it is), measured once in hundredths of a second.

    threads: number of torch's threads.
    """
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    draw = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(size, SIDE, generator=draw, dtype=torch.float32, device="cpu") for size in (ROWS, SIDE))
    weights = [weight.clone() for _ in range(UNREAD // weight.nbytes)]
    ratios = []
    with torch.inference_mode():
        layouts = [_packed(weight) for weight in weights]
        for _ in range(1 + TURNS):  # kernels are created in the first
            began = time.perf_counter()
            for weight in weights:
                F.linear(x, weight)
            between = time.perf_counter()
            for packed in layouts:
                product(x, packed)
            ratios.append((between - began) / (time.perf_counter() - between))
    return statistics.median(ratios[1:]) >= FASTER
