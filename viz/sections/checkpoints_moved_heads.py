"""Which heads moved between two checkpoints, whoever wrote them: each head's part of four matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

import streamlit as st

from model.analysis.weights.heads import head_tensors, moved_heads
from model.checkpoints.catalog import listed
from model.checkpoints.hints import Told
from viz.i18n.catalogue import _
from viz.i18n.errors import said
from viz.i18n.format import as_sentence, attention_name, literal
from viz.packing import weights_moved
from viz.sections.checkpoints_heads import KIND, open_head
from viz.sections.checkpoints_measuring import Moving
from viz.sections.checkpoints_subjects import Subject
from viz.sections.checkpoints_tensor import beside
from viz.state import assumptions
from viz.state.workbench import Workbench, choose
from viz.ui.parts import data_table

if TYPE_CHECKING:
    from model.analysis.weights.heads import Layers
    from model.capture.trace import AttentionKind

HEADS = "moved_heads"


def show_moved_heads(
    bench: Workbench, before: Subject, after: Subject, found: Moving, explain: Callable[[], None]
) -> None:
    """Which heads moved."""
    both = []
    told = [assumptions.told_of(subject.name, subject.given) for subject in (before, after)]
    for subject, text in zip((before, after), told, strict=True):
        try:
            both.append(found.remember(("matrices", subject.name, text), partial(matrices, subject, text)))
        except (ValueError, OSError) as error:
            st.info(as_sentence(said(error)))
            return
    old, new = both
    kinds = [kind for kind in new if kind in old]
    if not kinds:
        st.info(_("{before} and {after} have no kind of attention in common.").format(
            before=literal(before.name), after=literal(after.name)
        ))  # fmt: skip
        return
    kind = cast("AttentionKind", choose(_("Attention"), kinds, kinds[0], KIND, attention_name, st.container()))
    measured = found.remember(("heads", kind, *told), lambda: moved_heads(old[kind], new[kind]))
    if measured is None:
        st.info(_("The heads of {before} and {after} are not of the same number and shapes.").format(
            before=literal(before.name), after=literal(after.name)
        ))  # fmt: skip
        return
    changes, cosines = measured.float().numpy()
    framed = (min(bench.selection.layer, changes.shape[1] - 1), min(bench.selection.head, changes.shape[2] - 1))
    weights_moved.head_panels(
        changes, f"{before.name}-{after.name}", framed, HEADS, partial(on_head, after.name, kind)
    )()
    file = f"moved-heads-{before.name}-{after.name}-{kind}"
    table = partial(weights_moved.head_table, changes, cosines)
    beside(explain, lambda: data_table("moved_heads_data", table, file))


def matrices(subject: Subject, told: str) -> dict[AttentionKind, Layers]:
    return head_tensors(subject.path, Told.read(told), listed(subject.path).kind)


def on_head(name: str, kind: str) -> None:
    cell = st.session_state[HEADS].cell
    open_head(name, kind, int(cell["row"]), int(cell["column"]))
