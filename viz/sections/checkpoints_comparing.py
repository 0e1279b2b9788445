"""Compare checkpoints: what moved between two, and over the steps of a run."""

from __future__ import annotations

import math
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis.weights import movement
from viz.i18n.catalogue import _
from viz.i18n.errors import said
from viz.i18n.format import as_sentence, literal, shape_text
from viz.packing import weights_moved
from viz.sections import checkpoints_moved_heads, checkpoints_pair, checkpoints_runs
from viz.sections.checkpoints_chosen import (
    asked_place,
    choose_pair,
    choose_tensor,
    chosen_place,
    follow_sidebar,
    lens_of,
)
from viz.sections.checkpoints_heads import LEAVE, leave
from viz.sections.checkpoints_measuring import Moving, moving
from viz.sections.checkpoints_subjects import Subject, nearest, subjects
from viz.sections.checkpoints_tensor import beside
from viz.state import texts
from viz.state.workbench import Key, Pin, Workbench, choose, workbench
from viz.ui.background import CHOSEN, follow
from viz.ui.parts import data_table, explanation

BEFORE, AFTER, VIEW = "compare_a", "compare_b", "compare_view"
TREE, LAYERS = "moved_tree", "moved_layers"
VIEWS = ("tensors", "layers", "heads", "steps")


def show(bench: Workbench) -> None:
    """Draw this part of the page."""
    leave()
    row = st.container(horizontal=True, vertical_alignment="center")
    view = choose(_("View"), VIEWS, VIEWS[0], VIEW, view_name, row)
    if view == "steps":
        checkpoints_runs.show(row)
        return
    now = follow_sidebar(AFTER)
    found = {subject.name: subject for subject in subjects()}
    first = next((name for name in (st.session_state.get(AFTER), st.query_params.get(AFTER)) if name in found), now)
    other = None if st.session_state.get(BEFORE) in found else nearest(str(first), list(found.values()))
    before, after = choose_pair(row, (BEFORE, AFTER), (other, now))
    if before is None and after is not None:
        st.info(
            _("No other checkpoint here has the tensors of {name}: choose two that are to be compared.")
            .format(name=literal(after.name))
        )  # fmt: skip
    if before is None or after is None:
        return
    try:
        measured = moving(before, after)
    except (ValueError, OSError) as error:
        st.error(as_sentence(said(error)))
        return
    trace_button(bench, row, before, after)
    if view != "tensors":
        st.caption(literal(differences(before, after, measured)))
    if view == "heads":
        checkpoints_moved_heads.show_moved_heads(bench, before, after, measured, explain)
    elif not measured.same:
        st.info(
            _("No tensor of {before} has a name and a shape of {after}.").format(
                before=literal(before.name), after=literal(after.name)
            )
        )
    elif view == "tensors":
        tensors(before, after, measured)
    else:
        layers(before, after, measured)


def differences(before: Subject, after: Subject, found: Moving) -> str:
    """How much both have in common, and what only one has, in a sentence."""
    old, new = ({info.name: info for info in subject.table()} for subject in (before, after))
    reshaped = [name for name in new if name in old and new[name].shape != old[name].shape]
    only = [(before, [name for name in old if name not in new]), (after, [name for name in new if name not in old])]
    parts = [_("{count} tensors in both").format(count=len(found.same))]
    for subject, names in only:
        if names:
            parts.append(_("{count} only in {name}").format(count=len(names), name=subject.name))
    if reshaped:
        parts.append(_("{count} of another shape").format(count=len(reshaped)))
    return " · ".join(parts)


def tensors(before: Subject, after: Subject, found: Moving) -> None:
    """The ranking, and the chosen tensor of both."""
    follow([found], partial(tree, before, after, found))
    info = found.same[place_of(found)]
    change = found.of(info)
    checkpoints_pair.show_pair(before, after, info, equal=change is not None and change.largest == 0)
    beside(explain, partial(moved_data, before, after, found))
    left_over(before, after)


