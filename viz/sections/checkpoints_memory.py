"""What a model will take, before it is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from model.listing import Listed
from viz.i18n import _
from viz.opening import Place

WIDTH = {"float32": 4, "bfloat16": 2, "float16": 2}  # bytes of a number


@dataclass(frozen=True)
class Room:
    """The device that computes, the precision, and how many bytes are free, where that is known."""

    device: str
    precision: str
    free: int | None

    def needed(self, place: Place, found: Listed) -> int:
        """Bytes of the weights in this precision."""
        return found.parameters * WIDTH[self.precision]

    def fits(self, needed: int) -> bool:
        return self.free is None or needed <= self.free

    def refusal(self, name: str, needed: int) -> str:
        """Why it cannot be opened."""
        assert self.free is not None
        return _("{name} needs {needed} in {precision} and {free} are free: choose a narrower precision").format(
            name=name, needed=gigabytes(needed), precision=self.precision, free=gigabytes(self.free)
        )


def room(precision: str) -> Room:
    """As it is now."""
    from model.device import choose_device
    from model.forecast import free_memory

    device = choose_device()
    return Room(str(device), precision, free_memory() if device.type == "cpu" else None)


def gigabytes(count: int | None) -> str:
    return f"{(count or 0) / 1e9:.3g} GB"
