"""Device, precision, threads and memory of computations."""

from __future__ import annotations

import ctypes
import os
import statistics
import sys
import threading
import time
from functools import cache

import torch
from jaxtyping import Float, Float64, Shaped
from torch import Tensor

from model.message import Message
from model.runtime.errors import first_line

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device() -> torch.device:
    """Device to compute on: that of the environment variable VITRINE_DEVICE, else CUDA, else MPS, else the CPU.

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
    """Precision to compute in: that of the environment variable VITRINE_DTYPE, else float32.

    Raises:
        ValueError: VITRINE_DTYPE names no supported precision.
    """
    wanted = os.environ.get("VITRINE_DTYPE", "float32").strip()
    if wanted not in DTYPES:
        raise ValueError(f"VITRINE_DTYPE ({wanted!r}) must be one of {', '.join(DTYPES)}")
    return DTYPES[wanted]


def choose_device_map() -> str | None:
    """Way to spread a bridged model over devices: "auto", or None, as the environment variable VITRINE_DEVICE_MAP says.

    Raises:
        ValueError: VITRINE_DEVICE_MAP is neither "auto" nor empty.
    """
    wanted = os.environ.get("VITRINE_DEVICE_MAP", "").strip()
    if wanted not in ("", "auto"):
        raise ValueError(f"VITRINE_DEVICE_MAP ({wanted!r}) must be auto, or left out")
    return wanted or None


def with_float64(x: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """x itself where its device computes in float64, else (MPS, some XPUs) a copy on the CPU."""
    return x.to(float64_place(x.device))


def exact(x: Shaped[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """x in float64, on its device, or on the CPU where its device has no float64."""
    return with_float64(x).double()


def float64_place(device: torch.device) -> torch.device:
    """Device on which tensors of `device` are computed in float64: the same one, or the CPU."""
    if device.type in ("cpu", "cuda"):
        return device
    try:
        torch.empty(0, dtype=torch.float64, device=device)
    except (TypeError, RuntimeError):
        return torch.device("cpu")
    return device


def compute_alone() -> None:
    """Let this thread compute on one core from now on; other threads are not affected."""
    before = torch.get_num_threads()
    if before == 1:
        return
    torch.set_num_threads(1)
    # torch also keeps the number for later threads: another thread sets that back, which leaves this one as it is.
    other = threading.Thread(target=torch.set_num_threads, args=(before,))
    other.start()
    other.join()


def keep_freed_memory() -> None:
    """Let glibc keep freed memory, up to the peak of the process: steps and traces need the same sizes again, and new
    pages cost time.
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
    """Return freed memory to the system; batches of many sizes leave more and more of it between pieces in use."""
    if sys.platform.startswith("linux"):
        libc = ctypes.CDLL(None)
        if hasattr(libc, "malloc_trim"):
            libc.malloc_trim(0)


# Speed of narrower precisions: a processor without instructions for them is many times slower.

ROUNDS = 3
ROWS, FEATURES, OUTPUTS = 256, 128, 256
SLOWER = 1.2  # least slowdown that is reported: less is noise


@cache
def slowdown(precision: str, device: torch.device) -> float:
    """Time of a linear layer's products in `precision`, in times of float32; 1 on other devices than the CPU.

    Measured once in a process, forwards and backwards, in some tenths of a second where it is slow.
    """
    if device.type != "cpu" or precision == "float32":
        return 1.0
    draw = torch.Generator().manual_seed(0)
    x, weight = torch.randn(ROWS, FEATURES, generator=draw), torch.randn(OUTPUTS, FEATURES, generator=draw)
    narrow = x.to(DTYPES[precision]), weight.to(DTYPES[precision])
    with torch.inference_mode():
        linear_seconds(x, weight)  # threads and kernels are created in the first run
        return statistics.median(linear_seconds(*narrow) / linear_seconds(x, weight) for _ in range(ROUNDS))


def slower(precision: str, device: torch.device) -> Message | None:
    """Sentence about a precision that is slow on this device; None if it is not."""
    times = slowdown(precision, device)
    if times < SLOWER:
        return None
    return Message(
        "{precision} takes {times:.3g} times as long as float32 on this processor: float32 is faster here",
        precision=precision,
        times=times,
    )


def linear_seconds(x: Float[Tensor, "row feature"], weight: Float[Tensor, "output feature"]) -> float:
    """Seconds of the three products of a linear layer, forwards and backwards."""
    began = time.perf_counter()
    output = x @ weight.T
    output @ weight  # the gradient of x
    output.T @ x  # the gradient of the weight
    return time.perf_counter() - began
