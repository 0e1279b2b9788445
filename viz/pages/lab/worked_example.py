"""The worked example: its matrices in lines, and what its numbers say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from model.experiments.worked_example import (
    DOCUMENT,
    LARGEST,
    SHAPES,
    CellError,
    Rows,
    Steps,
    one_head,
    parse,
    take_steps,
    texts_of,
)
from model.inference.text_model import TextModel
from model.network.attention import Scaled, Scores, Weights
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.pages.lab.components import Matrix, matrices
from viz.pages.lab.experiment import show_claim
from viz.state.session import choose, current_session
from viz.ui.parts import Views, data_table, expander, explanation, mount, plot_words

if TYPE_CHECKING:
    from torch import Tensor

    from viz.components.plots import Mount

BLUE, VERMILION, GREEN, PURPLE = (0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167)
WEIGHT, PLAIN, ERROR = (92, 124, 250), (128, 128, 128), (230, 159, 0)
COLOURS = {"X": PLAIN, "W_Q": BLUE, "W_K": VERMILION, "W_V": GREEN}
# The weights are rounded to multiples of this.
STEPS = {"half": 0.5, "tenth": 0.1, "hundredth": 0.01}


def step_name(name: str) -> str:
    return _("round to {step}").format(step=STEPS[name])


def pack_matrices(
    steps: Steps, texts: Sequence[str], step: float, bad: CellError | None, key: str, on_edit: Callable[[], None]
) -> Mount:
    """What is typed, and each step from there to the outputs."""
    rounded, outputs = steps.rounded(step)
    inputs = [str(number) for number in range(1, 4)]
    queries, keys = [f"q{number}" for number in inputs], [f"k{number}" for number in inputs]
    channels = inputs

    def made(name: str, formula: str, colour: tuple[int, int, int], values: Tensor, rows: Sequence[str] = inputs,
             columns: Sequence[str] = channels, top: float = 0.0) -> Matrix:  # fmt: skip
        return Matrix(name, formula, colour, rows, columns, values.numpy(), top=top)

    scale = f"× {significant(steps.factor)}" if steps.factor != 1 else _("× 1: left out")
    top = float(steps.weighted.abs().max())
    lines = [
        (_("Inputs and weights, to be typed into"), typed()),
        (
            _("Queries, keys and values"),
            [
                made("Q", "X W_Q", BLUE, steps.query),
                made("K", "X W_K", VERMILION, steps.key),
                made("V", "X W_V", GREEN, steps.value),
            ],
        ),
        (
            _("A row for each query, a column for each key"),
            [
                made(_("Scores"), "Q Kᵀ", PLAIN, steps.scores, queries, keys),
                made(_("Scaled"), scale, PLAIN, steps.scaled, queries, keys),
                made(_("Weights"), "softmax", WEIGHT, steps.weights, queries, keys, 1.0),
                made(_("Rounded"), _("to {step}").format(step=step), WEIGHT, rounded, queries, keys, 1.0),
            ],
        ),
        (
            _("Weighted values: each key's value times its weight"),
            [
                made(query, "w · V", GREEN, values, [f"v{number}" for number in inputs], top=top)
                for query, values in zip(queries, steps.weighted, strict=True)
            ],
        ),
        (
            _("Their sums: the outputs"),
            [
                made(_("Outputs"), _("weights · V"), PURPLE, steps.outputs),
                made(_("Rounded outputs"), _("rounded · V"), PURPLE, outputs),
                made(_("Error"), _("of the rounding"), ERROR, outputs - steps.outputs, top=top),
            ],
        ),
    ]
    header = {
        "name": _("Attention by hand"),
        "sentence": _("three inputs, one head, d_k = 3"),
        "wrong": place_of(bad) if bad else -1,
        "sentence_wrong": bad_words(bad) if bad else "",
        "file": "worked-example",
        "stamp": f"{' '.join(texts)} {step} {steps.factor}",
        "words": plot_words(_("matrix"), _("row"), _("column"), _("value")) | {"row": _("row"), "column": _("column")},
    }
    return matrices(lines, texts, header, key, on_edit)


def typed() -> list[Matrix]:
    """The matrices that are typed into."""
    found, first = [], 0
    formulas = {"X": _("inputs"), "W_Q": _("for queries"), "W_K": _("for keys"), "W_V": _("for values")}
    for name, (rows, columns) in SHAPES.items():
        down, across = ([str(number) for number in range(1, count + 1)] for count in (rows, columns))
        found.append(Matrix(name, formulas[name], COLOURS[name], down, across, first=first))
        first += rows * columns
    return found


def place_of(bad: CellError) -> int:
    """The cell's place among all."""
    before = 0
    for name, (rows, columns) in SHAPES.items():
        if name == bad.name:
            return before + bad.row * columns + bad.column
        before += rows * columns
    raise KeyError(bad.name)


