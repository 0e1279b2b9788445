"""The heads of a checkpoint from their weights alone; a click opens a head on the page Attention."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import streamlit as st

from model.analysis.weights import heads as head_weights
from viz.i18n.catalogue import _
from viz.i18n.errors import reason_words
from viz.i18n.format import attention_name, literal
from viz.packing import weights_heads
from viz.sections.checkpoints_chosen import CHECKPOINT, REGION, lens_of
from viz.sections.checkpoints_measuring import Measured
from viz.sections.checkpoints_subjects import Subject
from viz.sections.checkpoints_tensor import beside
from viz.state.workbench import Key, Workbench, choose, workbench
from viz.ui.parts import data_table, explanation

if TYPE_CHECKING:
    from model.capture.trace import AttentionKind

NORMS, ALIKE = "w_head_norms", "w_heads_alike"
KIND, CIRCUIT = "w_kind", "w_circuit"
LEAVE = "checkpoints_leave"  # in the session: the page that a click has opened
# Parameters that belong to widgets, which write them themselves.
BOUND = (Key.MODEL, Key.SOURCE, Key.TARGET, CHECKPOINT, "compare_a", "compare_b", *REGION)


def show(bench: Workbench, subject: Subject, found: Measured) -> None:
    """Norms of four matrices a head, and which heads are alike; only of what opens as a model."""
    leave()
    lens = lens_of(subject)
    kinds = weights_heads.kinds_of(lens) if lens else []
    reason = head_weights.unclear(lens.model) if lens else None
    if reason is not None:
        st.info(f"{literal(subject.name)}: {reason_words(reason)}")
    if reason is not None and not kinds:
        return
    if lens is None or not kinds:
        st.info(
            _("{name} does not open as a model whose heads are known: its tensors can be read, but not cut into heads.")
            .format(name=literal(subject.name))
        )  # fmt: skip
        return
    row = st.container(horizontal=True)
    kind = cast("AttentionKind", choose(_("Attention"), kinds, kinds[0], KIND, attention_name, row))
    circuit = choose(_("Circuit"), ("scores", "output"), "scores", CIRCUIT, circuit_name, row)
    norms = weights_heads.norms_of(lens, kind, found.remember)
    layers, heads = norms.shape[1:]
    chosen = bench.selection
    framed = (min(chosen.layer, layers - 1), min(chosen.head, heads - 1))
    clicked = partial(on_head, subject.name, kind, heads)
    left, right = st.columns([11, 9], gap="medium")
    with left:
        weights_heads.norm_panels(
            norms, subject.name, _("Norms of the projections"), framed, NORMS, partial(clicked, NORMS)
        )()
    with right:
        similarity = weights_heads.similarity_of(lens, kind, circuit, found.remember)
        labels = weights_heads.head_labels(layers, heads)
        weights_heads.similarity_map(similarity, labels, circuit, subject.name, ALIKE, partial(clicked, ALIKE))()
    beside(
        explain,
        lambda: data_table("heads_data", lambda: weights_heads.norm_table(norms), f"heads-{subject.name}-{kind}"),
    )


def on_head(name: str, kind: str, heads: int, key: str) -> None:
    """A click on a head, of a panel or of the rows of the similarity."""
    cell = st.session_state[key].cell
    if key == ALIKE:
        layer, head = divmod(int(cell["row"]), heads)
    else:
        layer, head = int(cell["row"]), int(cell["column"])
    open_head(name, kind, layer, head)


def open_head(name: str, kind: str, layer: int, head: int) -> None:
    """The page Attention with that head of that checkpoint; a click on a label, −1, is none on a head."""
    if min(layer, head) < 0:
        return
    bench = workbench()
    st.session_state[Key.MODEL] = name
    bench.asked[Key.KIND] = kind
    bench.say(Key.KIND, kind)
    bench.select(layer=layer, head=head)
    st.session_state[LEAVE] = "attention"


def leave() -> None:
    """Go to the page that a click has opened: in the run, since only that can be left. The address comes along; what
    widgets are bound to, they write there again.
    """
    if page := st.session_state.pop(LEAVE, None):
        kept = {name: value for name, value in st.query_params.to_dict().items() if name not in BOUND}
        st.switch_page(f"viz/pages/{page}.py", query_params=kept)


def circuit_name(name: str) -> str:
    return {"scores": _("what they look for"), "output": _("what they move")}[name]


def explain() -> None:
    explanation(
        "heads_explanation",
        [
            r"\|W\|_F = \sqrt{\textstyle\sum_{ij} w_{ij}^2}",
            r"\cos(h, g) = \frac{\langle M_h, M_g\rangle}{\|M_h\|\,\|M_g\|},\quad M = W_Q^\top W_K \text{ or } W_O W_V",
        ],
        _(
            "What a head computes depends on two products of its weights only (Elhage et al., *A Mathematical "
            "Framework for Transformer Circuits*, 2021): W_Qᵀ W_K makes its scores, W_O W_V what it moves from "
            "one token to another. Two heads with cosine 1 do the same. Biases, positions and norms are left out. "
            "This is the code that has just run:"
        ),
        head_weights.head_norms,
        head_weights.head_similarity,
    )
