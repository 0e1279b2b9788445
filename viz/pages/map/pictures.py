"""Pictures of a trace's blocks: attention maps, statistics of norms and activity of units, made small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.blocks import Block
from model.analysis.comparison import Comparison
from model.analysis.downsample import binned, mean_norm, pooled, thinned
from model.analysis.pieces import Pieces
from model.capture.trace import AttentionKind, Trace
from model.network.transformer import Network
from viz.i18n.format import sides
from viz.pages.map.text import POSITIONS_ADDED
from viz.state.token_groups import GroupedAxes

MOST_CELLS = 64  # of a thumbnail, along each side
MOST_BINS = 128  # of a strip of units
EMBEDDING = (32, 96)  # positions and channels of the embedding's picture
FULL = 65533  # steps of a level; 0 is hatched
ODD = 65535  # the level of what is not a number, or infinite
LEAST = 1e-9  # the end of a scale on which everything is 0


@dataclass(frozen=True)
class Pictures:
    """The pictures of a trace, or, where `differing`, of its differences from the pinned one.

    A picture is of levels: 0 hatched (masked, or without a counterpart), else from 1 at the scale's low end to 65,534
    at its high end, and ODD where a value is not finite. Values run from 0 to 1 (attention) or to the picture's
    largest; signed ones lie around 32,768.

    merged: by its side, the runs of tokens that are one row and one column of attention.
    """

    trace: Trace
    comparison: Comparison | None
    differing: bool
    merged: Mapping[str, Pieces] = field(default_factory=dict)

    @property
    def reference(self) -> Comparison | None:
        """The trace that the pictures are differences from, if they are."""
        return self.comparison if self.differing else None

    def of(self, block: Block) -> NDArray[np.uint16] | NDArray[np.float32]:
        """Arrays to draw: of an attention a map a head; of a norm its lines; of a feed-forward network a strip, of a
        mixture of experts what each token gives to each; of an embedding tokens and positions; of a recurrent unit its
        states; of the others nothing.
        """
        if "attention" in block.kind:
            return self._levels(self._maps[block.path], self.top if self.differing else 1.0, self.differing)
        if block.kind == "norm":
            return torch.stack(self.lines(block)).numpy()
        if self.has_experts(block):
            gates = pooled(self._read(f"{block.path}.gates").T[None], MOST_CELLS)
            return self._levels(gates, _largest(gates), self.differing)
        if block.kind == "feed-forward":
            units = binned(self.activity(block), MOST_BINS)[None, None]
            return self._levels(units, _largest(units), self.differing)
        if block.kind == "recurrence":
            states = thinned(self._read(block.output), *EMBEDDING)[None]
            return self._levels(states, _largest(states), True)
        if block.kind == "embedding":
            assert isinstance(self.trace.network, Network)
            added = self.trace.network.config.position in POSITIONS_ADDED
            names = [f"{block.path}.{name}" for name in ("tokens", "positions")[: 1 + added]]
            apart = all(name in self.trace for name in names)  # else a bridged model shows only what they add up to
            parts = [self._read(name) for name in (names if apart else [block.output])]
            small = torch.stack([thinned(part, *EMBEDDING) for part in parts])
            return self._levels(small, _largest(small), True)
        return np.empty(0, np.float32)

    @cached_property
    def _maps(self) -> dict[str, Tensor]:
        """The weights of every attention, small, NaN on masked cells; one layer after the other."""
        by_path = {}
        for kind in get_args(AttentionKind):
            runs = GroupedAxes(self.trace, sides(self.trace, kind), self.merged)
            for path in self.trace.attention_paths(kind):
                small = pooled(runs.of(self._read(f"{path}.weights")), MOST_CELLS)
                visible = pooled(runs.any(self.trace[f"{path}.visible"])[None].float().cpu(), MOST_CELLS)
                by_path[path] = small.masked_fill(visible == 0, torch.nan)
        return by_path

    @cached_property
    def top(self) -> float:
        """The largest difference of a weight; 1 where nothing differs or nothing can be compared."""
        largest = max((_largest(maps) for maps in self._maps.values()), default=LEAST)
        return largest if largest > LEAST else 1.0

    def moved(self, block: Block) -> list[float] | None:
        """How much of each head's weight moved, as the list of the largest changes says; None where nothing is
        compared, or this has no heads.
        """
        if self.reference is None or "attention" not in block.kind:
            return None
        return self._moved.get(block.path)

    @cached_property
    def _moved(self) -> dict[str, list[float]]:
        assert self.reference is not None
        table = self.reference.changes
        heads = table[table["kind"] == "head"].sort_values("head")
        return {str(path): rows["change"].tolist() for path, rows in heads.groupby("name")}

    def lines(self, block: Block) -> list[Tensor]:
        """Mean and deviation of what a norm reads, at each position; then those of the pinned trace."""
        names = [f"{block.path}.{name}" for name in ("mean", "std")]
        tensors = [self.trace[name] for name in names]
        if self.comparison:
            tensors += [each for name in names if (each := self.comparison.counterpart(name)) is not None]
        return [each.detach().float().cpu() for each in tensors]

    def has_experts(self, block: Block) -> bool:
        """True if a block is a mixture of experts."""
        return f"{block.path}.gates" in self.trace

    def activity(self, block: Block) -> Tensor:
        """Mean size of each unit over the positions; or how much that is more than in the pinned trace."""
        units = self.units(block)
        if self.reference is None:
            return units.abs().mean(dim=0).nan_to_num(nan=torch.inf, posinf=torch.inf)
        other = self.reference.counterpart(self.units_name(block))
        if other is None:
            return torch.full(units.shape[1:], torch.nan)
        other = other.float().cpu()
        comparable = ~other.isnan().any(dim=-1)
        change = units[comparable].abs() - other[comparable].abs()
        return change.mean(dim=0)

    def units(self, block: Block) -> Tensor:
        """Input of the second layer of a feed-forward network."""
        return self.trace[self.units_name(block)].detach().float().cpu()

    def units_name(self, block: Block) -> str:
        gated, activation = f"{block.path}.gated", f"{block.path}.activation"
        if hasattr(self.trace.module(block.path), "gated"):
            return gated
        return activation if activation in self.trace else block.output  # a bridged model may show no units

    def flow(self, block: Block) -> float:
        """The mean norm of what a block gives, or of its difference from the pinned trace; NaN where there is none."""
        return self.change(block) if self.differing else self.size(block)

    def size(self, block: Block) -> float:
        """The mean norm of what a block gives."""
        return mean_norm(self.trace[block.output])

    def pinned_size(self, block: Block) -> float:
        """Mean norm of the pinned trace, at the tokens of both; NaN where there is none."""
        other = self.comparison.counterpart(block.output) if self.comparison else None
        return torch.nan if other is None else mean_norm(other)

    def change(self, block: Block) -> float:
        """The mean norm of its difference from the pinned trace; NaN where there is none."""
        difference = self.comparison.difference(block.output) if self.comparison else None
        return torch.nan if difference is None else mean_norm(difference)

    def _read(self, name: str) -> Tensor:
        """A quantity, or its difference from the pinned one, NaN where that is none; infinite where the quantity is
        not finite.
        """
        own = x = self.trace[name]
        if self.reference is not None:
            other = self.reference.difference(name)
            x = torch.full_like(x, torch.nan) if other is None else other
        return x.detach().float().cpu().masked_fill(~own.detach().cpu().isfinite(), torch.inf)

    @staticmethod
    def _levels(x: Tensor, top: float, signed: bool) -> NDArray[np.uint16]:
        values = x.numpy()
        share = values / top if not signed else values / (2 * top) + 0.5
        levels = 1 + np.rint(np.clip(np.nan_to_num(share), 0, 1) * FULL)
        return np.where(np.isnan(values), 0, np.where(np.isinf(values), ODD, levels)).astype(np.uint16)


def _largest(x: Tensor) -> float:
    """The largest size of a finite number, and never 0: it divides."""
    finite = x[x.isfinite()]
    return max(LEAST, float(finite.abs().max())) if finite.numel() else LEAST
