"""Pages of mapped files: those that were copied are let go, or memory would hold a model twice while it is opened."""

from __future__ import annotations

import ctypes
import mmap
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path

from torch import Tensor

MAPS = Path("/proc/self/maps")
PIECE = 1 << 25  # bytes that are copied between two times
PAGE = mmap.PAGESIZE
DONT_NEED = 4  # MADV_DONTNEED of mman.h: pages are read from the file again where they are used again


class FilePages:
    """Pages of the files, mapped for this process alone, in which tensors lie.

    written: whether something may have been written over what a file has, which is lost with its page: then only pages
    of the copied tensors are let go, else all of their files that were read.
    """

    def __init__(self, written: bool = False) -> None:
        self._written = written
        self._tensors: dict[int, int] = {}  # bytes by the address
        self._copied = 0

    def copied(self, tensor: Tensor) -> None:
        """A tensor of any shape, which lies in a file or does not, was copied: its pages are not needed any more."""
        if tensor.device.type == "cpu":
            self._tensors[tensor.data_ptr()] = tensor.nbytes
            self._copied += tensor.nbytes
        if self._copied >= PIECE:
            self.let_go()

    def let_go(self) -> None:
        """Take the pages out of memory."""
        self._copied = 0
        if not sys.platform.startswith("linux"):
            return
        places = places_of_files(self._tensors)
        if self._written:
            inside = [(at, at + size) for at, size in self._tensors.items() if within(at, places)]
            places = [(-(-begin // PAGE) * PAGE, end // PAGE * PAGE) for begin, end in inside]
            self._tensors.clear()
        libc = ctypes.CDLL(None)
        for begin, end in places:
            if begin < end:
                libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), DONT_NEED)


def within(address: int, places: Sequence[tuple[int, int]]) -> bool:
    """Whether an address is in one of these places, which are in order."""
    at = bisect_right(places, (address, sys.maxsize)) - 1
    return at >= 0 and address < places[at][1]


def places_of_files(addresses: Iterable[int], maps: Path = MAPS) -> list[tuple[int, int]]:
    """Beginning and end in memory of each file that is mapped for this process alone around one of these addresses; in
    order.
    """
    found, sorted_addresses = [], sorted(addresses)
    try:
        lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    for line in lines:
        place, kind, _offset, _device, inode, *_name = line.split(maxsplit=5)
        if inode != "0" and kind.endswith("p"):
            begin, end = (int(number, 16) for number in place.split("-"))
            at = bisect_left(sorted_addresses, begin)
            if at < len(sorted_addresses) and sorted_addresses[at] < end:
                found.append((begin, end))
    return found
