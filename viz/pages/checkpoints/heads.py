"""The heads of a checkpoint from their weights alone; a click opens a head on the page Attention."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import streamlit as st
import torch

from model.analysis.weights import heads as head_weights
from model.analysis.weights.heads import attentions, head_norms, head_similarity
from model.capture.trace import ATTENTION_PATHS
from model.message import Message
from model.network.attention import MultiHeadAttention
from viz.figures.axis import Axis, Scale
from viz.figures.figure import About, Caption
from viz.figures.heatmap import Heatmap
from viz.figures.panels import Panel, Panels
from viz.i18n.catalogue import _
from viz.i18n.errors import reason_words
from viz.i18n.format import attention_name, literal, significant, with_label
from viz.i18n.messages import joined
from viz.pages.checkpoints.measuring import TensorStatistics
from viz.pages.checkpoints.subjects import Subject, closed_words, model_of
from viz.pages.checkpoints.tensor import beside
from viz.pages.checkpoints.tensor_figures import NOT_FINITE
from viz.render.view import view
from viz.state.opened_page import open_page
from viz.state.session import Key, Session, attention_kinds, choose, current_session
from viz.ui.parts import data_table, explanation
from viz.ui.plots import array

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from model.capture.trace import AttentionKind
    from model.inference.text_model import TextModel

NORMS, ALIKE = "w_head_norms", "w_heads_alike"
KIND, CIRCUIT = "w_kind", "w_circuit"
CIRCUITS = {"scores": Message("what they look for"), "output": Message("what they move")}


def show(session: Session, subject: Subject, statistics: TensorStatistics) -> None:
    """Norms of four matrices a head, and which heads are alike; only of what opens as a model."""
    model = model_of(subject)
    kinds = kinds_of(model) if model else []
    reason = head_weights.unclear(model.network) if model else None
    if reason is not None:
        st.info(literal(with_label(subject.name, reason_words(reason))))
    if reason is not None and not kinds:
        return
    if model is None or not kinds:
        st.info(
            _("{name} does not open as a model whose heads are known: its tensors can be read, but not cut into heads.")
            .format(name=literal(subject.name))
        )  # fmt: skip
        if model is None:
            st.caption(literal(closed_words([subject])))
        return
    row = st.container(key="choices_weight_heads", horizontal=True)
    kind = cast("AttentionKind", choose(_("Attention"), kinds, kinds[0], KIND, attention_name, row))
    circuit = choose(_("Circuit"), list(CIRCUITS), "scores", CIRCUIT, CIRCUITS.__getitem__, row)
    norms = norms_of(model, kind, statistics.remember)
    layers, heads = norms.shape[1:]
    chosen = session.selection
    framed = (min(chosen.layer, layers - 1), min(chosen.head, heads - 1))
    clicked = partial(on_head, subject.name, kind, heads)
    left, right = st.columns([11, 9], gap="medium")
    with left:
        view(NORMS, norm_panels(norms, subject.name, framed), cell=partial(clicked, NORMS))()
    with right:
        similarity = similarity_of(model, kind, circuit, statistics.remember)
        labels = head_labels(layers, heads)
        view(ALIKE, similarity_map(similarity, labels, circuit, subject.name), cell=partial(clicked, ALIKE))()
    beside(
        explain,
        lambda: data_table("heads_data", lambda: norm_table(norms), f"heads-{subject.name}-{kind}"),
    )


def on_head(name: str, kind: str, heads: int, key: str, cell: dict[str, Any]) -> None:
    """A click on a head, of a panel or of the rows of the similarity."""
    if key == ALIKE:
        layer, head = divmod(int(cell["row"]), heads)
    else:
        layer, head = int(cell["row"]), int(cell["column"])
    open_head(name, kind, layer, head)


def open_head(name: str, kind: str, layer: int, head: int) -> None:
    """The page Attention with that head of that checkpoint; a click on a label, −1, is none on a head."""
    if min(layer, head) < 0:
        return
    session = current_session()
    st.session_state[Key.MODEL] = name
    session.select(layer=layer, head=head)
    open_page("attention", {Key.KIND: kind})


def explain() -> None:
    explanation(
        "heads_explanation",
        _(
            "What a head looks for and what it then moves are two products of its weights. Heads whose products are "
            "alike do the same work."
        ),
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


# Heads from their weights: how large their four projections are, and which heads are alike.

NAMES = ("W_Q", "W_K", "W_V", "W_O")
Remember = Callable[[Hashable, Callable[[], Any]], Any]


def attentions_of(model: TextModel, kind: AttentionKind) -> list[MultiHeadAttention]:
    """The attentions of that kind, layer by layer."""
    by_path = attentions(model.network)
    paths = (ATTENTION_PATHS[kind].format(layer) for layer in range(len(by_path)))
    return [by_path[path] for path in paths if path in by_path]


def kinds_of(model: TextModel) -> list[AttentionKind]:
    """The kinds of attention whose heads' weights are known."""
    return [kind for kind in attention_kinds(model.network) if attentions_of(model, kind)]


def norms_of(model: TextModel, kind: AttentionKind, remember: Remember) -> Tensor:
    """(projection, layer, head)"""
    norms: Tensor = remember(
        ("norms", kind), lambda: torch.stack([head_norms(each) for each in attentions_of(model, kind)], dim=1)
    )
    return norms


