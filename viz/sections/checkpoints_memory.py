"""What a model will take, before it is loaded."""

from __future__ import annotations

from dataclasses import dataclass, replace

from model.checkpoints.catalog import Listed
from viz.i18n.catalogue import _


@dataclass(frozen=True)
class Room:
    """The device that computes, the precision, and how many bytes are free."""

    device: str
    precision: str
    free: int

    def needed(self, found: Listed) -> int:
        """Bytes of the weights in this precision."""
        from model.runtime.device import DTYPES
        from model.runtime.memory import needed

        return needed(found.parameters, DTYPES[self.precision])

    def fits(self, needed: int) -> bool:
        from model.runtime.memory import SPARE

        return needed * SPARE <= self.free

    def refusal(self, name: str, found: Listed) -> str:
        """Why it cannot be opened, and what would help."""
        from model.runtime.device import DTYPES

        sentence = _("{name} needs {needed} in {precision} and {free} are free: choose {what}")
        fitting = [each for each in DTYPES if (room := replace(self, precision=each)).fits(room.needed(found))]
        return sentence.format(
            name=name,
            needed=gigabytes(self.needed(found)),
            precision=self.precision,
            free=gigabytes(self.free),
            what=fitting[0] if fitting else _("a smaller model, or a machine with more memory"),
        )


def room(precision: str) -> Room:
    """As it is now."""
    from model.runtime.device import choose_device, choose_device_map
    from model.runtime.memory import available

    device = choose_device()
    return Room(str(device), precision, available(None if choose_device_map() else device))


def gigabytes(count: int) -> str:
    return f"{count / 1e9:.3g} GB"
