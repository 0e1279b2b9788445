"""The component of the page Checkpoints that opens; as in views.py the function returns what mounts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from viz.components.plots import Mount
from viz.components.registry import component

_checkpoint_list = component("checkpoint_list")


def checkpoint_list(
    groups: Sequence[Mapping[str, Any]], words: Mapping[str, Any], key: str, on_act: Callable[[], None]
) -> Mount:
    """Lines with buttons; a click puts {act: "show", "read" or "remove", name} into the state as `act`.

    groups: each {title, where, rows: [{name, where, kind, format, parameters, bytes, needs, fits, refused, problem,
    shown, removable, computes}]}, all but the truths as texts. words: `columns`, show, showing, read, reading,
    remove, shown, alt.
    """
    return partial(_checkpoint_list, data={"groups": list(groups), "words": words}, key=key, on_act_change=on_act)