def norm_panels(norms: Tensor, file: str, chosen: tuple[int, int]) -> Panels:
    """Each projection on a scale of its own."""
    values = array(norms)
    scales, ranges = [], []
    for name, each in zip(NAMES, values, strict=True):
        low, high = float(each.min()), float(each.max())
        scales.append(Scale(low if low < high else 0, high or 1.0, Message("norm")))
        ranges.append(f"{name} {significant(low)} – {significant(high)}")
    title = Message("Norms of the projections")
    sentence = Message("the Frobenius norm of each head's part; press one to open the head")
    alt = Message(
        "{title} of {layers} with {heads}: {ranges}.",
        title=title,
        layers=Message("{count} layer", plural="{count} layers", count=values.shape[1]),
        heads=Message("{count} head", plural="{count} heads", count=values.shape[2]),
        ranges=joined("; ", *ranges),
    )
    heading = Caption(title, f"heads-{file}", joined(" ", file, title), sentence=sentence, alt=alt, about=about_norms())
    return head_panels(heading, values, scales, chosen, notes=("",) * 4, lines=(0, 0, 1, 1), cell=34)


def head_panels(
    heading: Caption,
    values: NDArray[np.float32],
    scales: Sequence[Scale],
    chosen: tuple[int, int],
    *,
    notes: Sequence[str],
    lines: Sequence[int] = (0, 0, 0, 0),
    cell: int,
) -> Panels:
    """Four maps of layer by head, one of each projection."""
    layers, heads = ([str(number + 1) for number in range(count)] for count in values.shape[1:])
    rows, columns = Axis(Message("layer"), layers, "layers"), Axis(Message("head"), heads, "heads")
    visible = np.ones((len(layers), len(heads)), bool)
    panels = [
        Panel(name, rows, columns, visible, part, note=note, scale=scale, line=line, framed=chosen, choose=True)
        for name, part, scale, note, line in zip(NAMES, values, scales, notes, lines, strict=True)
    ]
    titles = (Message("layer"), Message("head"), scales[0].title, Message("masked"))
    return Panels(heading, panels, slot=150, cell=cell, cells=titles, words=NOT_FINITE)


def about_norms() -> About:
    sentence = Message("Each cell is a head of a layer: how large its part of this projection's weights is.")
    return About(
        sentence,
        [r"\|W_h\|_F = \sqrt{\textstyle\sum_{ij} w_{ij}^2}"],
        [head_norms],
        meaning=Message("A head whose part is small in all projections has little to say."),
    )


def about_alike(circuit: str) -> About:
    product = {"scores": "W_Q^\\top W_K", "output": "W_O W_V"}[circuit]
    sentence = Message("Each row and each column is a head: whether the products of their weights are alike.")
    formula = rf"\cos(h, g) = \frac{{\langle M_h, M_g\rangle}}{{\|M_h\|\,\|M_g\|}},\quad M = {product}"
    return About(
        sentence,
        [formula],
        [head_similarity],
        meaning=Message("Near 1 two heads compute almost the same, and one might do for both."),
    )


def head_labels(layers: int, heads: int) -> list[str]:
    return [f"{layer + 1}.{head + 1}" for layer in range(layers) for head in range(heads)]


def similarity_map(similarity: Tensor, labels: Sequence[str], circuit: str, file: str) -> Heatmap:
    """The cosine of every head's circuit with every other's."""
    values = array(similarity)
    apart = np.abs(values) * (1 - np.eye(len(values)))
    one, other = divmod(int(apart.argmax()), len(values))
    # A head has cosine 1 with itself: the scale is that of the others, or they would all be pale.
    top = float(apart.max()) or 1.0
    most = Message(
        "most alike: {one} and {other}, cosine {cosine}; the diagonal is 1",
        one=labels[one],
        other=labels[other],
        cosine=significant(float(values[one, other])),
    )
    product = {"scores": "W_Qᵀ W_K", "output": "W_O W_V"}[circuit]
    alt = Message(
        "Cosines of {product} of {count} heads; {sentence}.", product=product, count=len(values), sentence=most
    )
    name, sentence = Message("Heads that are alike"), joined(" · ", product, most)
    heading = Caption(
        name, f"similar-{circuit}-{file}", f"{file} {circuit}", sentence=sentence, alt=alt, about=about_alike(circuit)
    )
    rows, columns = (Axis(title, labels, "weight heads") for title in (Message("head"), Message("other head")))
    scale = Scale(-top, top, Message("cosine"))
    return Heatmap(heading, values, rows, columns, scale, square=True)


def similarity_of(model: TextModel, kind: AttentionKind, circuit: str, remember: Remember) -> Tensor:
    """(head, head) over all layers of that kind."""
    assert circuit in ("scores", "output")
    similarity: Tensor = remember(
        ("similarity", kind, circuit),
        lambda: head_similarity(attentions_of(model, kind), "scores" if circuit == "scores" else "output"),
    )
    return similarity


def norm_table(norms: Tensor) -> pd.DataFrame:
    return head_table(dict(zip(NAMES, norms.numpy(), strict=True)))


def head_table(columns: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """A line for each head. columns: by their title (layer, head)."""
    layers, heads = next(iter(columns.values())).shape
    rows: dict[str, Any] = {
        _("layer"): np.repeat(np.arange(1, layers + 1), heads),
        _("head"): np.tile(np.arange(1, heads + 1), layers),
    }
    return pd.DataFrame(rows | {name: each.reshape(-1) for name, each in columns.items()})
