"""Three inputs through one head of attention, every step with its numbers; every number of the inputs and of the
matrices can be changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import pandas as pd
import streamlit as st

from model.experiments.worked_example import DOCUMENT, CellError, Rows, Steps, one_head, parse, take_steps, texts_of
from model.inference.model import Inspectable
from model.network.attention import Scaled, Scores, Weights
from viz.i18n.catalogue import _
from viz.packing.lab_example import STEPS, bad_words, numbers, pack_matrices, step_name, verdicts
from viz.sections.lab_claim import show_claim
from viz.state.workbench import choose, workbench
from viz.ui.parts import Views, data_table, explanation, folded, mount

LONGEST = 400  # letters in the address


class Part(StrEnum):
    """Names in the session state; EXAMPLE, SCALE and ROUND are parameters of the address bar too."""

    EXAMPLE = "example"
    SCALE = "example_scale"
    ROUND = "example_round"
    TEXTS = "example_texts"
    GOOD = "example_good"
    MATRICES = "example_matrices"
    RESTORE = "example_restore"
    EXPLANATION = "example_explanation"
    DATA = "example_data"


def section(_lens: Inspectable) -> Views:
    show_claim(
        _(
            "By hand, without 1/√d_k and with the first input's weights rounded to 0, 0.5, 0.5, the first output is "
            "(2, 7, 1.5)."
        ),
        _(
            "The paper multiplies the scores by 1/√d_k, and the true weights are not rounded: what that changes is "
            "said below. Every cell of the first line can be changed."
        ),
    )
    controls = st.container(horizontal=True, vertical_alignment="center")
    scaled = choose(_("Scale"), ("off", "on"), "off", Part.SCALE, scale_words, controls) == "on"
    step = STEPS[choose(_("Round to"), list(STEPS), "half", Part.ROUND, step_name, controls)]
    controls.button(_("As in the tutorial"), key=Part.RESTORE, on_click=restore)
    said, matrices = st.container(), st.container()
    left, right = st.columns(2, gap="medium")
    with left:
        explain()
    with right:
        data = folded(Part.DATA, _("Data"))

    def views(_lens: Inspectable) -> Iterator[None]:
        typed = texts()
        bad: CellError | None = None
        try:
            st.session_state[Part.GOOD] = parse(typed)
        except CellError as error:
            bad = error
        good: dict[str, Rows] = st.session_state.get(Part.GOOD, DOCUMENT)
        steps, other = take_steps(good, scaled), take_steps(good, not scaled)
        shown = pack_matrices(steps, typed, step, bad, Part.MATRICES, on_edit)
        yield
        said.text(bad_words(bad) if bad else "\n".join(verdicts(steps, other, step, scaled)))
        mount([(matrices, shown)])
        data_table(Part.DATA, lambda: table(steps, step), "worked-example", place=data)

    return views


def scale_words(name: str) -> str:
    return {"off": _("without 1/√d_k"), "on": _("with 1/√d_k")}[name]


def texts() -> list[str]:
    """All cells as they are typed: in this session, else in the address, else in the document."""
    if Part.TEXTS not in st.session_state:
        standard = texts_of(DOCUMENT)
        given = st.query_params.get(Part.EXAMPLE, "").split(",")
        st.session_state[Part.TEXTS] = [each[:24] for each in given] if len(given) == len(standard) else standard
    found: list[str] = st.session_state[Part.TEXTS]
    return found


def keep(typed: list[str]) -> None:
    """Remember the cells; in the address too, where they are others than the document's and short enough."""
    st.session_state[Part.TEXTS] = typed
    written = ",".join(each.strip() for each in typed)
    told = typed != texts_of(DOCUMENT) and len(written) <= LONGEST and written.count(",") == len(typed) - 1
    workbench().say(Part.EXAMPLE, written if told else None)


def on_edit() -> None:
    """What was typed, cell by cell."""
    typed = [str(each)[:24] for each in st.session_state[Part.MATRICES].edit["texts"]]
    if len(typed) == len(texts_of(DOCUMENT)):
        keep(typed)


def restore() -> None:
    keep(texts_of(DOCUMENT))


def table(steps: Steps, step: float) -> pd.DataFrame:
    """A row for each number of each step."""
    rows = [
        (name, row + 1, column + 1, float(values[row, column]))
        for name, values in numbers(steps, step).items()
        for row in range(values.shape[0])
        for column in range(values.shape[1])
    ]
    return pd.DataFrame(rows, columns=[_("matrix"), _("row"), _("column"), _("value")])


def explain() -> None:
    explanation(
        Part.EXPLANATION,
        [
            r"Q = XW^Q,\quad K = XW^K,\quad V = XW^V",
            r"\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}}\right)V",
        ],
        _(
            "Vaswani et al., section 3.2.1, equation 1: three inputs of four numbers, one head with d_k = 3. The "
            "modules are those of every model here, in float64, with the matrices above as their weights. The paper "
            "divides by √d_k; the tutorial does not. This is the code that has just run:"
        ),
        *(one_head, take_steps, Scores, Scaled, Weights),
    )
