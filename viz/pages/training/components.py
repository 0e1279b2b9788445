"""Components of a training; each function packs its data and returns what mounts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viz.components.registry import component, pack
from viz.components.view import Answer, PackedView, View
from viz.figures.figure import Caption
from viz.render.renderer import about_header
from viz.render.view import about_click

_training_film = component("pages/training/film")


def training_film(
    visible: NDArray[np.bool_],
    header: Mapping[str, Any],
    key: str,
    on_head: Answer,
    on_rewind: Answer,
    on_branch: Answer,
    on_again: Answer,
    heading: Caption,
) -> View:
    """The film that the strip has received, played and compared in the browser. A click on a head puts {layer, head}
    into the state as `head`; what is offered at a key frame {step, edition} as `rewind` or `branch`. `again`: the film
    of these tokens does not come.

    visible: (query, key), False on masked cells. header: `kind` of attention, `labels`, `sides` and `titles` of `rows`
    and `columns`, `chosen`, [layer, head], `norms` as of `norm_groups`, `others`, the loss of other
    runs ({run, steps, losses}), `words`.
    """
    acts = {"head": on_head, "rewind": on_rewind, "branch": on_branch, "again": on_again, **about_click(heading)}
    return PackedView(_training_film, key, pack({**header, **about_header(heading)}, [visible.astype(np.uint8)]), acts)
