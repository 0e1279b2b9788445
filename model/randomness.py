"""torch's random numbers for a stretch of work, from a seed of its own."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_ONE_AT_A_TIME = threading.RLock()  # torch's generators belong to the whole process


@contextmanager
def drawing_from(seed: str, device: torch.device) -> Iterator[None]:
    """Inside, torch draws what follows from `seed`; outside, it goes on as if nothing had been drawn.

    Threads that come here wait for one another; one that draws elsewhere meanwhile changes what is drawn here.
    """
    number = random.Random(seed).getrandbits(63)
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
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        found.append(torch.cuda.default_generators[index])
    elif device.type == "mps":
        found.append(torch.mps._get_default_mps_generator())
    return found
