"""Components of a training; each function packs its data and returns what mounts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viz.components.plots import Mount
from viz.components.registry import component, pack

_training_film = component("film", "plot", "heat", "film_store", "film_norms", "thumbnails")


def training_film(
    visible: NDArray[np.bool_],
    header: Mapping[str, Any],
    key: str,
    on_head: Callable[[], None],
    on_rewind: Callable[[], None],
    on_branch: Callable[[], None],
    on_again: Callable[[], None],
) -> Mount:
    """The film that the strip has received, played and compared in the browser. A click on a head puts {layer, head}
    into the state as `head`; what is offered at a key frame {step, edition} as `rewind` or `branch`. `again`: the film
    of these tokens does not come.

    visible: (query, key), False on masked cells. header: `kind` of attention, `labels`, `sides` and `titles` of `rows`
    and `columns`, `chosen`, [layer, head], `norms` as of `norm_groups`, `others`, the loss of other
    runs ({run, steps, losses}), `words`.
    """
    acts = {"on_head_change": on_head, "on_rewind_change": on_rewind, "on_branch_change": on_branch}
    acts["on_again_change"] = on_again
    return partial(_training_film, data=pack(header, [visible.astype(np.uint8)]), key=key, **acts)
