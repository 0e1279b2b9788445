"""Random numbers from a seed, for a block of code."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from model.runtime.locks import RLock

_ONE_AT_A_TIME = RLock("random numbers")  # torch's own generators belong to the whole process
_generator: ContextVar[torch.Generator | None] = ContextVar("generator", default=None)


def own_generator() -> torch.Generator | None:
    """Generator to draw from in this context; None: torch's own."""
    return _generator.get()


@contextmanager
def fork_rng(seed: str, device: torch.device, compiled: bool = False) -> Iterator[None]:
    """Block in which `own_generator` begins at `seed`, whatever other threads draw meanwhile.

    On other devices than the CPU, and in compiled code, no generator can be passed: there it is a block of `seeded`.
    """
    number = random.Random(seed).getrandbits(63)
    if device.type != "cpu" or compiled:
        with seeded(number, device):
            yield
        return
    before = _generator.set(torch.Generator().manual_seed(number))
    try:
        yield
    finally:
        _generator.reset(before)


@contextmanager
def seeded(number: int, device: torch.device) -> Iterator[None]:
    """Block in which torch's own generators begin at `number`; after it they go on as if nothing had been drawn.

    Such blocks of several threads wait for one another; draws of other threads meanwhile change the draws of the block.
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
    """Torch's own generators for work on `device`."""
    generators = [torch.default_generator]
    if device.type == "mps":
        generators.append(torch.mps._get_default_mps_generator())
    elif device.type != "cpu":
        module = torch.get_device_module(device)  # torch.cuda, torch.xpu …
        generators.append(module.default_generators[module.current_device() if device.index is None else device.index])
    return generators
