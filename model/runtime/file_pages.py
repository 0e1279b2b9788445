"""Pages of mapped files: those that were read are let go, or memory would hold a model twice while it is opened, and
whole files while their tensors are measured.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

MAPS, PAGEMAP = Path("/proc/self/maps"), Path("/proc/self/pagemap")
PIECE = 1 << 24  # bytes that are copied between two times, or a part of a large file: its pages are looked at each time
PARTS = 64
LAST = 4
PAGE = mmap.PAGESIZE
WEIGHTS = (b".safetensors", b".bin", b".pt", b".pth", b".ckpt", b".gguf")  # ends of names
DONT_NEED = 4  # MADV_DONTNEED of mman.h: pages are read from the file again where they are used again
STATE, CLEAN = np.uint64(61), 0b101  # of a page, in its three highest bits: in memory, not swapped, and of a file


class FilePages:
    """Pages of the files, mapped for this process alone, in which tensors lie. Only who calls this may write to them.

    A page that was written to is the process's own, and lost if it is let go: it stays.
    """

    def __init__(self) -> None:
        # Places in memory, and what keeps them: the system gives the addresses of what is gone to others.
        self._pieces: list[tuple[torch.UntypedStorage, int, int]] = []
        self._size = 0

    def copied(self, tensor: Tensor) -> None:
        """A tensor of any shape, which lies in a file or does not, was copied: its pages are not needed any more, and
        neither are others of its storage, of which it may have been computed.
        """
        if _is_in_memory(tensor):
            storage = tensor.untyped_storage()  # of a mapped file often all of it
            begin, size = storage.data_ptr(), storage.nbytes()
            self._add((storage, begin, begin + size), tensor.nbytes, max(PIECE, size // PARTS))

    def read(self, tensor: Tensor) -> None:
        """A tensor was read, and its own pages are not needed any more; where they are, they are read again."""
        if _is_in_memory(tensor) and tensor.numel():
            steps = zip(tensor.shape, tensor.stride(), strict=True)
            size = (1 + sum((count - 1) * stride for count, stride in steps)) * tensor.itemsize
            begin = tensor.data_ptr()
            self._add((tensor.untyped_storage(), begin, begin + size), size, PIECE)

    def loaded(self, tensor: Tensor) -> None:
        """A tensor of a file is about to be read: the pages of those before it are not needed any more, and of the last
        few again, for others may be reading them.
        """
        if self._size >= PIECE:
            last = self._pieces[-LAST:]
            self.let_go()
            self._pieces = last
        if _is_in_memory(tensor):
            begin, size = tensor.data_ptr(), tensor.nbytes
            self._pieces.append((tensor.untyped_storage(), begin, begin + size))
            self._size += size

    def _add(self, piece: tuple[torch.UntypedStorage, int, int], size: int, most: int) -> None:
        self._pieces.append(piece)
        self._size += size
        if self._size >= most:
            self.let_go()

    def add(self, other: FilePages) -> None:
        """The tensors of another one as well, if they lie in a file: others would be kept in memory here."""
        if not any(next(clean(begin, end), None) for _storage, begin, end in other._pieces):
            return
        self._pieces += other._pieces
        self._size += other._size
        if self._size >= PIECE:
            self.let_go()

    def forget(self) -> None:
        """Keep no tensor any longer, in one step; their pages leave memory with their files."""
        self._pieces, self._size = [], 0

    def let_go(self) -> None:
        """Take the pages out of memory, and forget the tensors."""
        pages, self._pieces, self._size = self._pieces, [], 0
        if not sys.platform.startswith("linux"):
            return
        pieces = {(begin, end) for _storage, begin, end in pages}
        for place in places_of_files([begin for begin, _end in pieces]):
            for begin, end in pieces:
                _let_go(max(begin, place[0]), min(end, place[1]))


LOADED, READ = FilePages(), FilePages()  # of files that are mapped whole, in any thread


def close_read_files() -> None:
    """Forget the tensors that were loaded and read, for they keep their files mapped."""
    for pages in (LOADED, READ):
        pages.forget()


def in_turn(pieces: Iterable[Tensor]) -> Iterator[Tensor]:
    """Pieces of a tensor one after another; the pages of a file are let go behind them, of small tensors with those of
    others, after each was read: several threads may read one file at a time.
    """
    pages = FilePages()
    try:
        for piece in pieces:
            yield piece
            pages.read(piece)
    finally:
        READ.add(pages)


def let_go_of_files() -> None:
    """Take all pages of files that are mapped for this process alone, as those of weights are, out of memory."""
    if sys.platform.startswith("linux"):
        for place in places_of_files():
            _let_go(*place)


def _let_go(begin: int, end: int) -> None:
    libc = ctypes.CDLL(None)
    for first, last in clean(begin, end):
        libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), DONT_NEED)


def _is_in_memory(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.layout == torch.strided


def clean(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Parts of a piece of memory, of whole pages, that are in memory as a file has them; none where Linux does not say.

    A page of a file that was written to counts as anonymous (Linux, Documentation/admin-guide/mm/pagemap.rst).
    """
    first, last = -(-begin // PAGE), end // PAGE
    try:
        with PAGEMAP.open("rb") as file:
            for start in range(first, last, PIECE // PAGE):
                file.seek(8 * start)
                pages = np.frombuffer(file.read(8 * min(PIECE // PAGE, last - start)), np.uint64)
                edges = np.flatnonzero(np.diff(pages >> STATE == CLEAN, prepend=False, append=False))
                for one, other in edges.reshape(-1, 2).tolist():
                    yield (start + one) * PAGE, (start + other) * PAGE
    except OSError:
        return


def within(address: int, places: Sequence[tuple[int, int]]) -> bool:
    """True if an address is in one of these places, which are in order."""
    at = bisect_right(places, (address, sys.maxsize)) - 1
    return at >= 0 and address < places[at][1]


def places_of_files(addresses: Iterable[int] | None = None, maps: Path = MAPS) -> list[tuple[int, int]]:
    """Beginning and end in memory of each file that is mapped for this process alone around one of these addresses; in
    order. addresses: None: of each file of weights that may be written to, as those of tensors are.
    """
    places, sorted_addresses = [], sorted(addresses or ())
    try:
        lines = maps.read_bytes().split(b"\n")  # a name may have other ends of lines
    except OSError:
        return []
    for line in lines:
        if len(words := line.split(maxsplit=5)) < 5:  # behind the last line
            continue
        place, kind, _offset, _device, inode = words[:5]
        if inode != b"0" and kind.endswith(b"p"):
            begin, end = (int(number, 16) for number in place.split(b"-"))
            at = bisect_left(sorted_addresses, begin)
            holds_address = at < len(sorted_addresses) and sorted_addresses[at] < end
            # Never a library's: others write to its pages between the look at them and their leaving.
            weights = addresses is None and kind.startswith(b"rw") and words[-1].endswith(WEIGHTS)
            if holds_address or weights:
                places.append((begin, end))
    return places
