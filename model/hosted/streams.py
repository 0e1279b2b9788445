"""How the blocks of a hosted layer add to the stream, and where its norms stand: found by sums that are exact."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from model.hosted.passes import Side
from model.hosted.probe import Event, first, same


@dataclass
class Sublayer:
    """A block of a layer. adds: the calls that may have given what it writes to the stream, likeliest first.

    outside: of an attention whose W^O is known only by being among them.
    """

    name: str
    adds: list[Event]
    outside: bool = False


def parallel(layer: Event, sublayers: list[Sublayer]) -> tuple[Event, Event] | None:
    """The calls whose outputs are both added to what the layer read, and nothing else."""
    x = layer.x
    for attention in sublayers[0].adds:
        for network in sublayers[-1].adds:
            a, f = attention.y, network.y
            if any(same(total, layer.y) for total in (a + f + x, x + a + f, x + f + a)):
                return attention, network
    return None


class Trial:
    """One placement of the norms, followed through a layer.

    kept: sublayer, part, event, and which side of it. written: what gave each block's addend.
    """

    def __init__(self, layer: Event, inside: list[Event], norms: list[Event], placement: str) -> None:
        self.layer, self.inside, self.norms, self.placement = layer, inside, norms, placement
        self.kept: list[tuple[str, str, Event, Side]] = []
        self.written: list[Event] = []

    def follow(self, sublayers: list[Sublayer]) -> bool:
        state = self.layer.x
        for sublayer in sublayers:
            after = self._block(sublayer, state)
            if after is None:
                return False
            state = after
        return same(state, self.layer.y)

    def _block(self, sublayer: Sublayer, state: Tensor) -> Tensor | None:
        """The stream after a block, None where its sum is nowhere in the layer."""
        before = first(self.norms, lambda event: same(event.x, state)) if self.placement == "pre" else None
        for event in sublayer.adds:
            added = event.y
            normed = first(self.norms, lambda event, y=added: same(event.x, y))  # type: ignore[misc]
            for y, output_norm in ((normed.y, normed), (added, None)) if normed else ((added, None),):
                total = state + y
                where = self._where(total)
                if where is None:
                    continue
                self.written.append(event)
                if before is not None:
                    self.kept.append((sublayer.name, "norm", before, "both"))
                if output_norm is not None:
                    self.kept.append((sublayer.name, "output_norm", output_norm, "both"))
                self.kept.append((sublayer.name, "residual", *where))
                if self.placement == "pre":
                    return total
                after = first(self.norms, lambda event: same(event.x, total))  # noqa: B023
                if after is None:
                    return None
                self.kept.append((sublayer.name, "norm", after, "both"))
                return after.y
        return None

    def _where(self, total: Tensor) -> tuple[Event, Side] | None:
        for event in (*self.inside, self.layer):
            if event is not self.layer and event.inputs and same(event.x, total):
                return event, "in"
            if event.outputs and same(event.y, total):
                return event, "out"
        return None
