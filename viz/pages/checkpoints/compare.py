"""Compare checkpoints: what moved between two, and over the steps of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis.weights import movement
from model.analysis.weights.heads import CROSS, head_tensors, moved_heads, projection_of
from model.checkpoints.catalog import catalog_entry
from model.checkpoints.load_hints import LoadHints
from model.message import Message
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Chart, Series
from viz.figures.colours import KEY, OUTPUT, QUERY, SERIES, VALUE
from viz.figures.figure import About, Caption
from viz.figures.panels import Panels
from viz.i18n.catalogue import _, ngettext
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, attention_name, literal, shape_text, significant, with_label
from viz.pages.checkpoints import heads as weights_heads
from viz.pages.checkpoints import runs, tensor
from viz.pages.checkpoints.heads import KIND, NAMES, open_head
from viz.pages.checkpoints.measuring import TensorTable, WeightChanges, moving
from viz.pages.checkpoints.subjects import (
    Subject,
    aligned,
    choose_pair,
    chosen_place,
    closed_words,
    follow_sidebar,
    merged,
    model_of,
    name_of_base,
    nearest,
    subjects,
)
from viz.pages.checkpoints.tensor import beside
from viz.pages.checkpoints.tensors import Column, tree
from viz.render.view import view as figure_view
from viz.state import assumptions, texts
from viz.state.opened_page import open_page
from viz.state.pin import Pin
from viz.state.session import Key, Session, choose, current_session
from viz.ui.job_view import follow
from viz.ui.parts import data_table, explanation

if TYPE_CHECKING:
    from model.analysis.weights.heads import Layers
    from model.capture.trace import AttentionKind

BEFORE, AFTER, VIEW = "compare_a", "compare_b", "compare_view"
PAIRS = 6  # that are proposed
TREE, LAYERS = "moved_tree", "moved_layers"
VIEWS = {
    "tensors": Message("Tensors"),
    "layers": Message("Layers"),
    "heads": Message("Heads"),
    "steps": Message("Over steps"),
}


def show(session: Session) -> None:
    """Draw this part of the page."""
    row = st.container(key="choices_compare", horizontal=True, vertical_alignment="center")
    view = choose(_("View"), list(VIEWS), "tensors", VIEW, VIEWS.__getitem__, row)
    if view == "steps":
        runs.show(session, row)
        return
    now = follow_sidebar(AFTER)
    by_name = {subject.name: subject for subject in subjects()}
    first = next((name for name in (st.session_state.get(AFTER), st.query_params.get(AFTER)) if name in by_name), now)
    other = None
    if st.session_state.get(BEFORE) not in by_name:
        base = name_of_base(by_name[str(first)], list(by_name.values())) if first in by_name else None
        other = base or nearest(str(first), list(by_name.values()))
    before, after = choose_pair(row, (BEFORE, AFTER), (other, now))
    if before is None and after is not None:
        st.info(
            _("No other checkpoint here has the tensors of {name}: choose two that are to be compared.")
            .format(name=literal(after.name))
        )  # fmt: skip
        propose_pairs(list(by_name.values()))
    if before is None or after is None:
        return
    before, after = aligned(before, after)
    try:
        before, after = merged(before), merged(after)  # an adapter is compared as the model that it makes of its base
        measured = moving(before, after)
    except (ValueError, OSError) as error:
        st.error(as_sentence(translate_error(error)))
        return
    trace_button(row, before, after)
    if (before.beside or after.beside) and measured.table:
        file, folder = (before, after) if before.beside else (after, before)
        st.caption(
            _(
                "The tensors of {name} have the names, shapes and order of rows here that those of {other} have. "
                "Where it was made from {other}, ‖B−A‖/‖A‖ is the error of its quantization."
            ).format(name=literal(file.name), other=literal(folder.name))
        )
    if view != "tensors":
        st.caption(literal(differences(before, after, measured)))
    if view == "heads":
        show_moved_heads(session, before, after, measured, explain)
    elif not measured.table:
        st.info(
            _("No tensor of {before} has a name and a shape of {after}.").format(
                before=literal(before.name), after=literal(after.name)
            )
        )
    elif view == "tensors":
        tensors(before, after, measured)
    else:
        layers(before, after, measured)


def propose_pairs(here: Sequence[Subject]) -> None:
    """Buttons of pairs that have tensors in common, those that have most of them first."""
    tables = {}
    for subject in here:
        with suppress(ValueError, OSError):
            tables[subject.name] = {(info.name, info.shape) for info in subject.table()}
    pairs = [(len(tables[one] & tables[two]), one, two) for one, two in combinations(tables, 2)]
    offered = sorted((each for each in pairs if each[0]), key=lambda each: -each[0])[:PAIRS]
    if not offered:
        return
    place = st.container(key="compare_pairs", gap="small")
    place.caption(_("Pairs that have tensors of one name and shape"))
    for number, (common, one, two) in enumerate(offered):
        row = place.container(horizontal=True, vertical_alignment="center")
        chosen = partial(st.session_state.update, {BEFORE: one, AFTER: two})
        row.button(literal(f"{one} → {two}"), key=f"pair_{number}", on_click=chosen)
        row.caption(
            _("{common} of {all} tensors in both").format(common=common, all=len(tables[one] | tables[two])),
            width="content",
        )


def unlike(before: Subject, after: Subject) -> list[tuple[str, str, str]]:
    """Tensors that exist only in one, or have another shape: name, shape in each, "" where it is not."""
    old, new = ({info.name: shape_text(info.shape) for info in subject.table()} for subject in (before, after))
    rows = [(name, old[name], "") for name in old if name not in new]
    rows += [(name, "", new[name]) for name in new if name not in old]
    return rows + [(name, old[name], new[name]) for name in new if name in old and old[name] != new[name]]


def differences(before: Subject, after: Subject, changes: WeightChanges) -> str:
    """Sentence on the tensors that both have, and those that only one has."""
    common = len(changes.table)
    parts = [ngettext("{count} tensor in both", "{count} tensors in both", common).format(count=common)]
    rows = unlike(before, after)
    only_before, only_after = sum(not new for _name, _old, new in rows), sum(not old for _name, old, _new in rows)
    for subject, count in ((before, only_before), (after, only_after)):
        if count:
            parts.append(_("{count} only in {name}").format(count=count, name=subject.name))
    if reshaped := len(rows) - only_before - only_after:
        parts.append(_("{count} of another shape").format(count=reshaped))
    return " · ".join(parts)


def tensors(before: Subject, after: Subject, changes: WeightChanges) -> None:
    """The ranking, the most moved first, and the chosen tensor of both."""
    file, sentence = f"{before.name} → {after.name}", differences(before, after, changes)
    chosen = place_of(changes)
    follow([changes], tree(changes, file, partial(moved_columns, changes), TREE, chosen, RELATIVE, sentence))
    info = changes.table[chosen]
    change = changes.of(info)
    tensor.show_pair(before, after, info, equal=change is not None and change.largest == 0)
    beside(explain, partial(moved_data, before, after, changes))
    left_over(before, after)


def moved_data(before: Subject, after: Subject, changes: WeightChanges) -> None:
    data_table("moved_data", partial(moved_table, changes), f"moved-{before.name}-{after.name}")


def place_of(weight_changes: WeightChanges) -> int:
    """The number of the tensor that is looked at, at first the most moved."""
    changes = np.nan_to_num(weight_changes.column("relative"), posinf=0.0)
    return chosen_place(weight_changes.table, changes.__getitem__)


def left_over(before: Subject, after: Subject) -> None:
    """Table of the tensors that exist only in one, or have another shape."""
    if rows := unlike(before, after):
        columns = [_("tensor"), before.name, f"{after.name} " * (before.name == after.name) or after.name]
        title = _("Only in one, or of another shape")
        data_table("left_over", lambda: pd.DataFrame(rows, columns=columns), f"only-{before.name}-{after.name}", title)


def layers(before: Subject, after: Subject, changes: WeightChanges) -> None:
    """A line for each kind of matrix over the layers."""
    stacks = stacks_of(layered([info.name for info in changes.table]))
    if not stacks:
        st.info(_("No name has the number of a layer in it, such as layers.0."))
        return
    place = st.container()
    stack = choose(_("Stack"), stacks, stacks[0], "compare_stack", str, place) if len(stacks) > 1 else stacks[0]
    follow([changes], lambda: figure_view(LAYERS, layer_chart(changes, stack, f"{before.name}-{after.name}")))
    beside(explain, partial(moved_data, before, after, changes))


def trace_button(place: DeltaGenerator, before: Subject, after: Subject, label: str | None = None) -> None:
    """Pins A's trace and shows B's."""
    closed = closed_words((before, after))
    place.button(
        label or _("Their traces on the same sentence"),
        on_click=pin_and_show,
        args=(before, after),
        disabled=bool(closed),
        help=_("One of them does not open as a model.") + f" {literal(closed)}" if closed else None,
        key="compare_traces",
    )


def pin_and_show(before: Subject, after: Subject) -> None:
    """A's trace on the texts of the input bar becomes the pin; B becomes the model that is shown, with differences.

    Where the text is only the example of the shown model, both get B's.
    """
    session, model, new_model = current_session(), model_of(before), model_of(after)
    assert model is not None
    assert new_model is not None
    now = session.model if session.traced_input else new_model
    source, target = texts.texts(now)
    if source == texts.first_source(now):
        source = texts.first_source(new_model)
        texts.write_source(source)
    other = Session()
    trace = other.trace_input(model, source, target)
    session.pin = Pin(before.name, source, trace, model, (other.source, other.target), other.ended)
    session.differ(True)
    st.session_state[Key.MODEL] = after.name
    if model.predicts and new_model.predicts:  # on the answer by depth
        open_page("predictions", {"view": "layers"})
    else:
        open_page("attention")


def explain() -> None:
    explanation(
        "moved_explanation",
        _(
            "Two files with the same tensors are laid side by side. For each tensor you see how far it moved, and "
            "whether it still points the same way."
        ),
        [
            r"\frac{\|B - A\|_F}{\|A\|_F}, \qquad "
            r"\cos(A, B) = \frac{\sum_{ij} a_{ij} b_{ij}}{\|A\|_F\,\|B\|_F}"
        ],
        _(
            "Tensors of the same name and shape in both files. The relative change says how far a tensor moved, "
            "measured by its own length; the cosine whether it still points the same way: 1 is the same direction. "
            "This is the code that has just run:"
        ),
        movement.moved,
        movement.moved_per_head,
    )


# Two checkpoints beside each other: which tensors moved, in which layers, of which heads.

LAYERED = re.compile(r"^(.*?)\.(\d+)\.(.*)$", re.S)
# The four projections have their colours everywhere; other kinds share what is left over.
COLOURS = (QUERY, KEY, VALUE, OUTPUT)
NAMED = 14  # lines in the legend; of more, the pointer says them
RELATION = "‖B−A‖/‖A‖"
RELATIVE = 4  # the number of the column by which the tree is sorted: after name, shape, type and bytes


def moved_columns(changes: WeightChanges) -> list[Column]:
    """Columns of how far the tensors that both have moved."""
    return [
        Column(RELATION, changes.column("relative")),
        Column(_("cosine"), changes.column("cosine")),
        Column(_("largest"), changes.column("largest")),
        Column(_("at"), places(changes), "text"),
    ]


def places(changes: WeightChanges) -> list[str]:
    """Place of the largest change in each tensor."""
    return ["" if each is None else ", ".join(map(str, each.place)) for each in changes.every()]


def moved_table(changes: WeightChanges) -> pd.DataFrame:
    rows = {
        _("tensor"): [info.name for info in changes.table],
        _("shape"): [shape_text(info.shape) for info in changes.table],
        _("type"): [changes.type_of(info) for info in changes.table],
        RELATION: changes.column("relative"),
        _("cosine"): changes.column("cosine"),
        _("largest change"): changes.column("largest"),
        _("at"): places(changes),
    }
    return pd.DataFrame(rows).sort_values(RELATION, ascending=False, ignore_index=True)


def layered(names: Sequence[str]) -> dict[str, dict[int, str]]:
    """Names of each kind of tensor, "decoder.layers.*.…", by layer."""
    kinds: dict[str, dict[int, str]] = {}
    for name in names:
        if match := LAYERED.match(name):
            before, layer, after = match.groups()
            if len(layer) < 6:
                kinds.setdefault(f"{before}.*.{after}", {})[int(layer)] = name
    return kinds


def stacks_of(kinds: Mapping[str, Any]) -> list[str]:
    """Prefixes before the layer's number: a stack each."""
    return list(dict.fromkeys(kind.split(".*.")[0] for kind in kinds))