def bad_words(bad: CellError) -> str:
    place = {"name": bad.name, "row": bad.row + 1, "column": bad.column + 1, "text": bad.text[:20]}
    sentence = {
        "empty": _("{name}, row {row}, column {column} is empty: write a number, such as 0."),
        "text": _("{name}, row {row}, column {column}: “{text}” is not a number: write one, such as 0.5."),
        "large": _("{name}, row {row}, column {column}: “{text}” is too large: write a number from −{most} to {most}."),
    }[bad.reason]
    return sentence.format(**place, most=f"{LARGEST:,.0f}")


def numbers(steps: Steps, step: float) -> dict[str, Tensor]:
    """Every computed matrix by its name."""
    rounded, outputs = steps.rounded(step)
    weighted = {_("weighted values of q{number}").format(number=at + 1): each for at, each in enumerate(steps.weighted)}
    return {
        "Q": steps.query,
        "K": steps.key,
        "V": steps.value,
        _("Scores"): steps.scores,
        _("Scaled"): steps.scaled,
        _("Weights"): steps.weights,
        _("Rounded"): rounded,
        **weighted,
        _("Outputs"): steps.outputs,
        _("Rounded outputs"): outputs,
        _("Error"): outputs - steps.outputs,
    }


def verdicts(steps: Steps, other: Steps, step: float, scaled: bool) -> list[str]:
    """What the rounding and the factor do to these numbers. other: the same with the factor, or without it."""
    rounded, outputs = steps.rounded(step)
    error = (outputs - steps.outputs).abs()
    first = _(
        "First input: the true weights are {weights}, its output {output}; "
        "rounded to multiples of {step}: {rounded}, {wrong}."
    )
    said = [
        first.format(
            weights=written(steps.weights[0]),
            output=f"({written(steps.outputs[0])})",
            step=step,
            rounded=written(rounded[0]),
            wrong=f"({written(outputs[0])})",
        )
    ]
    if float(error.max()) < 1e-9:
        said.append(_("Here the rounding changes no output."))
    else:
        worst = int(error.amax(dim=-1).argmax())
        sentence = _("The rounding moves the outputs by up to {error}, most that of input {number}.")
        said.append(sentence.format(error=significant(float(error.max())), number=worst + 1))
    sums = rounded.sum(dim=-1)
    if (off := (sums - 1).abs() > 1e-9).any():
        at = int(off.nonzero()[0])
        sentence = _("Rounded, the weights of input {number} sum to {total}: they are no distribution any more.")
        said.append(sentence.format(number=at + 1, total=significant(float(sums[at]))))
    else:
        said.append(_("Rounded, the weights of every input still sum to 1."))
    moved = float((other.outputs - steps.outputs).abs().max())
    sentence = (
        _("Without 1/√d_k the first weights would be {weights}; the outputs differ by up to {moved}.")
        if scaled
        else _("With 1/√d_k the first weights would be {weights}; the outputs differ by up to {moved}.")
    )
    return [*said, sentence.format(weights=written(other.weights[0]), moved=significant(moved))]


def written(values: Tensor) -> str:
    return ", ".join(significant(value) for value in values.tolist())


# Three inputs through one head of attention, every step with its numbers; every number of the inputs and of the
# matrices can be changed.

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


def section(_model: TextModel) -> Views:
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
        data = expander(Part.DATA, _("Data"))

    def views(_model: TextModel) -> Iterator[None]:
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
    current_session().say(Part.EXAMPLE, written if told else None)


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
