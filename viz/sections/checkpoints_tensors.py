"""The tensors of a file: their tree with what they measure, which fills in, and one of them large."""

from __future__ import annotations

from functools import partial

import streamlit as st

from viz.i18n.catalogue import _
from viz.packing.weights_table import statistics_table, statistics_tree
from viz.sections import checkpoints_tensor
from viz.sections.checkpoints_chosen import asked_place, choose_tensor, chosen_place
from viz.sections.checkpoints_measuring import Measured
from viz.sections.checkpoints_subjects import Subject
from viz.state.workbench import Workbench
from viz.ui.background import CHOSEN, follow
from viz.ui.parts import data_table

TREE = "tensor_tree"


def show(bench: Workbench, subject: Subject, found: Measured) -> None:
    """The tree goes on by itself while something is being measured."""
    follow([found], partial(tree, subject, found))
    checkpoints_tensor.show(subject, found, found.table[chosen_place(found.table)])
    checkpoints_tensor.beside(checkpoints_tensor.explain, partial(data, subject, found))


def data(subject: Subject, found: Measured) -> None:
    table = partial(statistics_table, found.table, found.of)
    data_table("tensors_data", table, f"tensors-{subject.name}", _("Data of all tensors"))


def tree(subject: Subject, found: Measured) -> None:
    asked = asked_place(found.table) is not None
    header = {"chosen": chosen_place(found.table), "asked": asked, "progress": found.progress, "sorted": -1}
    statistics_tree(found.table, found.of, subject.name, header, TREE, partial(on_tensor, found))()


def on_tensor(found: Measured) -> None:
    choose_tensor(found.table, int(st.session_state[TREE].tensor))
    st.session_state[CHOSEN] = True
