"""Room for tensors: in a block of `asking`, each operation asks the ledger before it takes main memory."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from model.runtime.ledger import Reservation
from model.runtime.memory import ledger

LARGE = 1 << 20  # bytes of a result that is asked for: smaller ones are served from what is freed
OF_A_TEXT = "what is computed of this text"
WIDEST = 8  # bytes of the widest numbers


@contextmanager
def asking(when: bool = True, within: Reservation | None = None, name: str = OF_A_TEXT) -> Iterator[None]:
    """Block whose large results are asked for one by one. when: whether they are; small texts need not wait for it.

    within: promise that covers what the block keeps.

    Raises:
        NoRoomError: the next one does not fit.
    """
    if not when:
        yield
    elif _thread.mode is not None:  # two would ask twice for the same memory
        with _thread.mode.meanwhile(within, name):
            yield
    else:
        with Asking(within, name) as _thread.mode:
            try:
                yield
            finally:
                _thread.mode = None


class Asking(TorchDispatchMode):
    """Mode in which operations on the CPU ask before they are done."""

    def __init__(self, within: Reservation | None, name: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._within, self._name = within, name

    @contextmanager
    def meanwhile(self, within: Reservation | None, name: str) -> Iterator[None]:
        """Block that asks for something else."""
        before = self._within, self._name
        self._within, self._name = within, name
        try:
            yield
        finally:
            self._within, self._name = before

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        size = new_bytes(func, args, kwargs)
        if size < LARGE:
            return func(*args, **kwargs)
        with ledger().taking(self._name, size, self._within):
            return func(*args, **kwargs)


class _Thread(threading.local):
    """The mode in which this thread's operations ask."""

    mode: Asking | None = None


_thread = _Thread()


def new_bytes(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Bytes of main memory that the results of an operation will take; 0 of views and of what is done in place.

    Of results whose size only the values tell, the most that it can be.
    """
    if not makes_new(func):
        return 0
    given = [leaf for leaf in tree_leaves((args, dict(kwargs))) if isinstance(leaf, Tensor)]
    if any(tensor.device.type not in ("cpu", "meta") for tensor in given):
        return 0
    if given and (most := most_numbers(func, given)) is not None and WIDEST * most < LARGE:
        return 0
    meta = torch.device("meta")

    stand_ins: list[Tensor] = []

    def without_values(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            stand_ins.append(torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device=meta))
            return stand_ins[-1]
        return meta if isinstance(leaf, torch.device) else leaf

    try:
        options = dict(kwargs) if given else {**kwargs, "device": meta}
        outputs = func(*tree_map(without_values, args), **tree_map(without_values, options))
    except (RuntimeError, TypeError, NotImplementedError):
        return WIDEST * max((max(1, tensor.dim()) * tensor.numel() for tensor in given), default=0)
    known = {tensor.untyped_storage()._cdata for tensor in stand_ins}
    results = [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, Tensor)]
    return sum(each.nbytes for each in results if each.untyped_storage()._cdata not in known)


@cache
def makes_new(func: Any) -> bool:
    """True if an operation may make tensors of its own: not in place, and no view; `reshape` is either."""
    views = any(result.alias_info for result in func._schema.returns)
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    return not func._schema.is_mutable and (not views or composite)


def most_numbers(func: Any, given: Sequence[Tensor]) -> int | None:
    """Most numbers that a result has, where the shapes of the tensors alone tell it quickly; else None."""
    if torch.Tag.pointwise in func.tags:
        return broadcast_numbers([tensor.shape for tensor in given])
    if func.overloadpacket in PRODUCTS:
        *_added, one, other = given
        return one.numel() // max(1, one.shape[-1]) * other.shape[-1]
    count = sum(tensor.numel() for tensor in given)
    return count if func.overloadpacket in KEEPING else None


def broadcast_numbers(shapes: Sequence[Sequence[int]]) -> int:
    """Numbers of tensors of these shapes after broadcasting."""
    sizes = [1] * max((len(shape) for shape in shapes), default=0)
    for shape in shapes:
        for place, size in enumerate(reversed(shape)):
            sizes[place] = max(sizes[place], size)
    return math.prod(sizes)


aten = torch.ops.aten
PRODUCTS = {aten.mm, aten.addmm, aten.bmm, aten.baddbmm}  # (…, n, k) by (…, k, m), the last two
KEEPING = {aten._softmax, aten._log_softmax, aten.native_layer_norm, aten.clone, aten._to_copy, aten.cat, aten.sum}
KEEPING |= {
    aten.mean,
    aten.amax,
    aten._scaled_dot_product_flash_attention_for_cpu,
    aten.index_select,
}  # no more than came
