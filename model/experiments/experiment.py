"""An experiment of the Lab: a statement of tutorials, what is measured of it here and now, and the verdict on it.

The same object is a card of the page and a line of `python -m model experiment`. It speaks English; the application
translates its sentences by their text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean
from typing import TYPE_CHECKING, Any

from model.experiments.rule import SEEDS, Quantity, Rule, Verdict
from model.experiments.runner import Report
from model.message import Message

if TYPE_CHECKING:
    from model.experiments.engines.timing import Machine
    from model.inference.text_model import TextModel


class Group(StrEnum):
    """Group of statements in the index."""

    SIMILARITY = "similarity and softmax"
    POSITIONS = "positions"
    ATTENTION = "attention"
    MASKS = "masks"
    NORMS = "norms and residuals"
    TRAINING = "training"
    COST = "cost"
    ARCHITECTURES = "other architectures"


@dataclass(frozen=True)
class Curve:
    """Values `ys` over `xs`; low, high: their range over the seeds. style: "line", "dots" or "bars".

    beside: it belongs to the curve before it, has its colour, and the legend leaves it out.
    """

    name: str
    xs: Sequence[int] | Sequence[float]
    ys: Sequence[int] | Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    style: str = "line"
    dash: bool = False
    beside: bool = False


def over_seeds(
    name: str,
    xs: Sequence[int] | Sequence[float],
    values: Iterable[Sequence[float]],
    style: str = "line",
    mean: Callable[[Sequence[float]], float] = fmean,
) -> Curve:
    """Curve of the mean over the seeds, with their range where there are several. values: of the seeds, at each x."""
    at_each = [[float(value) for value in each] for each in values]
    low, high = (
        [end(each) for each in at_each] if max(map(len, at_each), default=0) > 1 else None for end in (min, max)
    )
    return Curve(name, xs, [mean(each) for each in at_each], low, high, style)


@dataclass(frozen=True)
class Curves:
    """Figure of curves. x, y: names of the axes with their units. ticks: names of the places 0, 1, … of the x-axis.
    dashed: what the dashed curves are that stand beside others.
    """

    title: str
    x: str
    y: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False
    ticks: Sequence[str] | None = None
    dashed: str = ""


@dataclass(frozen=True)
class Grid:
    """Figure of a matrix; values: (row, column)."""

    title: str
    values: Sequence[Sequence[float]]
    rows: Sequence[str]
    columns: Sequence[str]
    row: str
    column: str


@dataclass(frozen=True)
class Table:
    """Table of a figure's size: what stands side by side."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | int]]


@dataclass(frozen=True)
class Calculation:
    """Figure of a calculation: steps in their order, each a sentence and matrices of few cells, drawn with numbers."""

    title: str
    steps: Sequence[tuple[str, Sequence[Grid]]]

    @property
    def grids(self) -> list[Grid]:
        """Matrices of all steps."""
        return [grid for _sentence, grids in self.steps for grid in grids]


Figure = Curves | Grid | Table | Calculation


@dataclass(frozen=True)
class TrainedModel:
    """Model that an experiment has trained, which every page can show."""

    name: str
    model: TextModel


@dataclass(frozen=True)
class Outcome:
    """Findings so far: the rule with its verdict, the sentence with the numbers that it rests on, and the figures.

    rule: None where nothing can be judged, or not yet. models: those that were trained for it, once they are. remarks:
    what else the numbers say. machine: the one whose times are among the numbers.
    """

    rule: Rule | None
    reason: Message
    quantities: Sequence[Quantity] = ()
    figures: Sequence[Figure] = ()
    models: Sequence[TrainedModel] = ()
    remarks: Sequence[Message] = ()
    machine: Machine | None = None

    @property
    def verdict(self) -> Verdict:
        """Verdict of the rule; open without one."""
        return self.rule.verdict if self.rule else Verdict.OPEN

    @property
    def notes(self) -> list[Message]:
        """Remarks, those of the rule first."""
        return [*(self.rule.remarks if self.rule else ()), *self.remarks]


