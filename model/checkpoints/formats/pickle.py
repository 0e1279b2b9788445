"""Files of torch.save, read without running any code in them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.checkpoints.formats.legacy_pickle import is_legacy, read_legacy
from model.checkpoints.formats.pickle_steps import RefusedError, inspect, kind, refusal
from model.checkpoints.formats.safetensors import LONGEST_NAME
from model.checkpoints.formats.weight_files import MAPPING_ERRORS, map_file
from model.checkpoints.formats.zip import read_archive
from model.message import Message, led_by
from model.runtime.errors import CheckpointError
from model.runtime.file_pages import LOADED
from model.runtime.files import require_file

Plain = int | float | str | bool
DEEPEST = 32  # containers within containers
MOST_VALUES = 200_000  # a container is unfolded as often as others hold it


def read_pickled(path: Path) -> dict[str, Tensor]:
    """Tensors in a .pt, .pth or .bin file by name, in their own shapes; within dictionaries and lists as "outer.inner".

    Values stay in the file; `materialize` gives tensors to compute with, also where the system cannot map the file
    whole. Plain values beside the tensors are left out.

    Raises:
        CheckpointError: the file is damaged, of another kind, holds code or no tensors.
    """
    tensors, _ = _read(path)
    if not tensors:
        raise CheckpointError("{file} holds no tensors: save a model's state_dict", file=path)
    return tensors


def read_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Plain]]:
    """Tensors, in their own shapes, and plain values in a .pt, .pth or .bin file, by names such as "model.wte.weight"
    and "model_args.n_layer". The tensors' pages are read when they are used.

    Raises:
        CheckpointError: the file is damaged, of another kind, or holds code.
    """
    tensors, records = _read(path)
    return {name: materialize(path, tensor) for name, tensor in tensors.items()}, records


def materialize(path: Path, tensor: Tensor) -> Tensor:
    """Tensor from `read_pickled` with its values, in the same shape and mapped from the file.

    Raises:
        CheckpointError: the memory does not hold the values.
    """
    if not tensor.is_meta:
        LOADED.loaded(tensor)
        return tensor
    storage = tensor.untyped_storage()
    content = map_file(path, storage_place(tensor), storage.nbytes())
    return torch.empty(0, dtype=tensor.dtype).set_(
        content.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride()
    )


def storage_place(tensor: Tensor) -> int:
    """Address of a tensor's storage (of any shape) in memory, or its offset in a file that was not mapped, in bytes."""
    storage = tensor.untyped_storage()
    return storage._checkpoint_offset or 0 if tensor.is_meta else storage.data_ptr()


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Plain]]:
    try:
        if is_legacy(path):
            return _unfolded(read_legacy(path), path)
        archive = read_archive(path)
        inspect(archive.pickle, archive.sizes)
    except RefusedError as error:
        raise CheckpointError(led_by("{file} ", error.args[0], file=path)) from error
    try:
        content = _loaded(path)
    except Exception as error:  # damaged bytes can lead torch to any exception
        raise CheckpointError(led_by("{file} ", _refused(error), file=path)) from error
    return _unfolded(content, path)


def _loaded(path: Path) -> Any:
    """Content of a file mapped whole; where the system cannot map it, with tensors on the device "meta", whose values
    `materialize` maps one by one.
    """
    _let_numbers_through()
    try:
        return torch.load(require_file(path), map_location="cpu", weights_only=True, mmap=True)
    except MAPPING_ERRORS as error:
        if "unable to mmap" not in str(error):
            raise
        return torch.load(require_file(path), map_location="meta", weights_only=True)


@cache
def _let_numbers_through() -> None:
    """Have torch read what `inspect` has found to be a scalar of NumPy, a frozenset of plain values, or no bytes."""
    scalar: Any = np.float64(0).__reduce__()[0]
    let: list[Any] = [(scalar, f"numpy.{place}.multiarray.scalar") for place in ("core", "_core")]
    let += {type(np.dtype(code)) for code in (*"?bBhHiIqQlLefd", "U1")}
    torch.serialization.add_safe_globals([*let, np.dtype, frozenset, bytes])


def _refused(error: Exception) -> str:
    """Reason of an error of torch, whose own lines also tell how to load the file with the code in it."""
    text = str(error).rpartition("WeightsUnpickler error: ")[2].strip()
    if refused := re.search(r"GLOBAL (\S+) w", text):
        return str(refusal(refused[1]))
    detail = f"{type(error).__name__}: {text[:120]}".splitlines()[0].removesuffix(": ")
    return str(RefusedError("is damaged: torch cannot load it ({why})", why=detail))


def _unfolded(content: Any, path: Path) -> tuple[dict[str, Tensor], dict[str, Plain]]:
    """Tensors and plain values by name, found iteratively and with bounds: a dictionary that holds itself, or another
    one many times, has no end.
    """
    if not isinstance(content, dict):
        raise CheckpointError(
            "{file} holds {kind}, not tensors by name: save a model's state_dict", file=path, kind=kind(content)
        )
    tensors: dict[str, Tensor] = {}
    records: dict[str, Plain] = {}
    waiting: list[tuple[str, int, Any]] = [("", 0, content)]
    count = 0
    while waiting:
        name, depth, value = waiting.pop()
        if name in tensors or name in records:
            raise CheckpointError(
                "{file} holds two values called {name!r}: rename one of them", file=path, name=name[:60]
            )
        if isinstance(value, Tensor):
            if why := _unreadable(value):
                raise CheckpointError(
                    "{file} holds at {name!r} a tensor that cannot be read: {why}", file=path, name=name[:60], why=why
                )
            tensors[name] = value
        elif isinstance(value, dict | list | tuple):
            # Methods of the class: a dictionary of the file may have attributes of the same names.
            inner = list(dict.items(value)) if isinstance(value, dict) else list(enumerate(value))
            count += len(inner)
            if depth == DEEPEST or count > MOST_VALUES:
                why = "containers too deep" if depth == DEEPEST else f"more than {MOST_VALUES:,} values"
                raise CheckpointError(
                    "{file} holds too much at {name!r} ({why}): save only a model's state_dict",
                    file=path,
                    name=name[:60],
                    why=why,
                )
            waiting += [(_joined(name, key, path), depth + 1, item) for key, item in reversed(inner)]
        elif isinstance(value := value.item() if isinstance(value, np.generic) else value, Plain):
            records[name] = value
    return tensors, records


def _joined(name: str, key: str | int, path: Path) -> str:
    joined = f"{name}.{key}" if name else str(key)
    if len(joined) > LONGEST_NAME or not joined.isprintable():
        raise CheckpointError(
            "{file} holds the name {joined!r}, and a name has up to {longest_name} characters that can be printed",
            file=path,
            joined=joined[:60],
            longest_name=LONGEST_NAME,
        )
    return joined


def _unreadable(tensor: Tensor) -> str:
    """Reason why the values must not be read, or ""."""
    size, stored = tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()
    if size > stored:
        return Message(
            "it claims {tensor:,} elements, {size:,} bytes, where the file has {stored:,} for it",
            tensor=tensor.numel(),
            size=size,
            stored=stored,
        )
    return ""
