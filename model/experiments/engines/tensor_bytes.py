"""Bytes of all tensors that a computation makes, its backward pass and the casts of autocast included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class TensorBytes(TorchDispatchMode):
    """Context that counts the bytes of tensors made in it: the `peak` of those that exist at a time.

    `timing.LiveTensorBytes` sees functions, this one every operation beneath them. Memory that an operation takes only
    while it computes is not seen.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self._sizes: dict[StorageWeakRef, int] = {}
        self._at_most = 0  # bytes, those of freed tensors that have not been left out yet included

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        before = {_storage(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and (storage := _storage(leaf)) not in before | self._sizes.keys():
                self._sizes[storage] = leaf.untyped_storage().nbytes()
                self._at_most += self._sizes[storage]
        if self._at_most > self.peak:
            self.peak = max(self.peak, self.now)
        return result

    @property
    def now(self) -> int:
        """Bytes of the tensors that exist now."""
        self._sizes = {storage: size for storage, size in self._sizes.items() if not storage.expired()}
        self._at_most = sum(self._sizes.values())
        return self._at_most


def _storage(tensor: Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())


def peak_bytes(run: Callable[[], object]) -> int:
    """Peak bytes of the tensors that a computation makes, its result included."""
    with TensorBytes() as tensors:
        run()
    return tensors.peak
