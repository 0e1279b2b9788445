"""Outcome of an experiment in the language in use: its sentences, its numbers, its figures."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, groupby
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
import streamlit as st

from model.experiments.experiment import Calculation, Curve, Curves, Figure, Grid, Outcome, Table
from model.experiments.rule import Quantity, Verdict
from model.message import Message
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Chart, Series
from viz.figures.colours import EXPECTED, PLAIN, SERIES
from viz.figures.figure import About, Caption
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _, ngettext
from viz.i18n.format import bytes_text, literal, power_text, seconds_text, significant, stopped
from viz.i18n.messages import in_language
from viz.pages.lab.components import Matrices, Matrix
from viz.pages.lab.experiment import Findings, Titled
from viz.pages.lab.explanations import EXPLANATIONS
from viz.render.view import FigureView, view
from viz.ui.parts import Placed

if TYPE_CHECKING:
    from model.experiments.engines.timing import Machine
    from model.experiments.experiment import Experiment

# Of curves, in their order; with more of them the same again, dashed.
COLOURS = (*SERIES[:7], SERIES[8])  # the eighth of the series is near the first
Chip = Literal["green", "orange", "red", "gray"]
HEIGHT, IN_KEY = 220, 8  # pixels of a plot, and of each of its curves for the key above it
MANY = 6  # figures of one kind, of which three stand in a row
FAINT = "59"  # opacity of a range over the seeds
UNITS = re.compile(r"(?<=\d) (?=(?:[mµ]?s|[kMG]B|nats|毫秒|微秒|秒|奈特)(?!\w)|%)")
SPREAD = "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"
LEAST = 1e-4  # below it a number is written with a power of ten
SIZES: dict[str, Callable[[float], str]] = {"bytes": lambda count: bytes_text(round(count)), "s": seconds_text}
MATRICES = (PLAIN, *SERIES[:5])  # colours of a calculation's matrices, in their order
CHIPS: dict[Verdict, Chip] = {
    Verdict.HOLDS: "green",
    Verdict.IN_PART: "orange",
    Verdict.WRONG: "red",
    Verdict.OPEN: "gray",
}


def words(value: int | float | str) -> str:
    """A value or a sentence of an experiment in the language in use; no line begins with a unit."""
    return UNITS.sub("\N{NO-BREAK SPACE}", in_language(rounded(value)))


def rounded(value: int | float | str) -> str:
    """A value as it is written; a sentence with its values so."""
    if isinstance(value, float):
        return significant(value)
    if not isinstance(value, Message):
        return f"{value:,}" if isinstance(value, int) else value
    return Message(value.text, **{name: rounded(each) for name, each in value.values.items()})


def sentence_case(text: str) -> str:
    """A sentence that begins with a capital, where its first word is one of the language and no sign of a formula."""
    first = re.match(r"[a-z]{2,}(?=[ ,;:’'-])|a(?= )", text)
    return text[0].upper() + text[1:] if first else text


def verdict_words(verdict: Verdict) -> str:
    """A verdict as its chip says it."""
    return literal(words(Message(str(verdict))))


@dataclass(frozen=True)
class VerdictFindings(Findings):
    """Findings with the verdict above them, its rule, whether the reader has guessed it, and what is true anyhow.

    rule: in short, where whole_rule has more to it. going: more is being measured, which may turn the verdict.
    """

    verdict: Verdict = Verdict.OPEN
    guess: str = ""
    reason: str = ""
    rule: str = ""
    whole_rule: str = ""
    truth: str = ""
    machine: str = ""
    going: bool = False

    def placed(self) -> list[Placed]:
        guess = f" :gray[· {guessed}]" if (guessed := self.guess_words()) else ""
        verdict = verdict_words(self.verdict)
        chip = f":gray-badge[{_('so far:')} {verdict}]" if self.going else f":{CHIPS[self.verdict]}-badge[{verdict}]"
        st.markdown(f"{chip} {literal(self.reason)}{guess}")
        if self.rule:
            more = literal(self.whole_rule) if self.whole_rule != self.rule else None
            st.caption(f"**{_('Rule:')}** {literal(self.rule)}", help=more)
        if self.truth:
            st.markdown(f"**{_('More exactly:')}** {literal(self.truth)}")
        if self.machine:
            st.caption(literal(self.machine))
        return super().placed()

    def guess_words(self) -> str:
        """Sentence on the guess; nothing where there was none, or nothing is decided."""
        if not self.guess or self.going or self.verdict is Verdict.OPEN:
            return ""
        if self.guess == self.verdict:
            return _("as you guessed")
        return _("you guessed: {guess}").format(guess=verdict_words(Verdict(self.guess)))


def verdict_findings(
    experiment: Experiment, guess: str, going: bool, outcome: Outcome, embedded: bool = False
) -> VerdictFindings:
    """Findings of an outcome: its reason, its numbers, its figures. going: it is not the last one. embedded: what is
    true is said elsewhere.
    """
    plain, symbols = plain_words(experiment)
    about = About(plain, experiment.formulas, experiment.code, symbols=symbols)
    empty = Message("nothing is measured yet: it fills as the measurement goes on") if going else outcome.reason
    drawn = [draw(each, f"statement_{experiment.name}_{at}", about, empty) for at, each in enumerate(outcome.figures)]
    notes = (sentence_case(stopped(words(remark))) for remark in outcome.notes)
    lines = [*map(quantity_line, outcome.quantities), *notes]
    numbers = (lambda: numbers_of(outcome)) if outcome.quantities or outcome.figures else None
    return VerdictFindings(
        lines,
        in_rows(drawn),
        numbers,
        f"statement-{experiment.name}",
        verdict=outcome.verdict,
        guess=guess,
        reason=sentence_case(stopped(words(outcome.reason))),
        rule=stopped(words(outcome.rule.brief)) if outcome.rule else "",
        whole_rule=stopped(words(outcome.rule.text)) if outcome.rule else "",
        truth="" if embedded else words(experiment.truth),
        machine="" if outcome.machine is None else machine_words(outcome.machine),
        going=going,
    )


def machine_words(machine: Machine) -> str:
    """Device, precision, threads and library of products."""
    threads = ngettext("{count} thread", "{count} threads", machine.threads).format(count=machine.threads)
    parts = [machine.device, machine.dtype]
    if machine.device.startswith("CPU"):
        parts.append(threads)
    parts.append(_("time of this thread alone") if machine.cpu_time else _("time by the clock"))
    if machine.library:
        parts.append(_("products by {library}").format(library=machine.library))
    return " · ".join(parts)


def in_rows(drawn: Sequence[FigureView | Titled]) -> list[Sequence[FigureView | Titled]]:
    """Figures in rows: those of one kind two side by side, many of them three, a table in a row of its own; two that
    have none of their kind stand side by side too.
    """
    rows: list[Sequence[FigureView | Titled]] = []
    for kind, several in groupby(drawn, lambda each: type(each.drawn) if isinstance(each, FigureView) else Titled):
        alike = list(several)
        count = 1 if kind is Titled else 3 if len(alike) >= MANY else 2
        rows += [alike[first : first + count] for first in range(0, len(alike), count)]
    for number in range(len(rows) - 1, 0, -1):
        before, after = rows[number - 1 : number + 1]
        if len(before) == len(after) == 1 and not any(isinstance(each, Titled) for each in (*before, *after)):
            rows[number - 1 : number + 1] = [[*before, *after]]
    return rows


def quantity_line(quantity: Quantity) -> str:
    """A measured number; of several seeds their mean with its spread."""
    value = number_text(quantity.mean, quantity.spread, quantity.unit)
    if quantity.spread is not None:
        value = _("{value} (mean ± spread of {count} seeds)").format(value=value, count=len(quantity.values))
    return _("{quantity}: {value}").format(quantity=words(quantity.name), value=value).rstrip()


def number_text(mean: float, spread: float | None, unit: str) -> str:
    """A number with its unit, and its spread with the same power of ten."""
    if unit in SIZES:
        value = SIZES[unit](mean)
        return value if spread is None else f"{value}{SPREAD}{SIZES[unit](spread)}"
    value = significant(mean)
    if spread is not None and 0 < abs(mean) < LEAST:
        power = math.floor(math.log10(abs(mean)))
        pair = SPREAD.join(significant(each / 10**power) for each in (mean, spread))
        value = f"({pair})×{power_text(power)}"
    elif spread is not None:
        value += SPREAD + (f"<\N{NO-BREAK SPACE}{LEAST}" if 0 < spread < LEAST else significant(spread))
    return f"{value}\N{NO-BREAK SPACE}{_('nats') if unit == 'nats' else unit}" if unit else value


def draw(figure: Figure, key: str, about: About, empty: str) -> FigureView | Titled:
    """A figure as a plot, or as the table that it is. empty: why it has no values, where it has none."""
    if isinstance(figure, Table):
        return Titled(words(figure.title), frame(figure))
    return view(key, plot(figure, key.replace("_", "-"), about, empty))


def plot(figure: Curves | Grid | Calculation, file: str, about: About, empty: str) -> Heatmap | Chart | Matrices:
    """A figure of an outcome as one of the application."""
    title = rounded(figure.title)
    if isinstance(figure, Calculation):
        return calculation(figure, Caption(title, file, f"{file} {figure.grids}", about=about))
    if isinstance(figure, Grid):
        values = np.asarray(figure.values, np.float32)
        low = min(0.0, float(np.nanmin(values, initial=0.0)))
        high = float(np.nanmax(values, initial=0.0)) or 1.0
        if low < 0:
            low, high = -max(-low, high), max(-low, high)
        above = Caption(title, file, f"{file} {values.sum():.9g} {values.shape}", about=about)
        rows, columns = Axis(rounded(figure.row), figure.rows), Axis(rounded(figure.column), figure.columns)
        titles = rows.title, columns.title, title
        return Heatmap(above, values, rows, columns, Scale(low, high), cell_titles=titles)
    known = any(np.isfinite(np.asarray(curve.ys, float)).any() for curve in figure.curves)
    stamp = f"{file} {sum(len(curve.xs) for curve in figure.curves)}"
    above = Caption(title, file, stamp, sentence="" if known else rounded(empty), about=about)
    number, series = -1, list[Series]()
    for curve in figure.curves:
        number += not curve.beside
        series += drawn_curve(curve, number)
    series += [*legend_keys(figure, series)]
    ticks = None if figure.ticks is None else list(map(rounded, figure.ticks))
    x, y = Axis(rounded(figure.x), ticks, log=figure.log_x or None), Axis(rounded(figure.y), log=figure.log_y or None)
    return Chart(above, series, x, y, tall=HEIGHT + IN_KEY * len(figure.curves))


def legend_keys(figure: Curves, drawn: Sequence[Series]) -> Iterator[Series]:
    """Names of dashed and pale curves for the legend, which lacks these: in grey, where such curves have several
    colours.
    """
    nowhere = np.empty(0)
    if figure.dashed and any(curve.beside for curve in figure.curves):
        yield Series(rounded(figure.dashed), nowhere, nowhere, EXPECTED, dash=True)
    if pale := {each.colour for each in drawn if each.quiet and each.colour.endswith(FAINT)}:
        colour = pale.pop() if len(pale) == 1 else EXPECTED + FAINT
        yield Series(Message("lowest and highest value"), nowhere, nowhere, colour)


def calculation(figure: Calculation, above: Caption) -> Matrices:
    """Matrices of a calculation, each step in a line of its own, the first digits of their numbers in the cells."""
    hues = cycle(MATRICES)
    lines = {
        rounded(sentence): [
            Matrix(rounded(grid.title), "", next(hues), np.asarray(grid.values), rows=grid.rows, columns=grid.columns)
            for grid in grids
        ]
        for sentence, grids in figure.steps
    }
    return Matrices(above, lines)


def drawn_curve(curve: Curve, number: int) -> Sequence[Series]:
    """A curve, and faint, the ends of its range over the seeds. number: of its colour."""
    name, colour, dash = rounded(curve.name), COLOURS[number % len(COLOURS)], curve.dash or number >= len(COLOURS)
    xs = np.asarray(curve.xs, float)
    series = [Series(name, xs, np.asarray(curve.ys, float), colour, curve.style, dash=dash, quiet=curve.beside)]
    for end in (curve.low, curve.high):
        if end is not None:
            series.append(Series(name, xs, np.asarray(end, float), colour + FAINT, quiet=True))
    return series


def frame(table: Table) -> pd.DataFrame:
    """A table with its numbers as they are written."""
    return pd.DataFrame([list(map(words, row)) for row in table.rows], columns=list(map(words, table.columns)))


def numbers_of(outcome: Outcome) -> pd.DataFrame:
    """Every number of an outcome: the quantities by seed, then the points of its figures."""
    lines: list[tuple[str, str, str, float | str]] = []
    for quantity in outcome.quantities:
        name = words(quantity.name)
        lines += [(name, str(number), quantity.unit, value) for number, value in enumerate(quantity.values, start=1)]
    for figure in outcome.figures:
        title = words(figure.title)
        if isinstance(figure, Grid):
            lines += cells_of(figure)
        elif isinstance(figure, Calculation):
            lines += [line for grid in figure.grids for line in cells_of(grid)]
        elif isinstance(figure, Curves):
            for curve in figure.curves:
                places = [words(figure.ticks[int(x)]) if figure.ticks else significant(x) for x in curve.xs]
                lines += [(title, words(curve.name), place, y) for place, y in zip(places, curve.ys, strict=True)]
        else:
            columns = list(map(words, figure.columns))
            for line in figure.rows:
                cells = list(map(words, line))
                lines += [(title, cells[0], column, cell) for column, cell in zip(columns[1:], cells[1:], strict=True)]
    columns = [_("quantity"), _("seed, row or curve"), _("unit, column or place"), _("value")]
    table = pd.DataFrame(lines, columns=columns)
    table[columns[3]] = table[columns[3]].astype(str)
    return table


def cells_of(grid: Grid) -> list[tuple[str, str, str, float | str]]:
    """Lines of a table with every cell of a matrix."""
    return [
        (words(grid.title), row, column, value)
        for row, values in zip(grid.rows, grid.values, strict=True)
        for column, value in zip(grid.columns, values, strict=True)
    ]


def plain_words(experiment: Experiment) -> tuple[str, str]:
    """Two plain sentences on a card, and the symbols of its formulas."""
    plain, symbols = EXPLANATIONS.get(experiment.name, ("", None))
    return words(plain), words(symbols or "")


def statement_words(experiment: Experiment) -> str:
    """Statement of tutorials, safe in Markdown."""
    return literal(words(experiment.statement))
