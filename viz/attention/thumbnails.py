"""Every head as a thumbnail, in as many cells as a thumbnail can show, and one number of each."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.head_metrics import METRICS
from viz.attention.shown import Shown, marked, metrics

CELLS = 96  # of a thumbnail along each side, at most: it is shown on some 60 to 130 points


@dataclass(frozen=True)
class Thumbnails:
    """Every head's map, made smaller.

    cells: (layer, head, row, column), the largest of each block, NaN where nothing is comparable. strengths: the same
    of what decides whether a cell is below the threshold. values: (layer, head), the metric, or its difference.
    """

    cells: NDArray[np.float32]
    strengths: NDArray[np.float32]
    values: NDArray[np.float64]
    block: tuple[int, int]

    @property
    def largest(self) -> NDArray[np.float32]:
        """(layer, head): the size of the number furthest from 0."""
        found: NDArray[np.float32] = np.nan_to_num(np.abs(self.cells)).max(axis=(2, 3))
        return found


def block_size(queries: int, keys: int, most: int) -> tuple[int, int]:
    """How many rows and columns become one, so that there are at most so many of each."""
    return math.ceil(queries / most), math.ceil(keys / most)


def pooled(maps: Tensor, block: tuple[int, int]) -> Tensor:
    """The number of each block that is furthest from 0; NaN where all of it is NaN."""
    if block == (1, 1):
        return maps
    high, low = (pooled_positive(torch.nan_to_num(each, nan=-torch.inf), block) for each in (maps, -maps))
    return torch.where(high >= low, high, -low).masked_fill(high == -torch.inf, torch.nan)


def pooled_positive(maps: Tensor, block: tuple[int, int]) -> Tensor:
    """The largest number of each block. First over the rows: that reads the memory in its order."""
    if block == (1, 1):
        return maps
    rows, columns = maps.shape[1:]
    over = -columns % block[1], -rows % block[0]
    padded = F.pad(maps, (0, over[0], 0, over[1]), value=-torch.inf) if any(over) else maps
    return padded.unflatten(1, (-1, block[0])).amax(dim=2).unflatten(2, (-1, block[1])).amax(dim=3)


def thumbnails(shown: Shown) -> Thumbnails:
    """Group by group, so that the maps of all heads are never in memory together."""
    maps, wish = shown.maps, shown.wish
    block = block_size(maps.queries, maps.keys, CELLS)
    shape = (maps.layers, maps.heads, math.ceil(maps.queries / block[0]), math.ceil(maps.keys / block[1]))
    cells = np.empty(shape, np.float32)
    strengths = np.empty(shape if wish.threshold else (0,), np.float32)
    values = np.empty(shape[:2])
    counted = marked(maps, wish.metric)
    smaller = pooled if shown.differing else pooled_positive
    for layer, heads in maps.groups():
        weights = maps.weights(layer, heads)
        values[layer, heads] = METRICS[wish.metric](weights, counted).cpu().numpy()
        drawn = shown.drawn(layer, heads, weights)
        cells[layer, heads] = smaller(drawn.cells, block).cpu().numpy()
        if wish.threshold:
            strengths[layer, heads] = pooled_positive(drawn.strength, block).cpu().numpy()
    if shown.differing:
        values = _difference(shown, values)
    return Thumbnails(cells, strengths, values, block)


def _difference(shown: Shown, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The metric minus that of the pinned trace, on its own tokens; NaN where that has no such head."""
    found = np.full_like(values, np.nan)
    if shown.pinned is not None:
        other = metrics(shown.pinned, shown.wish.metric)[shown.wish.metric]
        layers = min(len(other), len(values))
        found[:layers] = values[:layers] - other[:layers]
    return found
