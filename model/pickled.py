"""Files of torch.save, read without running anything that they hold."""

from __future__ import annotations

import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

DEEPEST = 32  # dictionaries within dictionaries


def read_pickled(path: Path) -> dict[str, Tensor]:
    """The tensors in a .pt or .pth file, by name; those of dictionaries within dictionaries as "outer.inner".

    Values stay in the file until they are used.

    Raises:
        ValueError: the file is damaged, of another kind, holds code or something else than tensors.
    """
    _require_plain_archive(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an archive of TorchScript is an error all the same
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # damaged bytes can lead torch to any exception
        raise ValueError(f"{path} {_reason(error)}") from error
    size = path.stat().st_size
    tensors = _flattened(content, path)
    for name, tensor in tensors.items():
        if why := _unreadable(tensor, size):
            raise ValueError(f"{path} holds at {name[:60]!r} {why}")
    return tensors


def _require_plain_archive(path: Path) -> None:
    """torch.save writes a zip whose files lie in it as they are; whatever is packed could unpack to any size."""
    try:
        with zipfile.ZipFile(path) as archive:
            files = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise ValueError(
            f"{path} cannot be read as a file of torch.save, which is a zip archive since torch 1.6: {error}"
        ) from error
    if not any(file.filename.endswith("/data.pkl") for file in files):
        raise ValueError(f"{path} is a zip archive of something else: no data.pkl of torch.save in it")
    if any(file.compress_type != zipfile.ZIP_STORED for file in files):
        raise ValueError(
            f"{path} is a packed zip archive, which torch.save does not write: unpack it, then zip with -0"
        )


def _reason(error: Exception) -> str:
    """What torch says in many lines, some of them how to load the file with the code in it, as part of a sentence."""
    text = str(error).rpartition("WeightsUnpickler error: ")[2].strip()
    if refused := re.search(
        r"GLOBAL (\S+) w|(Can only create new object|Can only build)|unrecognized function (.+)", text
    ):
        what = refused[1] or refused[3] or "objects of Python"
        return f"holds more than tensors ({what[:60]}), which could run code: save only a model's state_dict"
    detail = f"{type(error).__name__}: {text[:120]}".splitlines()[0].removesuffix(": ")
    return f"is damaged: torch cannot load it ({detail})"


def _flattened(content: Any, path: Path) -> dict[str, Tensor]:
    """Iteratively, and each dictionary once: one that holds itself, or another one many times, has no end."""
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds {_kind(content)}, not tensors by name: save a model's state_dict")
    tensors: dict[str, Tensor] = {}
    seen: set[int] = set()
    waiting: list[tuple[str, int, Any]] = [("", 0, content)]
    while waiting:
        name, depth, value = waiting.pop()
        if isinstance(value, Tensor):
            if name in tensors:
                raise ValueError(f"{path} holds two tensors called {name[:60]!r}")
            tensors[name] = value
        elif isinstance(value, dict):
            if id(value) in seen or depth == DEEPEST:
                why = "once more a dictionary that it holds elsewhere" if id(value) in seen else "dictionaries too deep"
                raise ValueError(f"{path} holds at {name[:60]!r} {why}: save a model's state_dict")
            seen.add(id(value))
            inner = [(_joined(name, key, path), depth + 1, each) for key, each in value.items()]
            waiting += reversed(inner)
        else:
            raise ValueError(
                f"{path} holds at {name[:60]!r} {_kind(value)}, not a tensor: save only a model's state_dict"
            )
    return tensors


def _joined(name: str, key: object, path: Path) -> str:
    if not isinstance(key, str | int):
        raise ValueError(f"{path} holds at {name[:60]!r} a name that is {_kind(key)}, not a text")
    return f"{name}.{key}" if name else str(key)


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"


def _unreadable(tensor: Tensor, file_bytes: int) -> str:
    """Why the values must not be touched, or ""."""
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized or tensor.device.type != "cpu":
        kind = "quantized" if tensor.is_quantized else "nested" if tensor.is_nested else str(tensor.layout)
        kind = f"on the device {tensor.device}" if tensor.device.type != "cpu" else kind
        return f"a tensor that is {kind}: only plain ones can be shown"
    size = tensor.numel() * tensor.element_size()
    if size > file_bytes:
        return f"a tensor that claims {tensor.numel():,} elements, {size:,} bytes, where the file has {file_bytes:,}"
    return ""
