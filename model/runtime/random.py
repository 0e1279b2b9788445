"""Random numbers for a stretch of work, from a seed of its own."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

_ONE_AT_A_TIME = threading.RLock()  # torch's own generators belong to the whole process
_drawn_from: ContextVar[torch.Generator | None] = ContextVar("drawn_from", default=None)


def own_generator() -> torch.Generator | None:
    """What is drawn from here, in this thread alone; None: torch's own."""
    return _drawn_from.get()


@contextmanager
def fork_rng(seed: str, device: torch.device, compiled: bool = False) -> Iterator[None]:
    """Inside, what draws from `own_generator` draws from `seed`, whatever other threads do meanwhile.

    On other devices than the CPU, and where code is compiled, nothing can be told what to draw from: there it is as
    in `seeded`, and threads that come here wait for one another.
    """
    number = random.Random(seed).getrandbits(63)
    if device.type != "cpu" or compiled:
        with seeded(number, device):
            yield
        return
    before = _drawn_from.set(torch.Generator().manual_seed(number))
    try:
        yield
    finally:
        _drawn_from.reset(before)


@contextmanager
def seeded(number: int, device: torch.device) -> Iterator[None]:
    """Inside, torch's own generators begin at `number`; outside, they go on as if nothing had been drawn.

    Threads that come here wait for one another; one that draws elsewhere meanwhile changes what is drawn here.
    """
    with _ONE_AT_A_TIME:
        before = [(generator, generator.get_state()) for generator in _generators(device)]
        try:
            for generator, _ in before:
                generator.manual_seed(number)
            yield
        finally:
            for generator, state in before:
                generator.set_state(state)


def _generators(device: torch.device) -> list[torch.Generator]:
    """Those that work on `device` draws from without being told."""
    found = [torch.default_generator]
    if device.type == "mps":
        found.append(torch.mps._get_default_mps_generator())
    elif device.type != "cpu":
        module = torch.get_device_module(device)  # torch.cuda, torch.xpu …
        found.append(module.default_generators[module.current_device() if device.index is None else device.index])
    return found