def layer_chart(table: TensorTable, stack: str, file: str, relation: str = RELATION) -> Chart:
    """Distance that the matrices of each layer moved, or an adapter changes them: a line for each kind."""
    infos = {info.name: info for info in table.table if len(info.shape) > 1}
    kinds = {kind: names for kind, names in layered(list(infos)).items() if kind.startswith(f"{stack}.*.")}
    count = 1 + max((max(names) for names in kinds.values()), default=0)
    series, most = [], (0.0, "")
    others = iter(SERIES * (1 + len(kinds) // len(SERIES)))
    for number, (kind, names) in enumerate(kinds.items()):
        changes = np.full(count, np.nan)
        for layer, name in names.items():
            if known := table.of(infos[name]):
                changes[layer] = known.relative if np.isfinite(known.relative) else np.nan
                most = max(most, (changes[layer], name))
        short = kind.removeprefix(f"{stack}.*.").removesuffix(".weight")
        part = projection_of(next(iter(names.values())))
        colour = next(others) if part is None else COLOURS[part]
        dash = CROSS.search(short) is not None
        series.append(Series(short, np.arange(count), changes, colour, dash=dash, quiet=number >= NAMED))
    sentence = Message("{stack}: {relation} of every matrix of a layer", stack=stack, relation=relation)
    alt = Message(
        "{sentence}; most moved: {name}, {change}.", sentence=sentence, name=most[1][:120], change=significant(most[0])
    )
    meaning = Message("How far each matrix has moved, measured by its own length, layer by layer.")
    formula = r"\frac{\lVert \Delta W \rVert_F}{\lVert W \rVert_F}, \qquad \Delta W = B - A"
    heading = Caption(
        Message("Change by layer"),
        f"moved-layers-{file}",
        f"{file} {stack}",
        sentence=sentence,
        alt=alt,
        about=About(
            meaning,
            [formula],
            [movement.moved],
            meaning=Message("Where a line is low, the second checkpoint has nearly the first one's weights."),
        ),
    )
    x = Axis(Message("layer"), [str(layer + 1) for layer in range(count)], "")
    return Chart(heading, series, x, Axis(Message("relative change"), zero=True), tall=240, of=Message("kind"))


def moved_head_panels(changes: np.ndarray, file: str, chosen: tuple[int, int]) -> Panels:
    """All projections on one scale."""
    finite = changes[np.isfinite(changes)]
    scale = Scale(0, float(finite.max(initial=0.0)) or 1.0, RELATION)
    notes = [f"{significant(float(np.nanmin(each)))} – {significant(float(np.nanmax(each)))}" for each in changes]
    sentence = Message("‖B−A‖/‖A‖ of each head's part, one scale for all; press one to open the head")
    meaning = Message("Each cell is a head: how far its part of this projection has moved from A to B.")
    about = About(
        meaning,
        [r"\frac{\|B_h - A_h\|_F}{\|A_h\|_F}"],
        [moved_heads],
        meaning=Message("A strong cell is a head that was changed much, a faint one is nearly as it was."),
    )
    heading = Caption(Message("Change by head"), f"moved-heads-{file}", file, sentence=sentence, about=about)
    values = np.where(np.isfinite(changes), changes, np.nan)
    return weights_heads.head_panels(heading, values, [scale] * 4, chosen, notes=notes, cell=40)


def head_table(changes: np.ndarray, cosines: np.ndarray) -> pd.DataFrame:
    """A line for each head: how far each of its four parts moved, and whether it still points the same way."""
    columns = {with_label(name, RELATION): each for name, each in zip(NAMES, changes, strict=True)}
    return weights_heads.head_table(
        columns | {with_label(name, _("cosine")): each for name, each in zip(NAMES, cosines, strict=True)}
    )


# Heads that moved between two checkpoints, whoever wrote them: each head's part of four matrices.

HEADS = "moved_heads"


def show_moved_heads(
    session: Session, before: Subject, after: Subject, weight_changes: WeightChanges, explain: Callable[[], None]
) -> None:
    """Heads that moved."""
    both = []
    hints = [assumptions.hints_for(subject.name, subject.given) for subject in (before, after)]
    for subject, text in zip((before, after), hints, strict=True):
        try:
            both.append(weight_changes.remember(("matrices", subject.name, text), partial(matrices, subject, text)))
        except (ValueError, OSError) as error:
            st.info(as_sentence(translate_error(error)))
            return
    old, new = both
    kinds = [kind for kind in new if kind in old]
    if not kinds:
        st.info(_("{before} and {after} have no kind of attention in common.").format(
            before=literal(before.name), after=literal(after.name)
        ))  # fmt: skip
        return
    kind = cast("AttentionKind", choose(_("Attention"), kinds, kinds[0], KIND, attention_name, st.container()))
    measured = weight_changes.remember(("heads", kind, *hints), lambda: moved_heads(old[kind], new[kind]))
    if measured is None:
        st.info(_("The heads of {before} and {after} are not of the same number and shapes.").format(
            before=literal(before.name), after=literal(after.name)
        ))  # fmt: skip
        return
    changes, cosines = measured.float().numpy()
    framed = (min(session.selection.layer, changes.shape[1] - 1), min(session.selection.head, changes.shape[2] - 1))
    figure = moved_head_panels(changes, f"{before.name}-{after.name}", framed)
    figure_view(HEADS, figure, cell=partial(on_head, after.name, kind))()
    file = f"moved-heads-{before.name}-{after.name}-{kind}"
    table = partial(head_table, changes, cosines)
    beside(explain, lambda: data_table("moved_heads_data", table, file))


def matrices(subject: Subject, hints_text: str) -> dict[AttentionKind, Layers]:
    hints = replace(LoadHints.read(hints_text), base=None if subject.base is None else str(subject.base))
    return head_tensors(subject.path, hints, catalog_entry(subject.base or subject.path).kind)


def on_head(name: str, kind: str, cell: dict[str, Any]) -> None:
    open_head(name, kind, int(cell["row"]), int(cell["column"]))
