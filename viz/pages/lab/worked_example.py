"""The worked example: its matrices in lines, and what its numbers say."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from model.experiments.engines.worked_example import (
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
from model.message import Message
from model.network.attention import Scaled, Scores, Weights
from viz.components.view import live
from viz.figures.colours import ATTENTION, FIRST, KEY, OUTPUT, PLAIN, QUERY, VALUE
from viz.figures.figure import About, Caption
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.pages.lab.components import Matrices, Matrix
from viz.pages.lab.experiment import Findings, Instrument, Live
from viz.render.view import view
from viz.state.session import choose, current_session

if TYPE_CHECKING:
    from torch import Tensor

COLOURS = {"X": PLAIN, "W_Q": QUERY, "W_K": KEY, "W_V": VALUE}
# The weights are rounded to multiples of this.
STEPS = {"half": 0.5, "tenth": 0.1, "hundredth": 0.01}
LONGEST = 400  # letters in the address


class Part(StrEnum):
    """Names in the session state; EXAMPLE, SCALE and ROUND are parameters of the address bar too."""

    EXAMPLE = "example"
    SCALE = "example_scale"
    ROUND = "example_round"
    GOOD = "example_good"
    MATRICES = "example_matrices"
    RESTORE = "example_restore"


def experiment(_model: TextModel) -> Instrument:
    """Three inputs through one head of attention, every step with its numbers; every number of the inputs and of the
    matrices can be changed.
    """
    return Instrument(
        key="example",
        claim=_(
            "By hand, without 1/√d_k and with the first input's weights rounded to 0, 0.5, 0.5, the first output is "
            "(2, 7, 1.5)."
        ),
        truth=_(
            "The paper multiplies the scores by 1/√d_k, and the true weights are not rounded: what that changes is "
            "said below. Every cell of the first line can be changed."
        ),
        parts=[controls],
        plain=_(
            "One attention head, small enough to be followed with a pencil: three inputs, every step with its "
            "numbers. Change a number, and see what it does to all that comes after it."
        ),
        formulas=[
            r"Q = XW^Q,\quad K = XW^K,\quad V = XW^V",
            r"\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}}\right)V",
        ],
        explanation=_(
            "Three inputs go through one head of attention, and every number on the way is shown. Change one of the "
            "first line, and all that follows is computed anew. "
            "Vaswani et al., section 3.2.1, equation 1: three inputs of four numbers, one head with d_k = 3. The "
            "modules are those of every model here, in float64, with the matrices above as their weights. The paper "
            "divides by √d_k; the tutorial does not. This is the code that has just run:"
        ),
        code=(one_head, take_steps, Scores, Scaled, Weights),
    )


def controls() -> Live:
    row = st.container(key="choices_example", horizontal=True, vertical_alignment="center")
    scales = {"off": _("without 1/√d_k"), "on": _("with 1/√d_k")}
    scaled = choose(_("Scale"), list(scales), "off", Part.SCALE, scales.__getitem__, row) == "on"
    roundings = {name: _("round to {step}").format(step=step) for name, step in STEPS.items()}
    step = STEPS[choose(_("Round to"), list(STEPS), "half", Part.ROUND, roundings.__getitem__, row)]
    row.button(_("As in the tutorial"), key=Part.RESTORE, on_click=restore)
    return Live(partial(findings, scaled, step))


def findings(scaled: bool, step: float) -> Findings:
    """Findings on the cells as they are typed; while one of them is no number, on those before."""
    typed = texts()
    bad: CellError | None = None
    try:
        current_session().memory[Part.GOOD] = parse(typed)
    except CellError as error:
        bad = error
    good: dict[str, Rows] = current_session().memory.get(Part.GOOD, DOCUMENT)
    steps, other = take_steps(good, scaled), take_steps(good, not scaled)
    wrong = (place_of(bad), bad_words(bad)) if bad else (-1, "")
    figure = view(Part.MATRICES, matrices(steps, typed, step, wrong), edit=on_edit)
    sentences = [wrong[1]] if bad else verdicts(steps, other, step, scaled)
    return Findings(sentences, [[figure]], figure.table, "worked-example")


def matrices(steps: Steps, texts: Sequence[str], step: float, wrong: tuple[int, str]) -> Matrices:
    """Matrices that are typed, and each step from there to the outputs. wrong: place of a cell that is no number, and
    the sentence on it.
    """
    inputs, queries, keys, values = ([f"{letter}{number}" for number in range(1, 4)] for letter in ("", "q", "k", "v"))
    of_inputs = partial(Matrix, rows=inputs, columns=inputs)
    of_queries = partial(Matrix, rows=queries, columns=keys)
    scale = f"× {significant(steps.factor)}" if steps.factor != 1 else Message("× 1: left out")
    top = float(steps.weighted.abs().max())
    rounded, outputs = (each.numpy() for each in steps.rounded(step))
    lines: dict[str, Sequence[Matrix]] = {
        Message("Inputs and weights, to be typed into"): typed_matrices(),
        Message("Queries, keys and values"): [
            of_inputs("Q", "X W_Q", QUERY, steps.query.numpy()),
            of_inputs("K", "X W_K", KEY, steps.key.numpy()),
            of_inputs("V", "X W_V", VALUE, steps.value.numpy()),
        ],
        Message("A row for each query, a column for each key"): [
            of_queries(Message("Scores"), "Q Kᵀ", PLAIN, steps.scores.numpy()),
            of_queries(Message("Scaled"), scale, PLAIN, steps.scaled.numpy()),
            of_queries(Message("Weights"), "softmax", ATTENTION, steps.weights.numpy(), top=1.0),
            of_queries(Message("Rounded"), Message("to {step}", step=step), ATTENTION, rounded, top=1.0),
        ],
        Message("Weighted values: each key's value times its weight"): [
            Matrix(query, "w · V", VALUE, weighted.numpy(), rows=values, columns=inputs, top=top)
            for query, weighted in zip(queries, steps.weighted, strict=True)
        ],
        Message("Their sums: the outputs"): [
            of_inputs(Message("Outputs"), Message("weights · V"), OUTPUT, steps.outputs.numpy()),
            of_inputs(Message("Rounded outputs"), Message("rounded · V"), OUTPUT, outputs),
            of_inputs(Message("Error"), Message("of the rounding"), FIRST, outputs - steps.outputs.numpy(), top=top),
        ],
    }
    stamp = f"{' '.join(texts)} {step} {steps.factor}"
    name, sentence = Message("Attention by hand"), Message("three inputs, one head, d_k = 3")
    above = Caption(name, "worked-example", stamp, sentence=sentence, about=about(steps.factor))
    names = {"row": Message("row"), "column": Message("column")}
    return Matrices(above, lines, texts, *wrong, words=names)


def about(factor: float) -> About:
    scores = r"\frac{QK^\top}{\sqrt{d_k}}" if factor != 1 else r"QK^\top"
    sentence = Message(
        "One head of attention on paper, from the inputs X and the three weights to the outputs; type any number."
    )
    formulas = [r"Q = X W_Q, \quad K = X W_K, \quad V = X W_V", rf"\mathrm{{softmax}}\left({scores}\right) V"]
    return About(
        sentence,
        formulas,
        [take_steps, Steps],
        meaning=Message("Each line is one step of the formula: a slip on paper is found where it was made."),
    )


def typed_matrices() -> list[Matrix]:
    """Matrices that are typed into."""
    fields, first = [], 0
    formulas = Message("inputs"), Message("for queries"), Message("for keys"), Message("for values")
    for (name, (rows, columns)), formula in zip(SHAPES.items(), formulas, strict=True):
        down, across = ([str(number) for number in range(1, count + 1)] for count in (rows, columns))
        fields.append(Matrix(name, formula, COLOURS[name], rows=down, columns=across, first=first))
        first += rows * columns
    return fields


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


def verdicts(steps: Steps, other: Steps, step: float, scaled: bool) -> list[str]:
    """Sentences on the effect of the rounding and of the factor. other: the same with the factor, or without it."""
    rounded, outputs = steps.rounded(step)
    error = (outputs - steps.outputs).abs()
    first = _(
        "First input: the true weights are {weights}, its output {output}; "
        "rounded to multiples of {step}: {rounded}, {wrong}."
    )
    sentences = [
        first.format(
            weights=written(steps.weights[0]),
            output=f"({written(steps.outputs[0])})",
            step=step,
            rounded=written(rounded[0]),
            wrong=f"({written(outputs[0])})",
        )
    ]
    if float(error.max()) < 1e-9:
        sentences.append(_("Here the rounding changes no output."))
    else:
        worst = int(error.amax(dim=-1).argmax())
        sentence = _("The rounding moves the outputs by up to {error}, most that of input {number}.")
        sentences.append(sentence.format(error=significant(float(error.max())), number=worst + 1))
    sums = rounded.sum(dim=-1)
    if (off := (sums - 1).abs() > 1e-9).any():
        at = int(off.nonzero()[0])
        sentence = _("Rounded, the weights of input {number} sum to {total}: they are no distribution any more.")
        sentences.append(sentence.format(number=at + 1, total=significant(float(sums[at]))))
    else:
        sentences.append(_("Rounded, the weights of every input still sum to 1."))
    moved = float((other.outputs - steps.outputs).abs().max())
    sentence = (
        _("Without 1/√d_k the first weights would be {weights}; the outputs differ by up to {moved}.")
        if scaled
        else _("With 1/√d_k the first weights would be {weights}; the outputs differ by up to {moved}.")
    )
    return [*sentences, sentence.format(weights=written(other.weights[0]), moved=significant(moved))]


def written(values: Tensor) -> str:
    return ", ".join(significant(value) for value in values.tolist())


def texts() -> list[str]:
    """All cells as they are typed: in this session, else in the address, else in the document."""
    session = current_session()
    if Part.EXAMPLE not in session.memory:
        standard = texts_of(DOCUMENT)
        given = (session.address.get(Part.EXAMPLE) or "").split(",")
        session.memory[Part.EXAMPLE] = [each[:24] for each in given] if len(given) == len(standard) else standard
    cells: list[str] = session.memory[Part.EXAMPLE]
    return cells


def keep(typed: list[str]) -> None:
    """Remember the cells; in the address too, where they are others than the document's and short enough."""
    session = current_session()
    session.memory[Part.EXAMPLE] = typed
    written = ",".join(each.strip() for each in typed)
    changed = typed != texts_of(DOCUMENT) and len(written) <= LONGEST and written.count(",") == len(typed) - 1
    session.address.set(Part.EXAMPLE, written if changed else None)


@live
def on_edit(clicked: dict[str, Any]) -> None:
    """Take in what was typed, cell by cell."""
    typed = [str(each)[:24] for each in clicked["texts"]]
    if len(typed) == len(texts_of(DOCUMENT)):
        keep(typed)


def restore() -> None:
    keep(texts_of(DOCUMENT))
