"""The worked example: its matrices in lines, and what its numbers say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from model.experiments.worked_example import LARGEST, SHAPES
from viz.components.arithmetic_views import Matrix, matrices
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.ui.parts import plot_words

if TYPE_CHECKING:
    from torch import Tensor

    from model.experiments.worked_example import CellError, Steps
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