@dataclass(frozen=True)
class Parameter:
    """Number, one of some words, or a text, that can be changed before the experiment is run again.

    default: decides the type, int, float or str. low, high: of a number. choices: of a word; none: any text. long: the
    text may have many lines; hint: what stands in its place while there is none. columns: of a text that is a table,
    "name: number, number; …", its first column the names.
    """

    name: str
    label: str
    default: int | float | str
    low: int | float = 0
    high: int | float = 0
    choices: Sequence[str] = ()
    long: bool = False
    hint: str = ""
    columns: Sequence[str] = ()

    def read(self, text: str) -> int | float | str:
        """Value of a text as it is typed.

        Raises:
            ValueError: it is no such number or word, or outside of the limits.
        """
        if isinstance(self.default, str):
            if self.choices and text not in self.choices:
                raise ValueError(f"{self.name} is {text!r}; it can be {', '.join(self.choices)}")
            return text
        try:
            value = type(self.default)(text)
        except ValueError:
            raise ValueError(f"{self.name} is {text!r}; it must be a number, as {self.default}") from None
        if not self.low <= value <= self.high:
            raise ValueError(f"{self.name} is {text}; it must be from {self.low:g} to {self.high:g}")
        return value


@dataclass(frozen=True)
class Request:
    """Input of an experiment. model, text: what is loaded and typed. values: of its parameters, by their names.

    Experiments that need no model read neither of the first two. seeds: of weights, batches and random numbers.
    """

    model: TextModel
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[int] = tuple(range(1, SEEDS + 1))


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Statement of the tutorials with the run that judges it.

    name: in the address and on the command line. row: its number among the fifty. truth: what holds whatever is
    measured. run: yields outcomes with the share that is done; the last one stands. of_model: it looks at the loaded
    model and the text. seeded: chance plays a part. seconds: about, of each seed; once: of what seeds do not repeat.
    fewest: seeds that it is run with in any case. forecast: seconds of a request by a piece of it that is measured now,
    in proportion to its seeds; raises ValueError for one that cannot be.
    formulas: LaTeX. method: how it is measured. code: what computes it, for the reader. source: paper, section.
    """

    name: str
    row: int
    group: Group
    statement: Message
    truth: Message
    run: Callable[[Request], Iterator[Report[Outcome]]]
    parameters: Sequence[Parameter] = ()
    of_model: bool = False
    seeded: bool = False
    seconds: float = 1.0
    once: float = 0.0
    fewest: int = 1
    forecast: Callable[[Request], float] | None = None
    formulas: Sequence[str] = ()
    method: Message | None = None
    code: Sequence[Any] = ()
    source: str = ""

    def about(self, seeds: int) -> float:
        """Seconds that it takes with so many seeds, about."""
        return self.once + self.seconds * max(seeds, self.fewest)

    def request(
        self, model: TextModel, text: str, values: Mapping[str, Any], seeds: Sequence[int] = Request.seeds
    ) -> Request:
        """Request with the defaults of the parameters beneath `values`.

        Raises:
            ValueError: a value is of a parameter that the experiment does not have.
        """
        defaults = {parameter.name: parameter.default for parameter in self.parameters}
        if unknown := sorted(values.keys() - defaults.keys()):
            raise ValueError(
                f"{self.name} has no parameter {', '.join(unknown)}; it has {', '.join(defaults) or 'none'}"
            )
        return Request(model, text, defaults | dict(values), seeds if self.seeded else seeds[:1])


def at_once(find: Callable[[Request], Outcome]) -> Callable[[Request], Iterator[Report[Outcome]]]:
    """Run of an experiment that takes no time worth a progress bar."""

    def run(request: Request) -> Iterator[Report[Outcome]]:
        yield Report(1.0, find(request))

    return run
