"""The tensors of a file: their tree with what they measure, which fills in, and one of them large."""

from __future__ import annotations

from functools import partial

import streamlit as st

from viz.i18n import _
from viz.packing.weights_table import statistics_table, statistics_tree
from viz.parts import data_table
from viz.sections import checkpoints_tensor
from viz.sections.checkpoints_chosen import choose_tensor, chosen_place
from viz.sections.checkpoints_measuring import AT_ONCE, EVERY, TOLD, Measured, progress
from viz.sections.checkpoints_subjects import Subject
from viz.workbench import Workbench

TREE = "tensor_tree"
LONG = 5.0  # seconds that are left, from which on there is a button to stop


def show(bench: Workbench, subject: Subject, found: Measured) -> None:
    """The tree goes on by itself while something is being measured."""
    found.wait(AT_ONCE)
    every = None if found.finished else EVERY
    st.fragment(tree, run_every=every)(subject, found)
    place = chosen_place(found.table)
    checkpoints_tensor.show(subject, found, found.table[place])
    data_table(
        "tensors_data", lambda: statistics_table(found.table, found.of), f"tensors-{subject.name}", _("All numbers, CSV")
    )


def tree(subject: Subject, found: Measured) -> None:
    finished = found.finished
    header = {"chosen": chosen_place(found.table), "progress": progress(found), "sorted": -1}
    statistics_tree(found.table, found.of, subject.name, header, TREE, partial(on_tensor, found))()
    taken, left = found.seconds
    if not finished and taken > TOLD and left > LONG:
        st.button(_("Stop measuring"), on_click=found.stop, key="stop_measuring")
    if finished and found.stopped:
        st.button(_("Measure the rest"), on_click=found.go_on, key="go_on_measuring")
    if found.failed:
        st.caption(_("Not measured: {reason}").format(reason=next(iter(found.failed.values()))))
    if finished and not st.session_state.get("measuring_seen") == id(found):
        st.session_state["measuring_seen"] = id(found)


def on_tensor(found: Measured) -> None:
    choose_tensor(found.table, int(st.session_state[TREE].tensor))
