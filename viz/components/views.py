"""The components that pages mount. Each function packs its data and returns what mounts it: a page packs all it has
before it mounts the first, so that the browser gets everything at once and paints it in one frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viz.components import component, pack

Mount = Callable[[], object]

_token_bar = component("token_bar")
_head_grid = component("head_grid")
_heatmap = component("heatmap")
_stages = component("stages")


def token_bar(data: Mapping[str, Any], key: str, on_token: Callable[[], None], on_guess: Callable[[], None]) -> Mount:
    """Tokens of both sides with notes, guesses and badges.

    A click on a token puts {side, position} into the state as `token`, one on a guess {number, token} as `guess`.
    """
    return partial(_token_bar, data=data, key=key, on_token_change=on_token, on_guess_change=on_guess)


def head_grid(
    weights: NDArray[np.float32],
    visible: NDArray[np.bool_],
    tops: Sequence[float],
    header: Mapping[str, Any],
    key: str,
    on_head: Callable[[], None],
) -> Mount:
    """Thumbnails of (layer, head, query, key) weights; a click puts {layer, head} into the state as `head`.

    visible: (query, key), False on masked cells. tops: for each head the weight that is drawn darkest.
    """
    layers, heads, rows, columns = weights.shape
    levels = np.rint(weights * 65535).astype(np.uint16)
    sizes = {
        "layers": layers,
        "heads": heads,
        "rows": rows,
        "columns": columns,
        "tops": [top * 65535 for top in tops],
    }
    data = pack({**header, **sizes}, [levels, visible.astype(np.uint8)])
    return partial(_head_grid, data=data, key=key, on_head_change=on_head)


def heatmap(
    values: NDArray[np.float32],
    visible: NDArray[np.bool_],
    header: Mapping[str, Any],
    key: str,
    on_row: Callable[[], None],
) -> Mount:
    """Values (row, column) large, with labels, a colour bar and a menu of files; a click puts a `row` into the state.

    visible: False on masked cells. header: `rows` and `columns`, each {title, labels, side}; `scale`, {low, high,
    title}, diverging if low is negative; `chosen`, the framed row, or -1; `name`, `sentence` and `note` above it;
    `alt` for screen readers; `file`, the name of what is saved; `stamp`, what was painted; `words`, {masked, download,
    csv: the names of the four columns}.
    """
    return partial(_heatmap, data=pack(header, [values, visible.astype(np.uint8)]), key=key, on_row_change=on_row)


def stages(
    arrays: Sequence[NDArray[np.float32]], header: Mapping[str, Any], key: str, on_query: Callable[[], None]
) -> Mount:
    """One query's scores, scaled, biased where positions add to them, masked, weights, weighted values
    (key, channel) and their sum.

    A click on a query puts its position into the state as `query`.
    """
    return partial(_stages, data=pack(header, arrays), key=key, on_query_change=on_query)
