"""What each head is good for on this text, packed for the browser: by layer, in order, and beside heads like it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from model.analysis.head_importance import Effect, Place
from model.analysis.head_metrics import Likeness
from model.capture.trace import AttentionKind
from viz.attention.importance_words import Weighed, head_name
from viz.components.plots import Mount, Panel, Series, chart, panels
from viz.i18n.catalogue import _
from viz.i18n.format import attention_name, significant
from viz.ui.parts import stamp
from viz.ui.plots import PINNED

BAR = "#5c7cfa"


def pack_effects(
    weighed: Weighed, kinds: Sequence[AttentionKind], chosen: Place, key: str, on_cell: Callable[[], None]
) -> Mount:
    """A cell for each head of these kinds; framed in colour: removed already."""
    tables = [_table(weighed.effects, kind, weighed.shown) for kind in kinds]
    top = max(float(np.nanmax(np.abs(table), initial=0.0)) for table in tables) or 1e-9
    low = -top if weighed.differing or any(np.nanmin(table, initial=0.0) < 0 for table in tables) else 0.0
    shown = []
    for kind, table in zip(kinds, tables, strict=True):
        gone = _table(weighed.effects, kind, lambda place: float(place in weighed.removed)) > 0
        costs = [weighed.shown(place) for place in weighed.effects if place[0] == kind]
        known = [cost for cost in costs if not np.isnan(cost)]
        note = _("mean {mean}").format(mean=significant(float(np.mean(known)))) if known else ""
        scale = {"low": low, "high": top, "difference": weighed.differing}
        described = _described(attention_name(kind), note, scale, table, chosen if kind == chosen[0] else None)
        shown.append(Panel(np.ones_like(table, dtype=bool), described, table, gone))
    name = _("Without each head")
    sentence = f"{weighed.quantity} · {_('layer × head; click one to see it large')}"
    header = _header(weighed, name, f"Δ {sentence}" if weighed.differing else sentence, "attention-importance", shown)
    return panels(shown, header, key, on_cell)


def pack_ranking(weighed: Weighed, chosen: Place, key: str, on_place: Callable[[], None]) -> Mount:
    """The heads by what their loss costs; of the pinned trace, where it was measured there, beside."""
    ranked = weighed.ranked
    alone = len({kind for kind, _layer, _head in weighed.effects}) == 1
    names, places = [head_name(place, alone) for place in ranked], np.arange(len(ranked))
    series = [Series(weighed.quantity, places, np.array([weighed.cost(place) for place in ranked]), BAR, "bars")]
    if weighed.pinned:
        other = np.array([weighed.cost(place, weighed.pinned) for place in ranked])
        series.append(Series(_("pinned"), places, other, PINNED, "dots"))
    name = _("In order")
    costs = ", ".join(f"{head_name(place, alone)} {weighed.said(weighed.cost(place))}" for place in ranked[:8])
    header = {
        "x": {"title": _("head"), "labels": names, "side": ""},
        "y": {"title": f"{weighed.quantity}, {weighed.unit}".rstrip(", ")},
        "chosen": ranked.index(chosen) if chosen in ranked else -1,
        "tall": 120,
        "name": name,
        "sentence": _("from the head that matters most"),
        "note": "",
        "alt": f"{name}: {costs}",
        "file": "attention-importance-order",
        "stamp": stamp(weighed.trace),
        "words": {"download": _("Download"), "csv": [_("series"), _("head"), weighed.quantity]},
    }  # fmt: skip
    return chart(series, header, key, on_place)


def pack_alike(weighed: Weighed, alike: Likeness, chosen: Place, key: str, on_cell: Callable[[], None]) -> Mount:
    """Every head of the chosen one's kind beside it: where it looks, and what it gives."""
    maps = np.asarray(1 - alike.maps, np.float32)
    pairs = [(_("looks alike"), _("1 − Jensen–Shannon distance"), maps, 0.0)]
    if alike.outputs is not None and not bool(alike.outputs.isnan().all()):
        pairs.append((_("gives alike"), "cos(oWᴼ, o′Wᴼ)", np.asarray(alike.outputs, np.float32), -1.0))
    shown = []
    for title, note, table, low in pairs:
        described = _described(title, note, {"low": low, "high": 1.0}, table, chosen)
        shown.append(Panel(~np.isnan(table), described, table))
    name = _("Heads like {head}").format(head=head_name(chosen, True))
    count = len(weighed.trace.tokens_of(weighed.trace.attention_paths(chosen[0])[0]))
    sentence = attention_name(chosen[0])
    if alike.queries < count:
        sentence += " · " + _("at {some} of {all} queries").format(some=alike.queries, all=count)
    return panels(shown, _header(weighed, name, sentence, "attention-alike", shown), key, on_cell)


def importance_table(weighed: Weighed) -> pd.DataFrame:
    """A row a head."""
    places, effects = list(weighed.effects), list(weighed.effects.values())
    labels = weighed.trace.target_tokens or weighed.trace.source_tokens
    moved = _("largest KL, nats") if weighed.predicts else _("largest of one token")
    table: dict[str, Any] = {
        _("Attention"): [attention_name(place[0]) for place in places],
        _("layer"): [place[1] + 1 for place in places],
        _("head"): [place[2] + 1 for place in places],
        _("Δ loss") if weighed.by_divergence else weighed.quantity: [effect.loss for effect in effects],
        moved: [effect.moved for effect in effects],
        _("at token"): [labels[effect.position] for effect in effects],
        _("removed"): [place in weighed.removed for place in places],
    }
    if weighed.pinned:
        table[_("pinned")] = [weighed.cost(place, weighed.pinned) for place in places]
    return pd.DataFrame(table)


def _table(
    effects: Mapping[Place, Effect], kind: AttentionKind, value: Callable[[Place], float]
) -> NDArray[np.float32]:
    own = [place for place in effects if place[0] == kind]
    layers, heads = (1 + max(each) for each in zip(*(place[1:] for place in own), strict=True))
    found = np.full((layers, heads), np.nan, np.float32)
    for place in own:
        found[place[1:]] = value(place)
    return found


def _described(
    name: str, note: str, scale: dict[str, Any], table: NDArray[Any], framed: Place | None
) -> dict[str, Any]:
    """A panel of layers × heads."""
    layers, heads = table.shape
    return {
        "name": name,
        "note": note,
        "line": 0,
        "choose": True,
        "framed": list(framed[1:]) if framed else None,
        "joined": " · ",
        "scale": scale,
        "rows": {"title": "", "labels": [f"L{layer + 1}" for layer in range(layers)], "side": ""},
        "columns": {"title": _("head"), "labels": [f"{head + 1}" for head in range(heads)], "side": ""},
    }


def _header(weighed: Weighed, name: str, sentence: str, file: str, shown: Sequence[Panel]) -> dict[str, Any]:
    return {
        "name": name,
        "sentence": sentence,
        "slot": 150,
        "cell": 24,
        "alt": f"{name}: {sentence}. "
        + ", ".join(f"{panel.described['name']} {panel.described['note']}" for panel in shown),
        "file": file,
        "stamp": stamp(weighed.trace),
        "words": {
            "masked": _("not known"),
            "visible": _("known"),
            "changed": _("removed"),
            "missing": _("not measured in the pinned trace"),
            "download": _("Download"),
            "csv": [_("panel"), _("layer"), _("head"), _("value"), _("not known")],
        },
    }
