"""Memory of a recorded pass: promised before it runs, and for as long as its trace is there."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from model.capture.trace import Trace, record
from model.network.costs import recorded
from model.network.transformer import Network
from model.runtime.memory import ledger
from model.runtime.room import asking

SMALL = 1 << 23  # bytes of a trace that is not asked for: what a short text leaves
LARGE = 1 << 26  # bytes from which on each operation asks, too
THE_TEXT = "the text"


def pass_bytes(network: Network, source: int, target: int = 0) -> int:
    """Bytes of the trace of a pass over so many tokens, about. target: 0 where the network has one stack."""
    sides = (source, target) if network.config.n_encoder_layers else (0, source)
    return recorded(network.config, *sides) * next(network.parameters()).dtype.itemsize


class Room:
    """Main memory that is promised to one trace and its copies, until the last of them is gone.

    Raises:
        NoRoomError: it does not fit beside what is promised already.
    """

    def __init__(self, size: int) -> None:
        self.reservation = ledger().reserve(THE_TEXT, size)
        weakref.finalize(self, self.reservation.release)


@contextmanager
def recorded_pass(network: Network, source: int, target: int = 0, times: int = 1) -> Iterator[Trace]:
    """Block whose forward pass is recorded, over so many tokens at most; its trace, for which memory is promised.

    times: size of the batch. Nothing is promised where the trace is small or not in main memory.

    Raises:
        NoRoomError: the trace does not fit beside what is promised already; or, while it runs, the next operation.
    """
    size = times * pass_bytes(network, source, target)
    room = Room(size) if size >= SMALL and network.device.type == "cpu" else None
    promise = room.reservation if room else None
    with asking(room is not None and size >= LARGE, promise), record(network) as trace:
        trace.room = room  # which lives as long as its traces
        if promise is not None:
            running = weakref.ref(trace)
            promise.realised = lambda: now.size if (now := running()) else 0
        yield trace
    if promise is not None:
        size = promise.size = min(promise.size, trace.size)
        promise.realised = lambda: size
