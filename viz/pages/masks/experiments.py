"""Experiments of the page of masks, computed on the current input: a changed future, a mask after softmax, what stands
for −∞.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.masking import Order, fills, future_change, orders, self_attention, without_causal_mask
from model.capture.interventions import Causal, Intervention
from model.capture.trace import AttentionKind, Trace
from model.message import Message
from model.network.attention import Masked, Weights
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Chart, Series
from viz.figures.colours import ATTENTION, SECOND
from viz.figures.panels import Panel, Panels
from viz.i18n.catalogue import _
from viz.i18n.format import significant, token_code
from viz.i18n.messages import joined, sentences
from viz.pages.masks.effects import BEFORE, NOW, predicted_axis
from viz.pages.masks.figures import WORDS, axes, cut_note, largest, numbers
from viz.pages.masks.pinned import head_tensors, other_token, pinned_future, pinned_tensors
from viz.pages.masks.text import about_future, about_order
from viz.ui.parts import frame_of
from viz.ui.plots import caption, word

if TYPE_CHECKING:
    import pandas as pd

    from model.analysis.comparison import Comparison
    from viz.state.inputs import Inputs, Selection


def future_chart(inputs: Inputs, current_changes: Sequence[Intervention], place: int) -> tuple[Chart, str]:
    """Change of the outputs before a token that is changed: with the causal mask, without it, and with the changes that
    `current_changes` of the model; and in words.
    """
    model, texts = inputs.model, [inputs.source] if inputs.target is None else [inputs.source, inputs.target]
    last = texts[-1]
    token = other_token(model, last.ids, place)
    ids = [torch.tensor([each.ids], device=model.device) for each in texts]
    kind = self_attention(model.network)
    variants: list[tuple[str, Sequence[Intervention], str, bool]] = [
        (Message("with the causal mask"), [Causal(kind, True)], NOW, False),
        (Message("without it"), without_causal_mask(model.network), SECOND, False),
    ]
    if current_changes:
        variants.append((Message("as changed above"), current_changes, BEFORE, True))
    series, changes, largest_moves = [], [], []
    for name, interventions, colour, dash in variants:
        moved = future_change(model.network, ids, place, token, interventions).cpu().numpy()
        series.append(Series(name, np.arange(len(moved)), moved, colour, "line", dash))
        largest_moves.append(float(moved[:place].max(initial=0)))
        changes.append(joined(" ", name, significant(largest_moves[-1])))
    before, compared = pinned_future(inputs, place, token)
    series += before
    sentence = Message(
        "Suppose token {place} were {after} and not {before}. The largest change of a logit before it: {changes}.",
        place=place + 1,
        before=token_code(last.labels[place]),
        after=token_code(model.target_tokenizer.label(token)),
        changes=joined(" · ", *changes),
    )
    alt = sentences(sentence, compared)
    name, hint = Message("A changed future"), Message("press a token to change that one")
    finding = Message(
        "Before {token} logits move by {masked}; without the mask by {open}",
        token=word(last.labels[place]),
        masked=significant(largest_moves[0]),
        open=significant(largest_moves[1]),
    )
    above = caption(inputs, name, "masks-future", sentence=hint, alt=alt, about=about_future(), finding=finding)
    x_axis, y_axis = predicted_axis(inputs.trace), Axis(Message("largest |Δlogit|"), low=0)
    return Chart(above, series, x_axis, y_axis, chosen=place, tall=190), alt


def opened_keys(trace: Trace, kind: AttentionKind) -> list[int]:
    """Tokens that some query before them may look at, in any layer and head."""
    keys: set[int] = set()
    for path in trace.attention_paths(kind):
        later = trace.visible(path).any(dim=0).triu(1)
        keys.update(later.any(dim=0).nonzero().flatten().tolist())
    return sorted(keys)


def untested_sentence(opened: list[int], place: int) -> str:
    """Sentence: no opened cell lets an earlier token see the changed one; "" where one does, or none is opened."""
    if not opened or place in opened:
        return ""
    tokens = ", ".join(str(each + 1) for each in opened[:8]) + (" …" if len(opened) > 8 else "")
    return Message(
        "No opened cell looks at token {place}, so it shows no leak: those that cells look at are {tokens}.",
        place=place + 1,
        tokens=tokens,
    )


def fill_experiment(
    trace: Trace, kind: AttentionKind, chosen: Selection, comparison: Comparison | None = None
) -> tuple[str, pd.DataFrame]:
    """Replacements of −∞, on this head's scores, and on the pinned head's: in words, and in numbers."""
    scores, visible, _value = head_tensors(trace, kind, chosen)
    pinned, lacking = pinned_tensors(comparison, kind, chosen)
    table = fills(scores.cpu(), visible.cpu())
    before = fills(pinned[0].cpu(), pinned[1].cpu()) if pinned else None
    return f"{fill_sentence(table, scores)} {lacking}".strip(), fill_table(table, before)


def fill_sentence(table: pd.DataFrame, scores: Tensor) -> str:
    """Result of this experiment, and what the model's own softmax does with a row that sees nothing."""
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
    names = {"-inf": "−∞", "-1e9": "−1e9", "min": Message("lowest number")}
    columns = {
        Message("type"): [*table["dtype"]],
        Message("instead of −∞"): [names[each] for each in table["fill"]],
        Message("stored as"): [plain(value) for value in table["stored"]],
        "masked_fill": [Message("accepted") if each else Message("refused: overflow") for each in table["accepted"]],
    }
    own = _fill_columns(table)
    last = Message("a row with nothing to look at")
    own[last] = [
        each if each == "NaN" else Message("looks at all hidden keys: {weight} each", weight=each) for each in own[last]
    ]
    if pinned is not None:  # in the same columns: others beside them would make the table wider than the page
        others = _fill_columns(pinned)
        own = {
            name: [
                Message("{value} (pinned: {pinned})", value=each, pinned=other)
                for each, other in zip(column, others[name], strict=True)
            ]
            for name, column in own.items()
        }
    return frame_of(columns | own)