def moved_data(before: Subject, after: Subject, found: Moving) -> None:
    file = f"moved-{before.name}-{after.name}"
    data_table("moved_data", lambda: weights_moved.moved_table(found.same, found.of), file)


def place_of(found: Moving) -> int:
    """The number of the tensor that is looked at, at first the most moved."""

    def change(place: int) -> float:
        known = found.of(found.same[place])
        return known.relative if known and math.isfinite(known.relative) else 0.0

    return chosen_place(found.same, change)


def tree(before: Subject, after: Subject, found: Moving) -> None:
    header = {
        "chosen": place_of(found),
        "asked": asked_place(found.same) is not None,
        "progress": found.progress,
        "sentence": differences(before, after, found),
    }
    file = f"{before.name} → {after.name}"
    weights_moved.moved_tree(found.same, found.of, file, header, TREE, partial(on_tensor, found))()


def on_tensor(found: Moving) -> None:
    choose_tensor(found.same, int(st.session_state[TREE].tensor))
    st.session_state[CHOSEN] = True


def left_over(before: Subject, after: Subject) -> None:
    """What exists only in one, and what has another shape, by name."""
    old, new = ({info.name: info for info in subject.table()} for subject in (before, after))
    rows = [(name, shape_text(old[name].shape), "") for name in old if name not in new]
    rows += [(name, "", shape_text(new[name].shape)) for name in new if name not in old]
    rows += [
        (name, shape_text(old[name].shape), shape_text(new[name].shape))
        for name in new
        if name in old and old[name].shape != new[name].shape
    ]
    if not rows:
        return
    import pandas as pd

    frame = pd.DataFrame(
        rows, columns=[_("tensor"), before.name, f"{after.name} " * (before.name == after.name) or after.name]
    )
    data_table("left_over", lambda: frame, f"only-{before.name}-{after.name}", _("Only in one, or of another shape"))


def layers(before: Subject, after: Subject, found: Moving) -> None:
    """A line for each kind of matrix over the layers."""
    stacks = weights_moved.stacks_of(weights_moved.layered([info.name for info in found.same]))
    if not stacks:
        st.info(_("No name has the number of a layer in it, such as layers.0."))
        return
    place = st.container()
    stack = choose(_("Stack"), stacks, stacks[0], "compare_stack", str, place) if len(stacks) > 1 else stacks[0]
    file = f"{before.name}-{after.name}"
    follow([found], lambda: draw(weights_moved.layer_chart(found.same, found.of, stack, file, LAYERS)))
    beside(explain, partial(moved_data, before, after, found))


def draw(mount: object) -> None:
    assert callable(mount)
    mount()


def trace_button(bench: Workbench, place: DeltaGenerator, before: Subject, after: Subject) -> None:
    """Pins A's trace and shows B's."""
    openable = lens_of(before) is not None and lens_of(after) is not None
    place.button(
        _("Their traces on the same sentence"),
        on_click=pin_and_show,
        args=(before, after),
        disabled=not openable,
        help=None if openable else _("One of them does not open as a model."),
        key="compare_traces",
    )


def pin_and_show(before: Subject, after: Subject) -> None:
    """A's trace on the texts of the input bar becomes the pin; B becomes the model that is shown, with differences.

    Where the text is only the example of the shown model, both get B's.
    """
    bench, lens, shown = workbench(), lens_of(before), lens_of(after)
    assert lens is not None
    assert shown is not None
    now = bench.lens or shown
    source, target = texts.texts(now)
    if source == texts.first_source(now):
        source = texts.first_source(shown)
        texts.write_source(source)
    other = Workbench()
    trace = other.look(lens, source, target)
    assert other.source is not None
    bench.pin, bench.differing = Pin(before.name, source, trace, lens, (other.source, other.target)), True
    st.session_state[Key.MODEL] = after.name
    st.session_state[LEAVE] = "attention"


def explain() -> None:
    explanation(
        "moved_explanation",
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


def view_name(view: str) -> str:
    return {
        "tensors": _("Tensors"),
        "layers": _("Layers"),
        "heads": _("Heads"),
        "steps": _("Over steps"),
    }[view]
