"""Heads from their weights: how large their four projections are, and which heads are alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from model.analysis.weights.heads import attentions, head_norms, head_similarity
from model.capture.trace import ATTENTION_PATHS
from model.network.attention import MultiHeadAttention
from viz.components.plots import Mount, Panel, heatmap, panels
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.state.workbench import attention_kinds
from viz.ui.parts import plot_words
from viz.ui.plots import array

if TYPE_CHECKING:
    from torch import Tensor

    from model.capture.trace import AttentionKind
    from model.inference.model import Inspectable

NAMES = ("W_Q", "W_K", "W_V", "W_O")
Remember = Callable[[Hashable, Callable[[], Any]], Any]


def attentions_of(lens: Inspectable, kind: AttentionKind) -> list[MultiHeadAttention]:
    """The attentions of that kind, layer by layer."""
    found = attentions(lens.model)
    paths = (ATTENTION_PATHS[kind].format(layer) for layer in range(len(found)))
    return [found[path] for path in paths if path in found]


def kinds_of(lens: Inspectable) -> list[AttentionKind]:
    """The kinds of attention whose heads' weights are known."""
    return [kind for kind in attention_kinds(lens.model) if attentions_of(lens, kind)]


def norms_of(lens: Inspectable, kind: AttentionKind, remember: Remember) -> Tensor:
    """(projection, layer, head)"""
    found: Tensor = remember(
        ("norms", kind), lambda: torch.stack([head_norms(each) for each in attentions_of(lens, kind)], dim=1)
    )
    return found


def norm_panels(
    norms: Tensor, file: str, title: str, chosen: tuple[int, int], key: str, on_cell: Callable[[], None]
) -> Mount:
    """Four maps of layer by head; a click opens the head."""
    values = array(norms)
    layers, heads = values.shape[1:]
    shown, ranges = [], []
    for number, (name, each) in enumerate(zip(NAMES, values, strict=True)):
        low, high = float(each.min()), float(each.max())
        described = {
            "name": name,
            "rows": {"title": _("layer"), "labels": [str(row + 1) for row in range(layers)], "side": "layers"},
            "columns": {"title": _("head"), "labels": [str(at + 1) for at in range(heads)], "side": "heads"},
            "scale": {"low": low if low < high else 0, "high": high or 1.0, "difference": False},
            "line": number // 2,
            "chosen": -1,
            "framed": list(chosen),
            "choose": True,
        }
        shown.append(Panel(np.ones(each.shape, np.bool_), described, each))
        ranges.append(f"{name} {significant(low)} – {significant(high)}")
    sentence = _("the Frobenius norm of each head's part; a click opens the head")
    header = {
        "slot": 150,
        "cell": 34,
        "name": title,
        "sentence": sentence,
        "alt": _("{title} of {layers} layers with {heads} heads: {ranges}.").format(
            title=title,
            layers=layers,
            heads=heads,
            ranges="; ".join(ranges),
        ),
        "file": f"heads-{file}",
        "stamp": f"{file} {title}",
        "words": panel_words(),
    }
    return panels(shown, header, key, on_cell)


def panel_words() -> dict[str, Any]:
    csv = (_("matrix"), _("layer"), _("head"), _("norm"), _("masked"))
    return {**plot_words(*csv), "visible": _("visible"), "changed": _("changed"), "missing": _("not a finite number")}


def head_labels(layers: int, heads: int) -> list[str]:
    return [f"{layer + 1}.{head + 1}" for layer in range(layers) for head in range(heads)]


def similarity_map(
    similarity: Tensor, labels: Sequence[str], circuit: str, file: str, key: str, on_cell: Callable[[], None]
) -> Mount:
    """The cosine of every head's circuit with every other's."""
    values = array(similarity)
    apart = np.abs(values) * (1 - np.eye(len(values)))
    one, other = divmod(int(apart.argmax()), len(values))
    # A head has cosine 1 with itself: the scale is that of the others, or they would all be pale.
    top = float(apart.max()) or 1.0
    sentence = _("most alike: {one} and {other}, cosine {cosine}; the diagonal is 1").format(
        one=labels[one], other=labels[other], cosine=significant(float(values[one, other]))
    )
    axis = {"title": _("layer.head"), "labels": list(labels), "side": "weight heads"}
    product = {"scores": "W_Qᵀ W_K", "output": "W_O W_V"}[circuit]
    header = {
        "rows": axis,
        "columns": axis,
        "square": True,
        "scale": {"low": -top, "high": top, "title": _("cosine"), "difference": False},
        "chosen": -1,
        "name": _("Heads that are alike"),
        "sentence": f"{product} · {sentence}",
        "alt": _("Cosines of {product} of {count} heads; {sentence}.").format(
            product=product, count=len(values), sentence=sentence
        ),
        "file": f"similar-{circuit}-{file}",
        "stamp": f"{file} {circuit}",
        "words": plot_words(_("head"), _("other head"), _("cosine"), _("masked")),
    }
    return heatmap(values, np.ones(values.shape, np.bool_), header, key, on_cell=on_cell)


def similarity_of(lens: Inspectable, kind: AttentionKind, circuit: str, remember: Remember) -> Tensor:
    """(head, head) over all layers of that kind."""
    assert circuit in ("scores", "output")
    found: Tensor = remember(
        ("similarity", kind, circuit),
        lambda: head_similarity(attentions_of(lens, kind), "scores" if circuit == "scores" else "output"),
    )
    return found


def norm_table(norms: Tensor) -> pd.DataFrame:
    return head_table(dict(zip(NAMES, norms.numpy(), strict=True)))


def head_table(columns: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """A line for each head. columns: by their title (layer, head)."""
    layers, heads = next(iter(columns.values())).shape
    rows: dict[str, Any] = {
        _("layer"): np.repeat(np.arange(1, layers + 1), heads),
        _("head"): np.tile(np.arange(1, heads + 1), layers),
    }
    return pd.DataFrame(rows | {name: each.reshape(-1) for name, each in columns.items()})