def _fill_columns(table: pd.DataFrame) -> dict[str, list[str]]:
    """Measurements on scores."""
    return {
        Message("largest hidden weight"): [significant(value) for value in table["hidden"]],
        Message("largest |row sum − 1|"): [significant(value) for value in table["rows"]],
        Message("a row with nothing to look at"): [
            "NaN" if value != value else significant(value) for value in table["empty_high"]
        ],
    }


# The page of masks: one head by three orders of mask and softmax, beside the pinned head.


def order_sentence(results: list[Order], visible: Tensor) -> str:
    """Result of this experiment, or that the mask hides nothing to show it with."""
    if bool(visible.all()):
        return Message("This mask hides nothing, so the orders agree: hide a cell above, or look at another attention.")
    _right, after, zeroed = results
    return Message(
        "A mask belongs before softmax (section 3.2.3). On this head −∞ after it leaves {broken} of {all} numbers of "
        "the output infinite or NaN; zeros after it leave rows that add up to {low} at the least.",
        broken=int((~after.output.isfinite()).sum()),
        all=after.output.numel(),
        low=significant(float(zeroed.sums.min())),
    )


def order_name(name: str) -> str:
    return {
        "before": Message("mask, then softmax"),
        "after": Message("softmax, then −∞"),
        "zeroed": Message("softmax, then 0"),
    }[name]


def order_panels(
    inputs: Inputs, kind: AttentionKind, chosen: Selection, difference: bool
) -> tuple[Panels, str, pd.DataFrame]:
    """The weights of this head by three orders of softmax and mask, what they show, and what becomes of sums and
    outputs; with a pin the pinned head's below, or the differences from it.
    """
    trace, comparison = inputs.trace, inputs.comparison
    scores, seen_here, value = head_tensors(trace, kind, chosen)
    results = orders(scores, seen_here, value)
    pinned, lacking = pinned_tensors(comparison, kind, chosen)
    before = orders(*pinned) if pinned else []
    visible = numbers(seen_here)
    panels = []
    for index, order in enumerate(results):
        seen = np.ones_like(visible) if order.name == "after" else visible
        own = _order_panel(order, trace, kind, numbers(order.weights), seen)
        if comparison is None or pinned is None:
            panels.append(own)
            continue
        known = before[index].weights, pinned[1].float()
        other, there = (_moved(comparison, trace, kind, chosen, each) for each in known)
        if difference:
            same = order.weights == other  # −∞ both times
            against = numbers((order.weights - other).masked_fill(same, 0.0))
            panels.append(_order_panel(order, trace, kind, against, seen, difference=True))
        else:
            seen = np.ones_like(visible) if order.name == "after" else numbers(there != 0)
            panels += [own, _order_panel(before[index], trace, kind, numbers(other), seen, pinned=True)]
    panels.sort(key=lambda panel: panel.line)
    name = Message("Weights of this head, by the order of mask and softmax")
    output = results[1].output
    broken = int((~output.isfinite()).sum())
    finding = Message("−∞ after softmax breaks {broken} of {all} outputs", broken=broken, all=output.numel())
    note, title = cut_note(trace, kind), finding if broken else ""
    above = caption(inputs, name, f"masks-order-{kind}", note, about=about_order(), finding=title)
    sentence = joined(" ", order_sentence(results, seen_here), lacking)
    return Panels(above, panels, cell=22, words=WORDS), sentence, _order_table(results, before)


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
    title = joined(" ", "Δ", name) if difference else Message("{name}, pinned", name=name) if pinned else name
    note = Message("row sums {low} to {high}", low=plain(order.sums.min()), high=plain(order.sums.max()))
    top = largest(values)
    scale = Scale(-top, top, difference=True) if difference else Scale(0.0, 1.0, colour=ATTENTION)
    line = int(pinned)
    return Panel(title, *axes(trace, kind), seen, values, note=note, scale=scale, pinned=pinned, line=line, summed=True)


def _order_table(own: list[Order], before: list[Order]) -> pd.DataFrame:
    """A row for each number of an order, and below it the pinned one."""
    columns = [[_order_column(each, those[0]) for each in those] for those in (own, before) if those]
    names = list(columns[0][0])
    titles = [title for name in names for title in (name, Message("{name}, pinned", name=name))[: len(columns)]]
    of_orders = {
        order_name(order.name): [those[place][name] for name in names for those in columns]
        for place, order in enumerate(own)
    }
    return frame_of({"": titles} | of_orders)


def _order_column(order: Order, right: Order) -> dict[str, str]:
    """Sums and output of an order, beside those of the right one."""
    output = order.output
    return {
        Message("smallest row sum"): plain(order.sums.min()),
        Message("largest row sum"): plain(order.sums.max()),
        Message("∞ in the output"): str(int(output.isinf().sum())),
        Message("NaN in the output"): str(int(output.isnan().sum())),
        Message("largest change of the output"): plain((output - right.output).abs().max()),
    }


def plain(number: Tensor) -> str:
    value = float(number)
    return significant(value).replace("inf", "∞").replace("nan", "NaN")
