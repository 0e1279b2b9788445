"""Files of torch.save before torch 1.6: five pickles, one behind the other, then the values.

The pickles are a magic number, a version, the machine's sizes, the object, and the keys of its storages in the order of
their values; of each follow the count of its numbers (8 bytes) and these (torch.serialization, _legacy_load). They are
followed as in `pickle_steps`, and here the tensors are made of what was found: no library loads the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from model.checkpoints.formats.pickle_steps import (
    BYTES,
    CALLS,
    MOST_TENSORS,
    UNREADABLE,
    Entries,
    KeepingReading,
    Named,
    NumpyType,
    RefusedError,
    are_sizes,
    kind,
    refusal,
)
from model.checkpoints.formats.weight_files import map_file
from model.checkpoints.formats.zip import LARGEST_PICKLE
from model.runtime.files import open_file

BEGINNING = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")  # the magic number 0x1950a86a20f9469cfc6c as a pickle
VERSION = 1001
DTYPES = {
    "ByteStorage": torch.uint8,
    "CharStorage": torch.int8,
    "BoolStorage": torch.bool,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "ShortStorage": torch.int16,
    "FloatStorage": torch.float32,
    "IntStorage": torch.int32,
    "DoubleStorage": torch.float64,
    "LongStorage": torch.int64,
    "ComplexFloatStorage": torch.complex64,
    "ComplexDoubleStorage": torch.complex128,
}


def is_legacy(path: Path) -> bool:
    """True if a file begins as torch.save wrote it before torch 1.6."""
    with open_file(path) as file:
        return file.read(len(BEGINNING)) == BEGINNING


def read_legacy(path: Path) -> Any:
    """Object in such a file: dictionaries, lists, plain values, and tensors that are mapped from the file.

    Raises:
        RefusedError: the file is damaged, or would make something else; to stand after its name.
        CheckpointError: the memory does not hold a tensor.
    """
    with open_file(path) as file:
        content = file.read(LARGEST_PICKLE)
    size, at = path.stat().st_size, len(BEGINNING)
    version, at = _next(content, at)
    machine, at = _next(content, at)
    if version != VERSION or not isinstance(machine, dict) or machine.get("little_endian") is not True:
        raise RefusedError("was written by an old torch in a form that is not read: save it again with torch.save")
    reading = _Values(content, {}, at)
    content_object = reading.result()
    keys, at = _next(content, reading.at)
    if not isinstance(keys, list) or sorted(map(str, keys)) != sorted(reading.storages):
        raise RefusedError("is damaged: its list of values is not that of its tensors")
    places: dict[str, int] = {}
    for key in keys:
        storage = reading.storages[str(key)]
        with open_file(path) as file:
            file.seek(at)
            count = int.from_bytes(file.read(8), "little", signed=True)
        if count != storage.numbers or at + 8 + storage.bytes > size:
            raise RefusedError(
                "is damaged: its values {key} are not {numbers:,} numbers", key=str(key)[:60], numbers=storage.numbers
            )
        places[str(key)], at = at + 8, at + 8 + storage.bytes

    @cache
    def values(storage: Storage) -> torch.UntypedStorage:
        return map_file(path, places[storage.key], storage.bytes).untyped_storage()

    return _with_tensors(content_object, lambda tensor: _tensor_of(tensor, values))


def _next(content: bytes, at: int) -> tuple[Any, int]:
    reading = _Values(content, {}, at)
    return reading.result(), reading.at


class Storage(NamedTuple):
    """Numbers that tensors share, by their key in the file."""

    key: str
    type: str
    numbers: int

    @property
    def bytes(self) -> int:
        return self.numbers * BYTES[self.type]


class StoredTensor(NamedTuple):
    """Tensor of a storage: the first of its numbers, its shape, and its strides in numbers."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _tensor(arguments: tuple[Any, ...]) -> StoredTensor | None:
    """_rebuild_tensor(storage, offset, shape, strides), and _rebuild_tensor_v2 with gradient and hooks behind it."""
    storage, offset, shape, strides, *_more = arguments
    plain = isinstance(storage, Storage) and type(offset) is int and are_sizes(shape) and are_sizes(strides)
    return StoredTensor(storage, offset, shape, strides) if plain else None


