"""Free memory, and the check that a model fits into it before it is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch

from model.runtime.device import DTYPES
from model.runtime.errors import CheckpointError

CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")
SPARE = 1.1  # memory of a model in sizes of its weights, with a short text and the loading of the file


def free_memory(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """Bytes of main memory that this process can still get; None where the system does not say."""
    limits: list[Callable[[], int]] = [
        lambda: next(1024 * int(line.split()[1]) for line in _lines(meminfo) if line.startswith("MemAvailable")),
        lambda: int(_lines(cgroup / "memory.max")[0]) - int(_lines(cgroup / "memory.current")[0]),
    ]
    sizes = []
    for limit in limits:
        try:
            sizes.append(max(0, limit()))
        except (OSError, ValueError, IndexError, StopIteration):  # not Linux, or "max": no limit
            continue
    return min(sizes, default=None)


def available(device: torch.device | None = None) -> int:
    """Free bytes on a device; None: on all GPUs and in main memory together, over which accelerate spreads a model.

    Where the system does not say how much main memory is free, all that the machine has.
    """
    if device is None:
        gpus = sum(_free_on_gpu(torch.device("cuda", number)) for number in range(torch.cuda.device_count()))
        return gpus + available(torch.device("cpu"))
    if device.type == "cuda":
        return _free_on_gpu(device)
    free = free_memory()
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if free is None else free


def _free_on_gpu(device: torch.device) -> int:
    """Free bytes of the driver, and those that torch keeps of freed tensors."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    left: int = torch.cuda.mem_get_info(device)[0]
    return left + kept


def needed(parameters: int, dtype: torch.dtype) -> int:
    """Bytes of `parameters` weights in `dtype`."""
    return parameters * dtype.itemsize


def require_room(parameters: int, dtype: torch.dtype, device: torch.device | None) -> None:
    """Refuse a model whose weights do not fit into memory. device: as of `available`.

    Raises:
        CheckpointError: they do not fit; the sentence names a precision in which they would, if there is one.
    """
    room = available(device)
    size = needed(parameters, dtype)
    if SPARE * size <= room:
        return
    name = next(key for key, value in DTYPES.items() if value == dtype)
    fits = [key for key, value in DTYPES.items() if SPARE * needed(parameters, value) <= room]
    gigabytes, left = size / 1e9, room / 1e9
    raise CheckpointError(
        f"this model needs {gigabytes:.1f} GB in {name} and {left:.1f} GB are free: choose {fits[0]}"
        if fits
        else f"this model needs {gigabytes:.1f} GB in {name} and {left:.1f} GB are free: choose a smaller model, or a "
        "machine with more memory"
    )


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="ascii").splitlines()
