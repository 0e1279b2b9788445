"""Experiments of the page of masks, computed on the current input: a changed future, a mask after softmax, what stands
for −∞.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from model.analysis.masking import Order, fills, future_change, orders, self_attention, without_causal_mask
from model.attention import Masked, Weights
from model.inspectable import Inspectable
from model.interventions import Causal, Intervention
from model.trace import AttentionKind, Trace
from viz.components.views import Mount, Panel, Series, chart, panels
from viz.i18n import _
from viz.masks.effects import BEFORE, NOW
from viz.masks.views import axes, cut_note, numbers, of_head, words
from viz.parts import stamp
from viz.sides import side_name
from viz.words import significant, token_code

if TYPE_CHECKING:
    from viz.workbench import Selection, Workbench

LEAK = "#d55e00"


def other_token(lens: Inspectable, ids: Sequence[int], place: int) -> int:
    """A token to put at `place`: another of the text where there is one, else the first that is not special."""
    tokenizer = lens.target_tokenizer
    plain = [token for token in (*ids, *range(len(tokenizer))) if token not in tokenizer.special]
    return next(token for token in plain if token != ids[place])


def pack_future(
    lens: Inspectable, bench: Workbench, place: int, key: str, on_place: Callable[[], None]
) -> tuple[Mount, str]:
    """Change a token and watch the outputs before it: with the causal mask, without it, and as the model is now."""
    assert bench.trace is not None
    assert bench.source is not None
    texts = [bench.source] if bench.target is None else [bench.source, bench.target]
    last = texts[-1]
    token = other_token(lens, last.ids, place)
    ids = [torch.tensor([each.ids], device=lens.device) for each in texts]
    kind = self_attention(lens.model)
    variants: list[tuple[str, Sequence[Intervention], str, bool]] = [
        (_("with the causal mask"), [Causal(kind, True)], NOW, False),
        (_("without it"), without_causal_mask(lens.model), LEAK, False),
    ]
    if bench.what_if.changes:
        variants.append((_("as changed above"), bench.what_if.changes, BEFORE, True))
    series, said = [], []
    for name, changes, colour, dash in variants:
        moved = future_change(lens.model, ids, place, token, changes).cpu().numpy()
        series.append(Series(name, np.arange(len(moved)), moved, colour, "line", dash))
        said.append(f"{name} {significant(float(moved[:place].max(initial=0)))}")
    words_now = {
        "before": token_code(last.labels[place]),
        "after": token_code(lens.target_tokenizer.label(token)),
        "place": place + 1,
    }
    told = _("Token {place} {before} becomes {after}. The largest change of a logit before it: {changes}.").format(
        changes=" · ".join(said), **words_now
    )
    header = {
        "x": {
            "title": side_name(bench.trace, "target"),
            "labels": last.labels,
            "side": "target" if bench.target else "source",
        },
        "y": {"title": _("largest |Δlogit|"), "low": 0},
        "chosen": place,
        "tall": 190,
        "name": _("A changed future"),
        "sentence": _("click a token to change another one"),
        "alt": told,
        "file": "masks-future",
        "stamp": stamp(bench.trace),
        "words": {"download": _("Download"), "csv": [_("series"), _("token"), _("largest |Δlogit|")]},
    }
    return chart(series, header, key, on_place), told


def order_sentence(trace: Trace, kind: AttentionKind, chosen: Selection) -> str:
    """What this experiment shows, or that the mask hides nothing to show it with."""
    scores, visible, value = head_tensors(trace, kind, chosen)
    if bool(visible.all()):
        return _("This mask hides nothing, so the orders agree: hide a cell above, or look at another attention.")
    _right, after, zeroed = orders(scores, visible, value)
    return _(
        "A mask belongs before softmax (section 3.2.3). On this head −∞ after it leaves {broken} of {all} numbers of "
        "the output infinite or NaN; zeros after it leave rows that add up to {low} at the least."
    ).format(
        broken=int((~after.output.isfinite()).sum()),
        all=after.output.numel(),
        low=significant(float(zeroed.sums.min())),
    )


def fill_sentence(trace: Trace, kind: AttentionKind, chosen: Selection) -> str:
    """What this experiment found, and what the model's own softmax does with a row that sees nothing."""
    scores, visible, _value = head_tensors(trace, kind, chosen)
    nothing = torch.zeros_like(visible)
    own = float(Weights()(Masked()(scores, nothing), nothing).abs().max())
    table = fills(scores.cpu(), visible.cpu())
    broken = table[table["empty_high"].isna()]
    return _(
        "This head's scores masked with −∞ and with numbers that stand for it, in three precisions. A row with nothing "
        "to look at becomes NaN in {broken} of {all} cases and looks at what is hidden in {hidden}; the model's own "
        "softmax gives it {weight}."
    ).format(broken=len(broken), all=len(table), hidden=len(table) - len(broken), weight=significant(own))


