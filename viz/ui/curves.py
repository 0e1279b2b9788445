"""What the curves of a training are called, and where in a network they were measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.training.live.camera import LOSS, NORMS, PROBABILITIES, TOKENS
from model.training.live.film import Film
from viz.i18n.catalogue import _


def group_name(group: str) -> str:
    return {"whole": _("whole network"), "layers": _("by layer"), "heads": _("heads")}[group]


def smoothing_name(keep: str) -> str:
    """keep: the weight of the past in the average."""
    return _("as measured") if keep == "0" else _("smoothed {keep}").format(keep=keep)


def title_of(name: str) -> str:
    """What a figure is called above its chart; names of layers are added by `part_name`."""
    return {
        "loss": _("training loss"),
        "validation": _("validation loss"),
        "accuracy": _("tokens predicted rightly"),
        "exact match": _("exact match"),
        "rate": _("learning rate"),
        "gradient norm": _("gradient norm"),
        "update ratio": _("update-to-weight ratio"),
        "γ drift": _("drift of the norms' γ"),
        "dead units": _("units idle on the probe"),
    }[name]


def part_name(path: str) -> str:
    """A module path as people say it: "decoder.layers.0.cross_attention" is "decoder 1 cross-attention"."""
    words = {
        "encoder": _("encoder"),
        "decoder": _("decoder"),
        "embedding": _("embedding"),
        "output": _("output"),
        "self_attention": _("self-attention"),
        "cross_attention": _("cross-attention"),
        "self_attention_block": _("self-attention"),
        "cross_attention_block": _("cross-attention"),
        "feed_forward": _("feed-forward"),
        "feed_forward_block": _("feed-forward"),
        "norm": _("norm"),
    }
    parts = [part for part in path.split(".") if part != "layers"]
    return " ".join(str(int(part) + 1) if part.isdigit() else words.get(part, part) for part in parts)


def change_text(changes: Mapping[str, tuple[Any, Any]]) -> str:
    """What was changed, from what to what."""
    return ", ".join(f"{name} {_value(before)} → {_value(after)}" for name, (before, after) in changes.items())


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


# Where the norms of each layer stand in a frame of the film.

OTHER_QUANTITIES = (NORMS, TOKENS, PROBABILITIES, LOSS)


def norm_groups(film: Film) -> list[dict[str, Any]]:
    """Of each quantity of each stack: the first of its values in a frame's norms, its rows, and whose tokens they have.

    quantity: "mean" and "std" of what each norm reads, "stream" for the Euclidean norm of the residual stream.
    """
    groups: list[dict[str, Any]] = []
    first = 0
    for name in film.names:
        if name in film.kinds or name in OTHER_QUANTITIES:
            continue
        path, _dot, last = name.rpartition(".")
        (positions,) = film.shape(name)
        stack, quantity = name.partition(".")[0], last if last in ("mean", "std") else "stream"
        side = "target" if stack == "decoder" and film.probe.target else "source"
        if not groups or (groups[-1]["quantity"], groups[-1]["stack"]) != (quantity, stack):
            group = {"quantity": quantity, "stack": stack, "side": side, "first": first, "positions": positions}
            groups.append({**group, "rows": []})
        block = path.removesuffix(".norm")
        groups[-1]["rows"].append(part_name(path if block == stack else block))
        first += positions
    return groups
