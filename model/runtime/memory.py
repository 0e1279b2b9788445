"""Free memory, and the check that a model fits into it before it is loaded."""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import torch

from model.message import Message
from model.runtime.device import DTYPES, give_back_memory
from model.runtime.errors import CheckpointError
from model.runtime.file_pages import let_go_of_files
from model.runtime.ledger import Ledger, NoRoomError, Reservation, memory_limit, resident_memory
from model.runtime.once import once

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


def machine_memory(cgroup: Path = CGROUP) -> int:
    """Bytes of main memory of the machine, or of this process's control group, if that has fewer."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(machine, int(_lines(cgroup / "memory.max")[0]))
    except (OSError, ValueError, IndexError):
        return machine


@once
def ledger() -> Ledger:
    """Ledger of this process. Where VITRINE_MEMORY is no size, which the page says, the usual limit counts."""
    machine = machine_memory()
    try:
        limit = memory_limit(machine)
    except ValueError:
        limit = memory_limit(machine, "")
    return Ledger(limit, resident_memory, free_memory, (give_back_memory, let_go_of_files, collect))


class Collector:
    """Collections of objects that only point at one another, whose memory goes back to the system: seldom, so that who
    types on in a text without room has no collection at each key.

    clock: seconds.
    """

    SELDOM = 1.0  # seconds between two, or so many times what the last one took
    SHARE = 0.05  # of the time that collections may take

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._next = clock, -math.inf
        self._expectation = object()  # another one after each `expect`

    def __call__(self) -> None:
        """Collect, unless that was done of late and nothing large was let go since."""
        began, expectation = self._clock(), self._expectation
        if began < self._next:
            return
        gc.collect()
        give_back_memory()
        ended = self._clock()
        self._next = ended + max(self.SELDOM, (ended - began) / self.SHARE)
        if self._expectation is not expectation:  # since it began: not all of that was there to be collected
            self._next = -math.inf

    def expect(self) -> None:
        """Something large was let go, in whatever thread: the next one is worth its time."""
        self._expectation = object()
        self._next = -math.inf


collect = Collector()


_loading: ContextVar[list[Reservation] | None] = ContextVar("loading", default=None)


def left_memory() -> int | None:
    """Bytes of main memory that can still be promised, with those of the model that is being loaded here; None where
    the system does not say what is free.
    """
    reservations = _loading.get()
    return None if free_memory() is None else ledger().left(reservations[0] if reservations else None)


@contextmanager
def loading() -> Iterator[None]:
    """Block in which models that `require_room` lets in are promised their memory; after it they have it."""
    reservations: list[Reservation] = []
    token = _loading.set(reservations)
    try:
        yield
    except BaseException:  # given up, too
        if reservations:
            collect.expect()
        raise
    finally:
        _loading.reset(token)
        for reservation in reservations:
            reservation.release()


def available(device: torch.device | None = None) -> int:
    """Free bytes on a device; None: on all GPUs and in main memory together, over which accelerate spreads a model.

    Where the system does not say how much main memory is free, all that the machine has.
    """
    if device is None:
        gpus = sum(_free_on_gpu(torch.device("cuda", number)) for number in range(torch.cuda.device_count()))
        return gpus + available(torch.device("cpu"))
    if device.type == "cuda":
        return _free_on_gpu(device)
    free = left_memory()
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if free is None else free


def _free_on_gpu(device: torch.device) -> int:
    """Free bytes of the driver, and those that torch keeps of freed tensors."""
    allocator_cache = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    left: int = torch.cuda.mem_get_info(device)[0]
    return left + allocator_cache


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
    if SPARE * size <= room and _try_reserve(int(SPARE * size), device):
        return
    name = next(key for key, value in DTYPES.items() if value == dtype)
    fits = [key for key, value in DTYPES.items() if SPARE * needed(parameters, value) <= room]
    gigabytes, left = size / 1e9, room / 1e9
    raise CheckpointError(
        Message(
            "this model needs {gigabytes:.1f} GB in {name} and {left:.1f} GB are free: choose {fits}",
            gigabytes=gigabytes,
            name=name,
            left=left,
            fits=fits[0],
        )
        if fits
        else Message(
            "this model needs {gigabytes:.1f} GB in {name} and {left:.1f} GB are free: choose a smaller model, "
            "or a machine with more memory",
            gigabytes=gigabytes,
            name=name,
            left=left,
        )
    )


def require_room_for_map(queries: int, keys: int, size: int, device: torch.device) -> None:
    """Refuse a text of which one head's map, with what it is computed from, does not fit into memory. size: its bytes.

    Raises:
        NoRoomError: it does not fit.
    """
    if size > (free := available(device)):
        raise NoRoomError(
            Message(
                "one head's map of {queries:,} × {keys:,} tokens takes {size:.1f} GB while it is computed and "
                "{free:.1f} GB are free: choose a shorter text",
                queries=queries,
                keys=keys,
                size=size / 1000000000.0,
                free=free / 1000000000.0,
            )
        )


def _try_reserve(size: int, device: torch.device | None) -> bool:
    """Reserve main memory for the model that is being loaded, or enlarge what is; False if it does not fit.

    Off the CPU and outside of `loading`: True, and nothing is reserved.
    """
    reservations = _loading.get()
    if reservations is None or (device is not None and device.type != "cpu") or free_memory() is None:
        return True
    try:
        if reservations:  # a file is asked for twice: as it is stored, and as it is computed with
            reservations[0].resize(max(size, reservations[0].size))
        else:
            reservations.append(ledger().reserve("a model", size))
    except NoRoomError:  # somebody else was quicker
        return False
    return True


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="ascii").splitlines()
