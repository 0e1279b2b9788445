"""Names of the curves of a training, and of the places in a network where they were measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.training.live.frame_recorder import LOSS, NORMS, PROBABILITIES, TOKENS
from viz.i18n.catalogue import _


def group_name(group: str) -> str:
    return {"whole": _("whole network"), "layers": _("by layer"), "heads": _("heads")}[group]


def smoothing_name(keep: str) -> str:
    """keep: the weight of the past in the average."""
    return _("as measured") if keep == "0" else _("smoothed {keep}").format(keep=keep)


def title_of(name: str) -> str:
    """Title of a figure above its chart; names of layers are added by `part_name`."""
    return {
        "loss": _("training loss"),
        "validation": _("validation loss"),
        "smoothed validation": _("validation loss, smoothed labels"),
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
    """Sentence on a change: its setting, before and after."""
    return ", ".join(f"{name} {_value(before)} → {_value(after)}" for name, (before, after) in changes.items())


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


OTHER_QUANTITIES = (NORMS, TOKENS, PROBABILITIES, LOSS)
