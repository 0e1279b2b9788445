"""The component of the page Map; the function packs its data and returns what mounts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from viz.components.plots import Mount
from viz.components.registry import component, pack

_model_map = component("model_map", "plot", "map_layout", "map_drawing")


def model_map(
    pictures: Sequence[NDArray[Any]],
    header: Mapping[str, Any],
    key: str,
    on_open: Callable[[], None],
    on_token: Callable[[], None],
    on_scale: Callable[[], None],
) -> Mount:
    """A whole model. A picture of each block: levels (map, row, column), 0 hatched, else 1 to 65,535 over the scale; of
    a norm lines (line, position); or nothing.

    header: `stacks`, from the first that computes to that with the output, each {name, side, labels, special, rows: of
    numbers of blocks, from the bottom}; `blocks`, each {kind, name, title, layer, note, flow: the width of its arrow,
    lines: [label, text]}; `predictions`, {title, labels, probabilities, pinned, side, position}; `summary`, lines of
    the whole model; `differing`; `scale`, "one" or "largest"; `top`, the largest difference; `name`, `sentence`,
    `note`, `alt`, `file`, `stamp` and `words` as of a heatmap. A click puts {block, head} into the state as `open`,
    {side, position} as `token`, "one" or "largest" as `scale`.
    """
    data = pack({**header, "shapes": [picture.shape for picture in pictures]}, pictures)
    return partial(
        _model_map, data=data, key=key, on_open_change=on_open, on_token_change=on_token, on_scale_change=on_scale
    )
