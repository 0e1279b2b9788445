"""Ledger of main memory: what is promised to models and trainings of this process, so that none is promised twice."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from model.message import InputError, Message
from model.runtime.locks import Lock

MEMORY = "VITRINE_MEMORY"  # in the environment: the most that the process may take, as 12GB, 800MB or 80%
SHARE = 0.8  # of the machine or its control group, unless that says otherwise
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class NoRoomError(ValueError):
    """More memory than fits beside the promises already given."""


class Reservation:
    """Bytes that are promised. realised: how many of them the process has taken by now."""

    def __init__(self, ledger: Ledger, name: str, size: int) -> None:
        self.name, self.size = name, size
        self.realised: Callable[[], int] = lambda: 0
        self._ledger = ledger

    @property
    def open(self) -> int:
        """Bytes that are promised and not taken yet."""
        return max(0, self.size - self.realised())

    def resize(self, size: int) -> None:
        """Promise another number of bytes.

        Raises:
            NoRoomError: they do not fit; the promise stays as it was.
        """
        self._ledger.resize(self, size)

    def grow(self, more: int) -> None:
        """Promise so many bytes more; errors as of `resize`."""
        self._ledger.grow(self, more)

    def release(self) -> None:
        """Take the promise back; a second time it does nothing."""
        self._ledger.release(self)


class Ledger:
    """Promises of main memory, from any thread.

    limit: bytes that the process may take. resident: bytes that it has. free: bytes that the machine can still give;
    None: unknown. reclaims: ways to give what the process has freed back to the system, the quicker ones first, which
    are tried before anybody is refused.
    """

    def __init__(
        self,
        limit: int,
        resident: Callable[[], int],
        free: Callable[[], int | None],
        reclaims: Sequence[Callable[[], None]] = (),
    ) -> None:
        self.limit, self._resident, self._free, self._reclaims = limit, resident, free, reclaims
        self._base = resident()  # of the program itself, before anything was promised
        self._promises: dict[Reservation, None] = {}  # in their order; one goes in one step, by a finalizer too
        self._lock = Lock("ledger")  # while it is counted whether one more fits

    @property
    def promises(self) -> tuple[Reservation, ...]:
        """Promises now in force."""
        promises = list(self._promises)  # in one step; tuple() may collect garbage, whose finalizers take one out
        return tuple(promises)

    def left(self, without: Reservation | None = None) -> int:
        """Bytes that can be promised. without: a promise that would be taken back first.

        The limit minus the larger of two sums: resident memory and what is promised but not yet used; memory at the
        start and all that is promised. No more than the machine has free.
        """
        others = [each for each in self.promises if each is not without]
        back = 0 if without is None else without.realised()
        still = sum(each.open for each in others)
        taken = max(self._resident() - back + still, self._base + sum(each.size for each in others))
        room, free = self.limit - taken, self._free()
        return max(0, room if free is None else min(room, free + back - still))

    def reserve(self, name: str, size: int, instead_of: Reservation | None = None) -> Reservation:
        """Promise `size` bytes. instead_of: a promise that is taken back for it.

        Raises:
            NoRoomError: they do not fit; `instead_of` then stays.
        """
        reservation = Reservation(self, name, size)

        def promise(_size: int) -> None:
            if instead_of is not None:
                self.release(instead_of)
            self._promises[reservation] = None

        self._promise(name, lambda: size, lambda: self.left(instead_of), promise)
        return reservation

    def resize(self, reservation: Reservation, size: int) -> None:
        if size > reservation.size:
            self._enlarge(reservation, lambda: size)
        else:
            reservation.size = size

    def grow(self, reservation: Reservation, more: int) -> None:
        self._enlarge(reservation, lambda: reservation.size + more)

    def release(self, reservation: Reservation) -> None:
        """Without the lock: a finalizer calls it, in whatever thread, whatever that holds."""
        self._promises.pop(reservation, None)

    @contextmanager
    def taking(self, name: str, size: int, within: Reservation | None = None) -> Iterator[None]:
        """Block in which `size` bytes are taken. within: a promise that they may be part of.

        Raises:
            NoRoomError: the process would then have more than it may, with what is still to be taken of other promises.
        """
        taken = Reservation(self, name, size)
        self._promise(name, lambda: size, lambda: self._untaken(within), lambda _size: self._promises.setdefault(taken))
        try:
            yield
        finally:
            self.release(taken)

    def _untaken(self, within: Reservation | None) -> int:
        still = sum(each.open for each in self.promises if each is not within)
        room, free = self.limit - self._resident(), self._free()
        return max(0, (room if free is None else min(room, free)) - still)

    def _enlarge(self, reservation: Reservation, size: Callable[[], int]) -> None:
        self._promise(reservation.name, size, lambda: self.left(reservation), partial(setattr, reservation, "size"))

    def _promise(
        self, name: str, size: Callable[[], int], left: Callable[[], int], promise: Callable[[int], None]
    ) -> None:
        """Call `promise` where `size` bytes are left, in one step with counting them. Nobody waits for the lock while
        freed memory is given back, which takes long and runs finalizers.
        """
        for reclaim in (None, *self._reclaims):
            if reclaim is not None:
                reclaim()
            with self._lock:
                amount, room = size(), left()
                if amount <= room:
                    promise(amount)
                    return
        raise NoRoomError(
            Message(
                "{name} needs about {amount} GB, and {room} GB are free of the {limit} GB that this server may take: "
                "choose something smaller, or wait until others have ended",
                name=name,
                amount=gigabytes(amount),
                room=gigabytes(room),
                limit=gigabytes(self.limit),
            )
        )


def gigabytes(size: int) -> str:
    """Bytes in GB: tenths, of little thousandths."""
    return f"{size / 1e9:.1f}" if size >= 1e8 else f"{size / 1e9:.3f}"


def memory_limit(machine: int, text: str | None = None) -> int:
    """Bytes that the process may take of a machine with so many. text: as in the environment; None: from there.

    Raises:
        ValueError: it is no size.
    """
    text = os.environ.get(MEMORY, "") if text is None else text
    if not text.strip():
        return int(SHARE * machine)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%|[KMGT]?)(?:i?B)?\s*", text, re.ASCII | re.IGNORECASE)
    number = float(match[1]) if match else 0.0
    if match is None or number <= 0 or (match[2] == "%" and number > 100):
        raise InputError("VITRINE_MEMORY ({text!r}) must be a size such as 12GB, 800MB or 80%", text=text.strip())
    return int(number / 100 * machine) if match[2] == "%" else int(number * UNITS[match[2].upper()])


def resident_memory(statm: Path = Path("/proc/self/statm")) -> int:
    """Bytes of main memory that this process has; 0 where the system does not say."""
    try:
        return int(statm.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
