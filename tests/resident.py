"""How much memory the process has held at most, as the system counts it."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path


def forget_peak() -> None:
    """Give freed memory back and let the high-water mark start from what is in use, where the system can."""
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        ctypes.CDLL(None).malloc_trim(0)
        clear.write_text("5", encoding="ascii")


def highest_resident() -> int:
    """Bytes: the high-water mark of the resident set."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
