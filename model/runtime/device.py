"""Where and in which precision to compute."""

from __future__ import annotations

import ctypes
import os
import statistics
import sys
import threading
import time
from functools import cache

import torch
from torch import Tensor

from model.runtime.errors import first_line

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device() -> torch.device:
    """CUDA, else MPS, else the CPU; the environment variable VITRINE_DEVICE overrides.

    Raises:
        ValueError: VITRINE_DEVICE names no device, or one this machine does not have.
    """
    wanted = os.environ.get("VITRINE_DEVICE", "").strip()
    if not wanted:
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(wanted)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"VITRINE_DEVICE ({wanted!r}) cannot be used here: {first_line(error)}") from error
    return device


def choose_dtype() -> torch.dtype:
    """float32, or what the environment variable VITRINE_DTYPE says.

    Raises:
        ValueError: VITRINE_DTYPE names no supported precision.
    """
    wanted = os.environ.get("VITRINE_DTYPE", "float32").strip()
    if wanted not in DTYPES:
        raise ValueError(f"VITRINE_DTYPE ({wanted!r}) must be one of {', '.join(DTYPES)}")
    return DTYPES[wanted]


def choose_device_map() -> str | None:
    """How to spread a bridged model over devices: "auto" where the environment variable VITRINE_DEVICE_MAP says so.

    Raises:
        ValueError: it says something else.
    """
    wanted = os.environ.get("VITRINE_DEVICE_MAP", "").strip()
    if wanted not in ("", "auto"):
        raise ValueError(f"VITRINE_DEVICE_MAP ({wanted!r}) must be auto, or left out")
    return wanted or None


def with_float64(x: Tensor) -> Tensor:
    """x itself where its device computes in float64, else (MPS, some XPUs) a copy on the CPU."""
    return x.to(float64_place(x.device))


def exact(x: Tensor) -> Tensor:
    """x in float64: on its device, or on the CPU where its device has none."""
    return with_float64(x).double()


def float64_place(device: torch.device) -> torch.device:
    """Where to compute in float64 what lies on `device`: there, or on the CPU."""
    if device.type in ("cpu", "cuda"):
        return device
    try:
        torch.empty(0, dtype=torch.float64, device=device)
    except (TypeError, RuntimeError):
        return torch.device("cpu")
    return device


def compute_alone() -> None:
    """From now on, let this thread compute on one core; threads that come later are as they were."""
    before = torch.get_num_threads()
    if before == 1:
        return
    torch.set_num_threads(1)
    # torch also keeps the number for threads to come: another thread sets that back, and this one stays as it is.
    other = threading.Thread(target=torch.set_num_threads, args=(before,))
    other.start()
    other.join()


def keep_freed_memory() -> None:
    """Ask glibc to keep freed memory: each step or trace takes the sizes the last one freed, and new pages cost.

    The process keeps its peak.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        trim_threshold, mmap_threshold, arena_max = -1, -3, -8  # malloc.h
        libc.mallopt(arena_max, 1)  # one pool, whichever thread computes
        libc.mallopt(mmap_threshold, 1 << 30)
        libc.mallopt(trim_threshold, (1 << 31) - 1)


def give_back_memory() -> None:
    """Give the system what lies free between pieces in use: batches of many sizes leave ever more of it."""
    if sys.platform.startswith("linux"):
        libc = ctypes.CDLL(None)
        if hasattr(libc, "malloc_trim"):
            libc.malloc_trim(0)


# What a narrower precision costs here: a processor without instructions for it is many times slower with it.

ROUNDS = 3
ROWS, FEATURES, MADE = 256, 128, 256
SLOWER = 1.2  # times float32's time: less is noise


@cache
def slowdown(precision: str, device: torch.device) -> float:
    """How many times as long a linear layer's products take in this precision as in float32, on a CPU; 1 elsewhere.

    Measured forwards and backwards, in turn, once in a process; some tenths of a second where it is slow.
    """
    if device.type != "cpu" or precision == "float32":
        return 1.0
    draw = torch.Generator().manual_seed(0)
    x, weight = torch.randn(ROWS, FEATURES, generator=draw), torch.randn(MADE, FEATURES, generator=draw)
    narrow = x.to(DTYPES[precision]), weight.to(DTYPES[precision])
    with torch.inference_mode():
        _seconds(x, weight)  # threads and kernels are made once
        return statistics.median(_seconds(*narrow) / _seconds(x, weight) for _ in range(ROUNDS))


def slower(precision: str, device: torch.device) -> str:
    """What to say of a precision that is slow here; nothing, if it is not."""
    times = slowdown(precision, device)
    if times < SLOWER:
        return ""
    return f"{precision} takes {times:.2g} times as long as float32 on this processor: float32 is faster here"


def _seconds(x: Tensor, weight: Tensor) -> float:
    began = time.perf_counter()
    output = x @ weight.T
    output @ weight  # the gradient of x
    output.T @ x  # the gradient of the weight
    return time.perf_counter() - began
