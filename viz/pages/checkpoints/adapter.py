"""Changes of an adapter in its base: how much in each layer, of which rank, with which singular values."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis.weights import adapter_changes
from model.checkpoints.adapters import AdapterBaseError
from model.checkpoints.tensors import TensorInfo
from model.message import Message
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.colours import PLAIN
from viz.figures.figure import About, Caption
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal, shape_text, significant
from viz.i18n.messages import joined
from viz.pages.checkpoints.compare import layer_chart, layered, stacks_of, trace_button
from viz.pages.checkpoints.measuring import AdapterChanges, adapting
from viz.pages.checkpoints.subjects import Subject, chosen_place, merged, merged_table, name_of_base, subjects
from viz.pages.checkpoints.tensor import beside, title
from viz.pages.checkpoints.tensor_figures import spectrum_sentence
from viz.pages.checkpoints.tensors import Column, tree
from viz.render.view import view
from viz.state import adapter_bases, assumptions, shown_model
from viz.state.checkpoints import all_places
from viz.state.session import Session, choose
from viz.ui.job_view import follow
from viz.ui.parts import data_table, explanation

TREE, LAYERS, VALUES, STACK = "adapter_tree", "adapter_layers", "adapter_values", "adapter_stack"
RELATION = "‖ΔW‖/‖W‖"
RELATIVE = 4  # the number of the column by which the tree is sorted: after name, shape, type and bytes


def show(session: Session, subject: Subject, row: DeltaGenerator) -> None:
    """Draw this view. row: of the controls."""
    try:
        whole = merged(subject)
        changes = adapting(whole)
    except (ValueError, OSError) as error:
        st.error(as_sentence(translate_error(error)))
        if isinstance(error, AdapterBaseError):
            choose_base(session, subject)
        return
    others = subjects()
    base = next((each for each in others if each.name == name_of_base(subject, others)), None)
    if base is not None:
        trace_button(row, base, subject, _("Traces of base and merged"))
    st.caption(literal(sentence(whole, changes)))
    place = st.empty()
    chart = st.container()
    stacks = stacks_of(layered([info.name for info in changes.table if len(info.shape) > 1]))
    if stacks and not changes.nothing:
        stack = choose(_("Stack"), stacks, stacks[0], STACK, str, chart) if len(stacks) > 1 else stacks[0]
        with chart:
            follow([changes], lambda: view(LAYERS, layer_chart(changes, stack, subject.name, RELATION)))
    chosen = chosen_place(changes.table, np.nan_to_num(changes.column("relative"), posinf=0.0).__getitem__)
    columns = partial(adapter_columns, changes)
    follow([changes], tree(changes, subject.name, columns, TREE, chosen, RELATIVE, _("weights that are changed")))
    if changes.nothing:
        place.info(
            _("{name} changes nothing: every ΔW is zero, as at the start of a training.").format(
                name=literal(subject.name)
            )
        )
    values(subject, changes, changes.table[chosen])
    beside(explain, lambda: data_table("adapter_data", partial(adapter_table, changes), f"adapter-{subject.name}"))


def choose_base(session: Session, subject: Subject) -> None:
    """A field for the model that it changes, where its own is not here, or does not fit."""
    if bases := adapter_bases.possible_bases(all_places(session)):
        row = st.container(horizontal=True, vertical_alignment="bottom")
        assumptions.fields(row, subject.name, {"base": None}, (), 1, shown_model.show, bases)


def sentence(whole: Subject, changes: AdapterChanges) -> str:
    """Kind and base of the adapter, and the modules and layers that it changes."""
    from model.checkpoints.adapter_base import base_name

    assert whole.base is not None
    kinds = layered([info.name for info in changes.table])
    modules = sorted({kind.split(".*.")[1].removesuffix(".weight").removesuffix(".bias") for kind in kinds})
    layers = sorted({layer + 1 for names in kinds.values() for layer in names})
    parts = [
        _("{kinds} on {base}: {count} of {all} tensors changed").format(
            kinds=", ".join(dict.fromkeys(changes.kinds)),
            base=base_name(whole.base),
            count=len(changes.table),
            all=f"{len(merged_table(whole).table):,}",
        )
    ]
    if modules:
        parts.append(_("modules {modules}").format(modules=", ".join(modules[:12]) + " …" * (len(modules) > 12)))
        parts.append(_("layers {layers}").format(layers=ranges(layers)))
    return " · ".join(parts)


def ranges(numbers: list[int]) -> str:
    """Whole numbers in order, with those that follow each other as a range: 1–3, 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs)


