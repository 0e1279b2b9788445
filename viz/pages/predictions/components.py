"""Components of what a model could write: one position's tokens, the decoding film, the tree of a beam search.

Each function packs its data and returns what mounts it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viz.components.plots import Mount
from viz.components.registry import component, pack

_ranking = component("ranking", "plot", "picture", "choices")
_film = component("decoding_film", "plot", "picture", "choices")
_tree = component("beam_tree", "plot", "picture")


def ranking(values: NDArray[np.float32], header: Mapping[str, Any], key: str, on_choice: Callable[[], None]) -> Mount:
    """Tokens with values (row, column); a click on one puts {position, token} into the state as `choice`.

    header: `name`, `sentence` and `facts` above them; `columns`, each {name, formula, mark, colour}; `rows`, each
    {token, label, special, actual, open: may be chosen, rank}, see choices.js; `position`, `stamp`, `file`, `words`,
    their `csv` without the columns.
    """
    return partial(_ranking, data=pack(header, [values]), key=key, on_choice_change=on_choice)


def film(
    weights: NDArray[np.float32],
    values: NDArray[np.float32],
    header: Mapping[str, Any],
    key: str,
    on_choice: Callable[[], None],
) -> Mount:
    """Frames with the weights (map, frame, source) and the values (frame, row, column) of their tokens; a click on one
    puts {position, token} into the state as `choice`. Playing asks nothing of the server.

    header: `frames`, each {label, special, place: in `kept`, position, sees: so many of the source, sentence, share,
    rows}; `source`, {labels, special, side}; `kept`, {labels, special}, the text written, empty where it is the
    source; `side`, its tokens'; `maps`, names; `columns` as of a ranking; `depth`, rows of a frame; `difference`,
    `top`, `stamp`, `file`, `words`, their `csv` as of a ranking.
    """
    return partial(_film, data=pack(header, [weights, values]), key=key, on_choice_change=on_choice)


def tree(header: Mapping[str, Any], key: str, on_node: Callable[[], None]) -> Mount:
    """A beam search's nodes in columns; a click on one puts its number into the state as `node`.

    header: `nodes`, each {parent, step, row, label, fate, probability, sentence, open}, the root first; `hypotheses`,
    each {node, text, score}, best first; `legend`, each {fate, name}; `alt`, `stamp`, `file`, `words`.
    """
    return partial(_tree, data=pack(header), key=key, on_node_change=on_node)
