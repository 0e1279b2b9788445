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

from model.analysis.masking import fills, future_change, self_attention, without_causal_mask
from model.capture.interventions import Causal, Intervention
from model.capture.trace import AttentionKind, Trace
from model.inference.model import Inspectable
from model.network.attention import Masked, Weights
from viz.components.plots import Mount, Series, chart
from viz.i18n.catalogue import _
from viz.i18n.format import side_name, significant, token_code
from viz.masks.effects import BEFORE, NOW
from viz.masks.orders import plain
from viz.masks.pinned import head_tensors, other_token, pinned_future, pinned_tensors
from viz.ui.parts import stamp

if TYPE_CHECKING:
    from model.analysis.comparison import Comparison
    from viz.state.workbench import Selection, Workbench

LEAK = "#d55e00"


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
    before, compared = pinned_future(bench, place, token)
    series += before
    words_now = {
        "before": token_code(last.labels[place]),
        "after": token_code(lens.target_tokenizer.label(token)),
        "place": place + 1,
    }
    told = _("Token {place} {before} becomes {after}. The largest change of a logit before it: {changes}.").format(
        changes=" · ".join(said), **words_now
    )
    told = " ".join(filter(None, [told, compared]))
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


def fill_experiment(
    trace: Trace, kind: AttentionKind, chosen: Selection, comparison: Comparison | None = None
) -> tuple[str, pd.DataFrame]:
    """What stands for −∞, on this head's scores, and on the pinned head's: in words, and in numbers."""
    scores, visible, _value = head_tensors(trace, kind, chosen)
    pinned, lacking = pinned_tensors(comparison, kind, chosen)
    table = fills(scores.cpu(), visible.cpu())
    before = fills(pinned[0].cpu(), pinned[1].cpu()) if pinned else None
    return f"{fill_sentence(table, scores)} {lacking}".strip(), fill_table(table, before)


def fill_sentence(table: pd.DataFrame, scores: Tensor) -> str:
    """What this experiment found, and what the model's own softmax does with a row that sees nothing."""
    nothing = torch.zeros_like(scores, dtype=torch.bool)
    own = float(Weights()(Masked()(scores, nothing), nothing).abs().max())
    broken = table[table["empty_high"].isna()]
    return _(
        "This head's scores masked with −∞ and with numbers that stand for it, in three precisions. A row with nothing "
        "to look at becomes NaN in {broken} of {all} cases and looks at what is hidden in {hidden}; the model's own "
        "softmax gives it {weight}."
    ).format(broken=len(broken), all=len(table), hidden=len(table) - len(broken), weight=significant(own))


def fill_table(table: pd.DataFrame, pinned: pd.DataFrame | None) -> pd.DataFrame:
    """A row for each number that stands for −∞ in each precision."""
    names = {"-inf": "−∞", "-1e9": "−1e9", "min": _("lowest number")}
    columns = {
        _("type"): table["dtype"],
        _("instead of −∞"): table["fill"].map(names),
        _("stored as"): [plain(value) for value in table["stored"]],
        "masked_fill": [_("accepted") if each else _("refused: overflow") for each in table["accepted"]],
    }
    own = _fill_columns(table)
    last, hidden = _("a row with nothing to look at"), _("looks at all hidden keys: {weight} each")
    own[last] = [each if each == "NaN" else hidden.format(weight=each) for each in own[last]]
    if pinned is not None:  # in the same columns: others beside them would make the table wider than the page
        both = _("{value} (pinned: {pinned})")
        others = _fill_columns(pinned)
        own = {
            name: [both.format(value=each, pinned=other) for each, other in zip(column, others[name], strict=True)]
            for name, column in own.items()
        }
    return pd.DataFrame(columns | own)


def _fill_columns(table: pd.DataFrame) -> dict[str, list[str]]:
    """What was measured on scores."""
    return {
        _("largest hidden weight"): [significant(value) for value in table["hidden"]],
        _("largest |row sum − 1|"): [significant(value) for value in table["rows"]],
        _("a row with nothing to look at"): [
            "NaN" if value != value else significant(value) for value in table["empty_high"]
        ],
    }
