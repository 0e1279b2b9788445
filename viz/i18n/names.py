"""Names of what several figures show, as messages: in no language yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.message import Message
from viz.i18n.messages import joined

if TYPE_CHECKING:
    from model.capture.trace import AttentionKind, Trace


NO_PREDICTIONS = Message("This model has no output head: it reads, and predicts nothing.")


def attention_title(kind: str) -> Message:
    """A kind of attention, as on its button."""
    return {"encoder": Message("Encoder"), "decoder": Message("Decoder"), "cross": Message("Cross")}[kind]


def side_title(trace: Trace, side: str, task: bool = False) -> Message:
    """A text of the input. task: the model answers a built-in task, and translates nothing."""
    if not trace.target_tokens:
        return Message("text")
    if task:
        return Message("input text") if side == "source" else Message("output text")
    return Message("source") if side == "source" else Message("target")


def attention_reading(trace: Trace, kind: AttentionKind, layer: int, task: bool = False) -> Message:
    """Who looks at whom: at earlier tokens where no later one is to be seen; of a single token the kind tells.

    task: the model answers a built-in task, and translates nothing.
    """
    if kind == "cross":
        return Message("output looks at input") if task else Message("target looks at source")
    visible = trace[f"{trace.attention_paths(kind)[layer]}.visible"]
    ahead = bool(visible.triu(1).any()) if len(visible) > 1 else kind == "encoder"
    if not trace.target_tokens:
        return Message("each token looks at all of them") if ahead else Message("each token looks at earlier ones")
    if kind == "encoder":
        return Message("input looks at input") if task else Message("source looks at source")
    if task:
        return Message("output looks at all of the output") if ahead else Message("output looks at earlier output")
    return Message("target looks at all of the target") if ahead else Message("target looks at earlier target")


PARTS = {
    "encoder": Message("encoder"),
    "decoder": Message("decoder"),
    "self_attention": Message("self-attention"),
    "cross_attention": Message("cross-attention"),
    "self_attention_block": Message("self-attention"),
    "cross_attention_block": Message("cross-attention"),
    "feed_forward": Message("feed-forward"),
    "feed_forward_block": Message("feed-forward"),
    "embedding": Message("embedding"),
    "norm": Message("norm"),
    "heads": Message("heads"),
    "hidden": Message("units"),
    "key": Message("key"),
    "output": Message("output"),
    "query": Message("query"),
    "residual": Message("residual stream"),
    "scores": Message("scores"),
    "value": Message("value"),
    "weights": Message("attention weights"),
}


def quantity_title(name: str) -> str:
    """A quantity of a trace as people say it: "decoder.layers.1.cross_attention.weights" is "decoder layer 2,
    cross-attention: weights". A part that has no word stays as it is called.
    """
    *path, quantity = name.split(".")
    parts = [PARTS.get(part, part) for part in path]
    if path[1:2] == ["layers"] and len(path) > 2:
        stack, layer = parts[0], int(path[2]) + 1
        parts[:3] = [Message("{stack} layer {layer}", stack=stack, layer=layer)]
    return joined(": ", joined(", ", *parts), PARTS.get(quantity, quantity))


def page_title(name: str) -> Message:
    """A page, as in the navigation."""
    return {
        "map": Message("Map"),
        "positions": Message("Tokens and positions"),
        "attention": Message("Attention"),
        "masks": Message("Masks"),
        "residual": Message("Norms and residual"),
        "feed_forward": Message("Feed-forward"),
        "predictions": Message("Predictions"),
        "training": Message("Training"),
        "checkpoints": Message("Checkpoints"),
        "lessons": Message("Lessons"),
        "lab": Message("Lab"),
    }[name]


def scale_title(name: str, weights: bool = True) -> Message:
    """Scale of maps. weights: none is above 1; of other quantities one scale ends at the largest of all heads."""
    one = Message("scale 0 to 1") if weights else Message("one scale for all heads")
    return {
        "one": one,
        "largest": Message("scale 0 to largest") if weights else Message("a scale for each head"),
        "others": Message("without the first key"),
        "log": Message("log scale"),
    }[name]