def _counter(arguments: tuple[Any, ...]) -> Entries | None:
    if len(arguments) != 1 or not isinstance(arguments[0], Entries):
        return None
    copy = Entries()
    copy.update(arguments[0])
    copy.entries = arguments[0].entries
    return copy


def _parameter(arguments: tuple[Any, ...]) -> StoredTensor | None:
    plain = 2 <= len(arguments) <= 3 and isinstance(arguments[0], StoredTensor)
    return arguments[0] if plain else None


class _Values(KeepingReading):
    """Machine that keeps the places of tensors."""

    calls = CALLS | {
        "collections.OrderedDict": lambda arguments: Entries() if not arguments else None,
        "collections.Counter": _counter,
        "torch._utils._rebuild_tensor": lambda arguments: _tensor(arguments) if len(arguments) == 4 else None,
        "torch._utils._rebuild_tensor_v2": lambda arguments: _tensor(arguments) if len(arguments) == 6 else None,
        "torch._utils._rebuild_parameter": _parameter,
    }

    def __init__(self, content: bytes, sizes: Mapping[str, int], at: int = 0) -> None:
        super().__init__(content, sizes, at)
        self.storages: dict[str, Storage] = {}

    def storage(self) -> None:
        """Persistent id (word, type, key, place, count, view), of which views are not written since torch 0.4."""
        word, storage_type, key, place, count, view = self.stack.pop()
        name = storage_type.path.rpartition(".")[2] if isinstance(storage_type, Named) else ""
        if isinstance(storage_type, Named) and storage_type.path in UNREADABLE:
            raise refusal(storage_type.path)
        known = word == "storage" and name in DTYPES and type(key) is str and type(place) is str and view is None
        if not known or type(count) is not int or count < 0:
            raise RefusedError(
                "holds more than tensors ({value}): save only a model's state_dict",
                value=name[:60] or kind(storage_type),
            )
        storage = self.storages.setdefault(key, Storage(key, name, count))
        if storage != Storage(key, name, count) or len(self.storages) > MOST_TENSORS:
            raise RefusedError("is damaged: its values {key} are described twice, or there are too many", key=key[:60])
        self.stack.append(storage)


def _with_tensors(root: Any, mapped: Callable[[StoredTensor], Tensor]) -> Any:
    """The object with real tensors in the place of the found ones, and none in that of types; what is held by itself
    stays so.
    """
    known: dict[int, Any] = {}

    def of(value: Any) -> Any:
        if isinstance(value, Named | NumpyType):
            return None
        return mapped(value) if isinstance(value, StoredTensor) else known.get(id(value), value)

    waiting = [root]
    order: list[Any] = []
    while waiting:
        value = waiting.pop()
        if id(value) in known or not isinstance(value, dict | list | tuple):
            continue
        if isinstance(value, StoredTensor | Named | NumpyType):
            continue
        known[id(value)] = {} if isinstance(value, dict) else []
        order.append(value)
        waiting += value.values() if isinstance(value, dict) else value
    for value in order:
        if isinstance(value, dict):
            known[id(value)].update({key: of(inner) for key, inner in value.items()})
        else:
            known[id(value)].extend(map(of, value))
    return of(root)


def _tensor_of(tensor: StoredTensor, values: Callable[[Storage], torch.UntypedStorage]) -> Tensor:
    storage, dtype = tensor.storage, DTYPES[tensor.storage.type]
    if len(tensor.shape) != len(tensor.strides) or min((*tensor.shape, *tensor.strides, tensor.offset)) < 0:
        raise RefusedError(
            "is damaged: a tensor has the shape {shape} and the strides {strides}",
            shape=tensor.shape,
            strides=tensor.strides,
        )
    if 0 in tensor.shape:
        return torch.empty(tensor.shape, dtype=dtype)
    last = tensor.offset + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.strides, strict=True))
    if last >= storage.numbers:
        raise RefusedError(
            "is damaged: a tensor of shape {shape} goes beyond its values {key}",
            shape=tensor.shape,
            key=storage.key[:60],
        )
    return torch.empty(0, dtype=dtype).set_(values(storage), tensor.offset, tensor.shape, tensor.strides)
