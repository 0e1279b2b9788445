"""How much memory is free, and whether a model fits into it before it is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch

from model.runtime.device import DTYPES
from model.runtime.errors import CheckpointError

CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")
SPARE = 1.1  # what a short text, and the way from the file into memory, need beside the weights


def free_memory(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """Bytes that this process can still get on the CPU; None where the system does not say."""
    limits: list[Callable[[], int]] = [
        lambda: next(1024 * int(line.split()[1]) for line in _lines(meminfo) if line.startswith("MemAvailable")),
        lambda: int(_lines(cgroup / "memory.max")[0]) - int(_lines(cgroup / "memory.current")[0]),
    ]
    known = []
    for limit in limits:
        try:
            known.append(max(0, limit()))
        except (OSError, ValueError, IndexError, StopIteration):  # not Linux, or "max": no limit
            continue
    return min(known, default=None)


def available(device: torch.device | None = None) -> int:
    """Bytes that are free on a device; None: on all GPUs and in main memory together, for accelerate to spread over.

    Where the system does not say what is free, all that the machine has.
    """
    if device is None:
        gpus = sum(_free_on_gpu(torch.device("cuda", number)) for number in range(torch.cuda.device_count()))
        return gpus + available(torch.device("cpu"))
    if device.type == "cuda":
        return _free_on_gpu(device)
    known = free_memory()
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if known is None else known


def _free_on_gpu(device: torch.device) -> int:
    """What the driver has left, and what torch keeps of what was freed."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    left: int = torch.cuda.mem_get_info(device)[0]
    return left + kept


def needed(parameters: int, dtype: torch.dtype) -> int:
    """Bytes of so many weights in `dtype`."""
    return parameters * dtype.itemsize


def require_room(parameters: int, dtype: torch.dtype, device: torch.device | None) -> None:
    """The weights fit, with a little to spare. device: as of `available`.

    Raises:
        CheckpointError: they do not; the message says in which precision they would.
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