def order_name(name: str) -> str:
    return {
        "before": _("mask, then softmax"),
        "after": _("softmax, then −∞"),
        "zeroed": _("softmax, then 0"),
    }[name]


def head_tensors(trace: Trace, kind: AttentionKind, chosen: Selection) -> tuple[Tensor, Tensor, Tensor]:
    """What a head's mask is applied to: its scores, where it may look, its values."""
    path = trace.attention_paths(kind)[chosen.layer]
    scores = trace[f"{path}.{trace.maps_of(path)[-3]}"][chosen.head].float()
    return scores, of_head(trace.visible(path), chosen.head), trace.values(path)[chosen.head].float()


def pack_orders(trace: Trace, kind: AttentionKind, chosen: Selection, key: str) -> tuple[Mount, pd.DataFrame]:
    """The weights of this head by three orders of softmax and mask, and what becomes of sums and outputs."""
    scores, visible, value = head_tensors(trace, kind, chosen)
    found = orders(scores, visible, value)
    shown = []
    for order in found:
        described = {
            "name": order_name(order.name),
            "note": _("row sums {low} to {high}").format(low=_plain(order.sums.min()), high=_plain(order.sums.max())),
            "line": 0,
            "scale": {"low": 0.0, "high": 1.0},
            **axes(trace, kind),
        }
        seen = np.ones_like(numbers(visible)) if order.name == "after" else numbers(visible)
        shown.append(Panel(seen, described, numbers(order.weights)))
    name = _("Weights of this head, by the order of mask and softmax")
    header = {
        "name": name, "sentence": "", "note": cut_note(trace, kind), "file": f"masks-order-{kind}",
        "stamp": stamp(trace),
        "alt": f"{name}: " + ", ".join(f"{panel.described['name']}, {panel.described['note']}" for panel in shown),
        "words": words(), "cell": 22,
    }  # fmt: skip
    return panels(shown, header, key), pd.DataFrame(
        {"": list(_order_column(found[0], found[0]))}
        | {order_name(order.name): list(_order_column(order, found[0]).values()) for order in found}
    )


def _order_column(order: Order, right: Order) -> dict[str, str]:
    """What became of an order's sums and output, beside those of the right one."""
    output = order.output
    return {
        _("smallest row sum"): _plain(order.sums.min()),
        _("largest row sum"): _plain(order.sums.max()),
        _("∞ in the output"): str(int(output.isinf().sum())),
        _("NaN in the output"): str(int(output.isnan().sum())),
        _("largest |Δoutput|"): _plain((output - right.output).abs().max()),
    }


def _plain(number: Tensor) -> str:
    value = float(number)
    return significant(value).replace("inf", "∞").replace("nan", "NaN")


def fill_table(trace: Trace, kind: AttentionKind, chosen: Selection) -> pd.DataFrame:
    """What stands for −∞, on this head's scores."""
    scores, visible, _value = head_tensors(trace, kind, chosen)
    names = {"-inf": "−∞", "-1e9": "−1e9", "min": _("lowest number")}
    table = fills(scores.cpu(), visible.cpu())
    return pd.DataFrame(
        {
            _("type"): table["dtype"],
            _("instead of −∞"): table["fill"].map(names),
            _("stored as"): [_plain(value) for value in table["stored"]],
            "masked_fill": [_("accepted") if each else _("refused: overflow") for each in table["accepted"]],
            _("largest hidden weight"): [significant(value) for value in table["hidden"]],
            _("largest |row sum − 1|"): [significant(value) for value in table["rows"]],
            _("a row with nothing to look at"): [
                _empty(*row) for row in zip(table["empty_low"], table["empty_high"], strict=True)
            ],
        }
    )


def _empty(low: float, high: float) -> str:
    return "NaN" if high != high else _("looks at all hidden keys: {weight} each").format(weight=significant(high))
