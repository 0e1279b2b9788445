"""One query of one head, step by step, packed for the browser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from model.attention import MultiHeadAttention
from model.errors import require
from model.position_bias import Alibi
from viz.attention.shown import Shown
from viz.components.views import Mount, stages
from viz.i18n import _
from viz.parts import plot_words, stamp
from viz.words import significant
from viz.workbench import Selection

ROWS = 64  # keys in the table, and queries to choose from, at most


def pack_stages(shown: Shown, chosen: Selection, key: str, on_query: Callable[[], None]) -> Mount:
    """Scores, weights and weighted values of the chosen query; of long texts, of the keys with the largest weights.

    Raises:
        AbsentError: the model shows no steps to its weights.
    """
    maps, trace = shown.maps, shown.trace
    path, head = maps.paths[chosen.layer], chosen.head
    require(trace.model, f"{path}.scores", f"{path}.heads")
    stage = maps.row(chosen.layer, head, chosen.query)
    weights = stage["weights"]
    keys = torch.arange(maps.keys, device=weights.device)
    if maps.keys > ROWS:
        keys = weights.topk(ROWS).indices.sort().values
    weighted = weights[keys, None] * trace.values(path)[head].float()[keys]
    output = trace[f"{path}.heads"][head, chosen.query].float()
    queries = near(chosen.query, maps.queries)
    arrays = [*(each[keys] for each in stage.values()), weighted, output]
    header = _header(shown, chosen, queries, keys.tolist(), list(stage), len(output))
    most = int(weights.argmax())
    header["alt"] = _("{name}: the query {query} looks most at {key}, with a weight of {weight}.").format(
        name=header["name"],
        query=shown.row_labels[chosen.query],
        key=shown.column_labels[most],
        weight=significant(float(weights[most])),
    )
    return stages([array.cpu().numpy() for array in arrays], header, key, on_query)


def near(place: int, count: int) -> range:
    """Places around this one, as many as there is room for."""
    first = max(0, min(place - ROWS // 2, count - ROWS))
    return range(first, min(count, first + ROWS))


def _header(
    shown: Shown, chosen: Selection, queries: range, keys: Sequence[int], steps: Sequence[str], channels: int
) -> dict[str, Any]:
    rows = [shown.row_labels[place] for place in queries]
    columns = [shown.column_labels[place] for place in keys]
    left_out, special = shown.maps.keys - len(keys), shown.trace.special_labels
    note = _("the {shown} keys with the largest weights; {count} others are left out")
    name, titles = f"{_('head')} {chosen.layer + 1}.{chosen.head + 1}", _titles(shown, chosen, steps, channels)
    return {
        "name": f"{_('One query, step by step')} · {name}",
        "file": f"steps-{shown.wish.kind}-layer{chosen.layer + 1}-head{chosen.head + 1}-query{chosen.query + 1}",
        "queries": rows,
        "keys": columns,
        "places": {"rows": list(queries), "columns": list(keys)},
        "sides": {"rows": shown.rows, "columns": shown.columns},
        "special": {
            "rows": [token in special for token in rows],
            "columns": [token in special for token in columns],
        },
        "chosen": chosen.query,
        "note": note.format(shown=len(keys), count=left_out) if left_out else "",
        "stamp": stamp(shown.trace),
        "words": {
            **plot_words(*(title["name"] for title in titles[:-1])),
            "query": f"{name} · {_('query')}",
            "value": _("weight × value"),
            "output": _("output of this head"),
            "columns": titles,
        },
    }


def _titles(shown: Shown, chosen: Selection, steps: Sequence[str], channels: int) -> list[dict[str, str]]:
    """Of each column its name and its formula."""
    attention = shown.trace.module(shown.maps.paths[chosen.layer])
    bias = "− m·|i − j|" if isinstance(getattr(attention, "biased", None), Alibi) else "+ b(j − i)"
    factor = attention.scaled.factor if isinstance(attention, MultiHeadAttention) else 1.0
    return [
        {"name": _("key"), "formula": "k"},
        {"name": _("score"), "formula": "q·k"},
        {"name": _("scaled"), "formula": f"× {significant(factor)}"},
        *([{"name": _("capped"), "formula": "c·tanh(·/c)"}] if "capped" in steps else []),
        *([{"name": _("biased"), "formula": bias}] if "biased" in steps else []),
        {"name": _("masked"), "formula": "−∞"},
        {"name": _("weight"), "formula": "softmax"},
        {"name": _("weighted value"), "formula": f"w·v, {channels} d"},
    ]
