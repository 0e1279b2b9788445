"""What is computed of the pin alone is computed once, and goes with it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from viz.workbench import Pin

Made = TypeVar("Made")


def of_pin(pin: Pin, key: Hashable, made_of: tuple[object, ...], make: Callable[[], Made]) -> Made:
    """What `make` gave for these on the pin, kept by the pin itself; only the last of a key."""
    known = pin.made.get(key)
    if known is None or known[0] != made_of:
        known = pin.made[key] = (made_of, make())
    made: Made = known[1]
    return made
