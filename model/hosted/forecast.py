"""Whether a model fits into memory, from the headers of its files alone."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path

import torch

from model.device import DTYPES
from model.errors import CheckpointError

SPARE = 1.1  # what a short text, and the way from the file into memory, need beside the weights
HEADER = 100 << 20  # bytes; no true header is larger


def needed(weights: Path | Iterable[int], dtype: torch.dtype) -> int:
    """Bytes of a folder's weights in `dtype`, or of tensors with so many numbers each."""
    counts = numbers(weights) if isinstance(weights, Path) else sum(weights)
    return counts * torch.empty(0, dtype=dtype).element_size()


def numbers(folder: Path) -> int:
    """How many numbers the weights of a folder have; of files that are no .safetensors, from their size."""
    found = sorted(folder.glob("*.safetensors"))
    if found:
        return sum(_numbers(path) for path in found)
    return sum(_stored(path) for path in folder.glob("*.bin")) // 4


def _numbers(path: Path) -> int:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > HEADER:
            raise CheckpointError(f"{path.name} is no .safetensors: its header would have {size} bytes")
        try:
            header = json.loads(file.read(size))
        except ValueError as error:
            raise CheckpointError(f"{path.name} is no .safetensors: {error}") from error
    if not isinstance(header, Mapping):
        raise CheckpointError(f"{path.name} is no .safetensors: its header is no table of tensors")
    return sum(prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")


def _stored(path: Path) -> int:
    try:
        with zipfile.ZipFile(path) as archive:
            return sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile:
        return path.stat().st_size


def available(device: torch.device | None = None) -> int:
    """Bytes that are free on a device; None: on all GPUs and in main memory together, for accelerate to spread over."""
    if device is None:
        gpus = sum(torch.cuda.mem_get_info(number)[0] for number in range(torch.cuda.device_count()))
        return gpus + available(torch.device("cpu"))
    if device.type == "cuda":
        free: int = torch.cuda.mem_get_info(device)[0]
        return free
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    named = dict(line.split(":", 1) for line in lines)
    return min(int(named["MemAvailable"].split()[0]) << 10, _group_limit())


def _group_limit() -> int:
    """What a container leaves free."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        used = int((group / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 1 << 62
    return 1 << 62 if limit == "max" else max(0, int(limit) - used)


def require_room(
    weights: Path | Iterable[int], dtype: torch.dtype, device: torch.device | None, free: int | None = None
) -> None:
    """The weights fit, with a little to spare. free: bytes; None: see `available`.

    Raises:
        CheckpointError: they do not; the message says in which precision they would.
    """
    counts = numbers(weights) if isinstance(weights, Path) else sum(weights)
    room = available(device) if free is None else free
    if SPARE * needed([counts], dtype) <= room:
        return
    name = next(key for key, value in DTYPES.items() if value == dtype)
    fits = [key for key, value in DTYPES.items() if SPARE * needed([counts], value) <= room]
    size = needed([counts], dtype) / 1e9
    raise CheckpointError(
        f"this model needs {size:.1f} GB in {name} and {room / 1e9:.1f} GB are free: choose {fits[0]}"
        if fits
        else f"this model needs {size:.1f} GB in {name} and {room / 1e9:.1f} GB are free: choose a smaller model, or a "
        "machine with more memory"
    )
