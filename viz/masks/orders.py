"""The page of masks: one head by three orders of mask and softmax, beside the pinned head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.masking import Order, orders
from model.capture.trace import AttentionKind, Trace
from viz.components.plots import Mount, Panel, panels
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.masks.pinned import head_tensors, pinned_tensors
from viz.masks.views import axes, cut_note, largest, numbers, words
from viz.ui.parts import stamp

if TYPE_CHECKING:
    from model.analysis.comparison import Comparison
    from viz.state.workbench import Selection


def order_sentence(found: list[Order], visible: Tensor) -> str:
    """What this experiment shows, or that the mask hides nothing to show it with."""
    if bool(visible.all()):
        return _("This mask hides nothing, so the orders agree: hide a cell above, or look at another attention.")
    _right, after, zeroed = found
    return _(
        "A mask belongs before softmax (section 3.2.3). On this head −∞ after it leaves {broken} of {all} numbers of "
        "the output infinite or NaN; zeros after it leave rows that add up to {low} at the least."
    ).format(
        broken=int((~after.output.isfinite()).sum()),
        all=after.output.numel(),
        low=significant(float(zeroed.sums.min())),
    )


def order_name(name: str) -> str:
    return {
        "before": _("mask, then softmax"),
        "after": _("softmax, then −∞"),
        "zeroed": _("softmax, then 0"),
    }[name]


def pack_orders(
    trace: Trace, kind: AttentionKind, chosen: Selection, key: str, comparison: Comparison | None, differing: bool
) -> tuple[Mount, str, pd.DataFrame]:
    """The weights of this head by three orders of softmax and mask, what they show, and what becomes of sums and
    outputs; with a pin the pinned head's below, or the differences from it.
    """
    scores, seen_here, value = head_tensors(trace, kind, chosen)
    found = orders(scores, seen_here, value)
    pinned, lacking = pinned_tensors(comparison, kind, chosen)
    before = orders(*pinned) if pinned else []
    visible = numbers(seen_here)
    shown = []
    for index, order in enumerate(found):
        seen = np.ones_like(visible) if order.name == "after" else visible
        own = _order_panel(order, trace, kind, numbers(order.weights), seen)
        if comparison is None or pinned is None:
            shown.append(own)
            continue
        known = before[index].weights, pinned[1].float()
        other, there = (_moved(comparison, trace, kind, chosen, each) for each in known)
        if differing:
            same = order.weights == other  # −∞ both times
            against = numbers((order.weights - other).masked_fill(same, 0.0))
            shown.append(_order_panel(order, trace, kind, against, seen, difference=True))
        else:
            seen = np.ones_like(visible) if order.name == "after" else numbers(there != 0)
            shown += [own, _order_panel(before[index], trace, kind, numbers(other), seen, pinned=True)]
    shown.sort(key=lambda panel: panel.described["line"])
    name = _("Weights of this head, by the order of mask and softmax")
    header = {
        "name": name, "sentence": "", "note": cut_note(trace, kind), "file": f"masks-order-{kind}",
        "stamp": stamp(trace),
        "alt": f"{name}: " + ", ".join(f"{panel.described['name']}, {panel.described['note']}" for panel in shown),
        "words": words(), "cell": 22,
    }  # fmt: skip
    said = f"{order_sentence(found, seen_here)} {lacking}".strip()
    return panels(shown, header, key), said, _order_table(found, before)


def _moved(comparison: Comparison, trace: Trace, kind: AttentionKind, chosen: Selection, pinned: Tensor) -> Tensor:
    """A pinned matrix at this trace's tokens."""
    path = trace.attention_paths(kind)[chosen.layer]
    return comparison.moved(f"{path}.weights", pinned).to(trace[f"{path}.weights"].device)


def _order_panel(
    order: Order,
    trace: Trace,
    kind: AttentionKind,
    values: NDArray[Any],
    seen: NDArray[Any],
    *,
    difference: bool = False,
    pinned: bool = False,
) -> Panel:
    name = order_name(order.name)
    top = largest(values) if difference else 1.0
    described = {
        "name": f"Δ {name}" if difference else _("{name}, pinned").format(name=name) if pinned else name,
        "note": _("row sums {low} to {high}").format(low=plain(order.sums.min()), high=plain(order.sums.max())),
        "line": int(pinned),
        "pinned": pinned,
        "scale": {"low": -top if difference else 0.0, "high": top, "difference": difference},
        **axes(trace, kind),
    }
    return Panel(seen, described, values)


def _order_table(found: list[Order], before: list[Order]) -> pd.DataFrame:
    """A row for each number of an order, and below it the pinned one."""
    own, other = ([_order_column(each, those[0]) for each in those] for those in (found, before))
    rows = []
    for name in own[0]:
        rows.append([name, *(column[name] for column in own)])
        if other:
            rows.append([_("{name}, pinned").format(name=name), *(column[name] for column in other)])
    return pd.DataFrame(rows, columns=["", *(order_name(order.name) for order in found)])


def _order_column(order: Order, right: Order) -> dict[str, str]:
    """What became of an order's sums and output, beside those of the right one."""
    output = order.output
    return {
        _("smallest row sum"): plain(order.sums.min()),
        _("largest row sum"): plain(order.sums.max()),
        _("∞ in the output"): str(int(output.isinf().sum())),
        _("NaN in the output"): str(int(output.isnan().sum())),
        _("largest |Δoutput|"): plain((output - right.output).abs().max()),
    }


def plain(number: Tensor) -> str:
    value = float(number)
    return significant(value).replace("inf", "∞").replace("nan", "NaN")