def adapter_columns(changes: AdapterChanges) -> list[Column]:
    """Columns of each weight's change, as far as it is known."""
    return [
        Column(RELATION, changes.column("relative")),
        Column(_("eff. rank"), changes.column("rank")),
        Column(_("stable rank"), changes.column("stable")),
        Column("σ₁", changes.column("largest")),
        Column(_("kind"), changes.kinds, "text"),
    ]


def adapter_table(changes: AdapterChanges) -> pd.DataFrame:
    """A line for each weight, with its singular values, of which there are at most as many as in the file."""
    every = changes.every()
    rows = {
        _("tensor"): [info.name for info in changes.table],
        _("shape"): [shape_text(info.shape) for info in changes.table],
        _("kind"): changes.kinds,
        RELATION: changes.column("relative"),
        "‖ΔW‖": changes.column("norm"),
        _("effective rank"): changes.column("rank"),
        _("stable rank"): changes.column("stable"),
        _("singular values"): ["" if each is None else " ".join(f"{one:.6g}" for one in each.values) for each in every],
    }
    return pd.DataFrame(rows).sort_values(RELATION, ascending=False, ignore_index=True)


def values(subject: Subject, changes: AdapterChanges, info: TensorInfo) -> None:
    """The singular values of the chosen ΔW."""
    change = changes.of(info)
    title(info, shape_text(info.shape))
    if change is None:
        if info.name in changes.errors:
            st.caption(literal(translate_error(changes.errors[info.name])))
        return
    line = f"{RELATION} = {significant(change.relative)}"
    if change.nothing:
        st.caption(literal(f"{line} · {_('this weight is not changed')}"))
        return
    if not len(change.values):
        st.caption(literal(f"{line} · {_('a vector has no singular values')}"))
        return
    sentence = joined(" · ", line, spectrum_sentence(change.values))
    view(VALUES, values_chart(subject.name, info.name, change, sentence))()


def values_chart(file: str, name: str, change: adapter_changes.AdapterChange, sentence: str) -> Chart:
    """σ over its number."""
    numbers = np.arange(1, len(change.values) + 1)
    few = len(numbers) <= 64
    series = Series("σ", numbers, change.values.numpy(), PLAIN, mark="dots" if few else "line")
    meaning = Message("How strongly the adapter's change acts along each of its directions, the largest first.")
    formulas = [r"\Delta W = \tfrac{\alpha}{r} B A = \sum_i \sigma_i\, u_i v_i^\top"]
    about = About(
        meaning,
        formulas,
        [adapter_changes.factored_values],
        meaning=Message("Few are large where r is small: the change has no more directions than its rank."),
    )
    title, stamp = Message("Singular values of ΔW"), f"{file} {name}"
    heading = Caption(title, f"adapter-values-{file}", stamp, sentence=sentence, alt=sentence, about=about)
    return Chart(heading, [series], Axis(Message("number, largest first")), Axis("σ", zero=True), tall=150)


def explain() -> None:
    explanation(
        "adapter_explanation",
        _(
            "An adapter is a small change that is added to a model's weights. Here is where it changes them, and how "
            "much."
        ),
        [
            r"\Delta W = \tfrac{\alpha}{r} B A, \qquad \frac{\|\Delta W\|_F}{\|W\|_F}",
            r"\operatorname{erank} = \exp\Bigl(-\sum_i p_i \ln p_i\Bigr), \quad p_i = \frac{\sigma_i}{\sum_j \sigma_j},"
            r"\qquad \operatorname{srank} = \frac{\sum_i \sigma_i^2}{\sigma_1^2}",
        ],
        _(
            "An adapter keeps the weights of its base and adds a change of low rank (Hu et al., *LoRA*, 2021, section "
            "4.1); ΔW is the merged weight less the base's. The effective rank says over how many directions the "
            "change is spread (Roy and Vetterli, 2007), the stable rank how many as strong as the first it amounts to "
            "(Rudelson and Vershynin, 2007). The singular values come from the small factors, by their QR "
            "decompositions. This is the code that has just run:"
        ),
        adapter_changes.adapter_change,
        adapter_changes.factored_values,
    )
