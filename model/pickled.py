"""Files of torch.save, read without running anything that they hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.mapped import Refused, mapped
from model.runtime.errors import CheckpointError
from model.safe_archive import read_archive
from model.safe_calls import kind
from model.safe_header import LONGEST_NAME
from model.safe_pickle import RefusedError, inspect

Plain = int | float | str | bool
DEEPEST = 32  # containers within containers
MOST_VALUES = 200_000  # a container that others hold many times is unfolded as often


def read_pickled(path: Path) -> dict[str, Tensor]:
    """The tensors in a .pt, .pth or .bin file, by name; those within dictionaries and lists as "outer.inner".

    Values stay in the file until they are used; `brought` has them, of a file that the system does not map whole too.
    Plain values beside the tensors are left out.

    Raises:
        CheckpointError: the file is damaged, of another kind, holds code or no tensors.
    """
    tensors, _ = _read(path)
    if not tensors:
        raise CheckpointError(f"{path} holds no tensors: save a model's state_dict")
    return tensors


def read_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Plain]]:
    """The tensors and the plain values in a .pt, .pth or .bin file, by name: "model.wte.weight", "model_args.n_layer".

    Values of tensors stay in the file until they are used.

    Raises:
        CheckpointError: the file is damaged, of another kind, or holds code.
    """
    tensors, records = _read(path)
    return {name: brought(path, tensor) for name, tensor in tensors.items()}, records


def brought(path: Path, tensor: Tensor) -> Tensor:
    """The values of a tensor that `read_pickled` gave.

    Raises:
        CheckpointError: the memory does not hold it.
    """
    if not tensor.is_meta:
        return tensor
    storage = tensor.untyped_storage()
    held = mapped(path, storage_place(tensor), storage.nbytes())
    return torch.empty(0, dtype=tensor.dtype).set_(
        held.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride()
    )


def storage_place(tensor: Tensor) -> int:
    """Where its storage begins, in memory, or in a file that was not mapped: a number that tells storages apart."""
    storage = tensor.untyped_storage()
    return storage._checkpoint_offset or 0 if tensor.is_meta else storage.data_ptr()


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Plain]]:
    archive = read_archive(path)
    try:
        inspect(archive.pickle, archive.sizes)
    except RefusedError as error:
        raise CheckpointError(f"{path} {error}") from error
    try:
        content = _loaded(path)
    except Exception as error:  # damaged bytes can lead torch to any exception
        raise CheckpointError(f"{path} {_refused(error)}") from error
    return _unfolded(content, path)


def _loaded(path: Path) -> Any:
    """Mapped whole; where the system does not do that, without values, which `brought` maps one by one."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Refused as error:
        if "unable to mmap" not in str(error):
            raise
        return torch.load(path, map_location="meta", weights_only=True)


def _refused(error: Exception) -> RefusedError:
    """What torch says in many lines, some of them how to load the file with the code in it, as part of a sentence."""
    text = str(error).rpartition("WeightsUnpickler error: ")[2].strip()
    if refused := re.search(r"GLOBAL (\S+) w", text):
        return RefusedError(
            f"holds more than tensors ({refused[1][:60]}), which could run code: save only a model's state_dict"
        )
    detail = f"{type(error).__name__}: {text[:120]}".splitlines()[0].removesuffix(": ")
    return RefusedError(f"is damaged: torch cannot load it ({detail})")


def _unfolded(content: Any, path: Path) -> tuple[dict[str, Tensor], dict[str, Plain]]:
    """Iteratively, with bounds: a dictionary that holds itself, or another one many times, has no end."""
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds {kind(content)}, not tensors by name: save a model's state_dict")
    tensors: dict[str, Tensor] = {}
    records: dict[str, Plain] = {}
    waiting: list[tuple[str, int, Any]] = [("", 0, content)]
    met = 0
    while waiting:
        name, depth, value = waiting.pop()
        if name in tensors or name in records:
            raise CheckpointError(f"{path} holds two values called {name[:60]!r}: rename one of them")
        if isinstance(value, Tensor):
            if why := _unreadable(value):
                raise CheckpointError(f"{path} holds at {name[:60]!r} a tensor that cannot be read: {why}")
            tensors[name] = value
        elif isinstance(value, dict | list | tuple):
            # The class's own methods: a dictionary of the file may have attributes of the same names.
            inner = list(dict.items(value)) if isinstance(value, dict) else list(enumerate(value))
            met += len(inner)
            if depth == DEEPEST or met > MOST_VALUES:
                why = "containers too deep" if depth == DEEPEST else f"more than {MOST_VALUES:,} values"
                raise CheckpointError(f"{path} holds too much at {name[:60]!r} ({why}): save only a model's state_dict")
            waiting += [(_joined(name, key, path), depth + 1, each) for key, each in reversed(inner)]
        elif isinstance(value, Plain):
            records[name] = value
    return tensors, records


def _joined(name: str, key: str | int, path: Path) -> str:
    joined = f"{name}.{key}" if name else str(key)
    if len(joined) > LONGEST_NAME or not joined.isprintable():
        raise CheckpointError(
            f"{path} holds the name {joined[:60]!r}, and a name has up to {LONGEST_NAME} characters that can be printed"
        )
    return joined


def _unreadable(tensor: Tensor) -> str:
    """Why the values must not be touched, or ""."""
    size, held = tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()
    if size > held:
        return f"it claims {tensor.numel():,} elements, {size:,} bytes, where the file has {held:,} for it"
    return ""
