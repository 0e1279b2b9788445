"""python -m model experiment: the Lab's statements, judged on this machine."""

from __future__ import annotations

import argparse
import csv
import io
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.experiments.experiment import Calculation, Experiment, Figure, Grid, Outcome, Table
from model.experiments.rule import SEEDS, Quantity
from model.experiments.runner import explained
from model.message import digits
from model.runtime.device import compute_alone, keep_freed_memory

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

COLUMNS = ("row", "name", "verdict", "statement", "reason", "rule", "seconds")
REPORT_EVERY = 2.0  # seconds between two lines of progress


def add_parser(commands: Any) -> None:
    """Add the command to those of argparse."""
    parser = commands.add_parser(
        "experiment",
        help="judge what tutorials say, by measuring it here",
        description="Run one experiment of the Lab, or all of them, and print the verdict with the numbers that it "
        "rests on. Without a name: the list of experiments.",
    )
    parser.add_argument("name", nargs="?", help="experiment, as the list calls it")
    parser.add_argument("--all", action="store_true", help="every experiment, one table")
    parser.add_argument("--checkpoint", type=Path, help="folder of the model that is looked at; a bundled one without")
    parser.add_argument("--text", help="text for that model; its own example without")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="parameter of the experiment")
    parser.add_argument(
        "--seeds",
        type=int,
        default=SEEDS,
        metavar="COUNT",
        help=f"seeds of what chance plays a part in, {SEEDS} without",
    )
    parser.add_argument("--first-seed", type=int, default=1, metavar="SEED", help="first of them")
    parser.add_argument("--format", choices=("markdown", "csv"), default="markdown", help="of the table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the list, an experiment's outcome, or the table of all.

    Raises:
        ValueError: no experiment has this name, a parameter is not its own, or the model cannot be opened.
    """
    from model.experiments.index import experiments

    known = experiments()
    if options.seeds < 1:
        raise ValueError(f"--seeds is {options.seeds}; it must be at least 1")
    if not options.all and options.name is None:
        print_table(
            ("row", "name", "about"), [(e.row, e.name, str(e.statement)) for e in known.values()], options.format
        )
        return
    if options.all and (options.name or options.set):
        raise ValueError("--all runs every experiment as it is: leave out the name and --set")
    if not options.all and options.name not in known:
        raise ValueError(f"there is no experiment {options.name!r}; without a name, all are listed")
    chosen = list(known.values()) if options.all else [known[options.name]]
    values = [parameters(each, options.set) for each in chosen]
    compute_alone()  # as on the page: times are those of one core, without other programs
    keep_freed_memory()  # new pages would be timed with what writes to them
    model = open_model(options.checkpoint)
    text = model.example if options.text is None else options.text
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    if not options.all:
        outcome, _seconds = outcome_of(chosen[0], model, text, values[0], seeds)
        print("\n".join(report(chosen[0], outcome)))
        return
    rows = []
    for each in chosen:
        try:
            outcome, seconds = outcome_of(each, model, text, {}, seeds)
            cells = (str(outcome.verdict), str(outcome.reason), str(outcome.rule or ""), f"{seconds:.1f}")
        except Exception as error:  # noqa: BLE001 - one that cannot be run must not end the others
            cells = ("not run", explained(error), "", "")
        rows.append((each.row, each.name, cells[0], str(each.statement), *cells[1:]))
    print_table(COLUMNS, rows, options.format)


def open_model(folder: Path | None) -> TextModel:
    """Model of a checkpoint folder; the bundled translator without one."""
    from model.checkpoints.load import open_checkpoint

    return open_checkpoint(folder or Path(__file__).parents[2] / "checkpoints" / "eng-cmn")


def parameters(experiment: Experiment, given: Sequence[str]) -> dict[str, Any]:
    """Values of an experiment's parameters from NAME=VALUE.

    Raises:
        ValueError: it has no such parameter, or the value is none for it.
    """
    known = {parameter.name: parameter for parameter in experiment.parameters}
    values = {}
    for text in given:
        name, _equals, value = text.partition("=")
        if name not in known:
            raise ValueError(f"{experiment.name} has no parameter {name!r}; it has {', '.join(known) or 'none'}")
        values[name] = known[name].read(value)
    return values


def outcome_of(
    experiment: Experiment, model: TextModel, text: str, values: Mapping[str, Any], seeds: Sequence[int]
) -> tuple[Outcome, float]:
    """Last outcome of an experiment, and the seconds that it took; progress goes to the error stream."""
    began = last_report = time.monotonic()
    outcome = None
    for report in experiment.run(experiment.request(model, text, values, seeds)):
        outcome = report.result
        if time.monotonic() - last_report > REPORT_EVERY:
            last_report = time.monotonic()
            print(f"{experiment.name}: {100 * report.share:.0f} %", file=sys.stderr)
    if outcome is None:
        raise ValueError(f"{experiment.name} found nothing")
    return outcome, time.monotonic() - began


def report(experiment: Experiment, outcome: Outcome) -> list[str]:
    """Lines about one experiment: statement, verdict, reason, numbers, and the points of its figures."""
    lines = [f"{experiment.row}. {experiment.statement}", f"   {experiment.truth}", ""]
    lines += [f"{outcome.verdict}: {outcome.reason}", *([f"rule: {outcome.rule}"] if outcome.rule else []), ""]
    lines += [quantity_line(each) for each in outcome.quantities]
    lines += [str(remark) for remark in outcome.notes]
    if outcome.machine is not None:
        lines.append(str(outcome.machine))
    for figure in outcome.figures:
        lines += ["", f"{figure.title}:", *figure_lines(figure)]
    return lines


def quantity_line(quantity: Quantity) -> str:
    if quantity.spread is None:
        return f"{quantity.name}: {digits(quantity.mean)} {quantity.unit}".rstrip()
    amount = f"{digits(quantity.mean)} ± {quantity.spread:.2g} {quantity.unit}".rstrip()
    return f"{quantity.name}: {amount} ({len(quantity.values)} seeds)"


def figure_lines(figure: Figure) -> Iterator[str]:
    """Numbers of a figure, as lines of CSV."""
    if isinstance(figure, Calculation):
        for sentence, grids in figure.steps:
            for grid in grids:
                yield f"{sentence}: {grid.title}"
                yield from figure_lines(grid)
        return
    if isinstance(figure, Table):
        header, rows = [str(each) for each in figure.columns], [[cell(each) for each in row] for row in figure.rows]
    elif isinstance(figure, Grid):
        header = [f"{figure.row} \\ {figure.column}", *figure.columns]
        rows = [[name, *map(digits, row)] for name, row in zip(figure.rows, figure.values, strict=True)]
    else:
        header = [str(figure.x), "", str(figure.y)]
        rows = [
            [str(figure.ticks[int(x)]) if figure.ticks else digits(x), str(curve.name), digits(y)]
            for curve in figure.curves
            for x, y in zip(curve.xs, curve.ys, strict=True)
        ]
    yield from csv_lines([header, *rows])


def cell(value: object) -> str:
    return digits(value) if isinstance(value, int | float) else str(value)


def csv_lines(rows: Sequence[Sequence[object]]) -> list[str]:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().splitlines()


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], form: str) -> None:
    """Print a table as Markdown or as CSV."""
    if form == "csv":
        print("\n".join(csv_lines([columns, *rows])))
        return
    print(f"| {' | '.join(columns)} |\n| {' | '.join('---' for _ in columns)} |")
    for row in rows:
        print(f"| {' | '.join(str(value).replace('|', chr(92) + '|') for value in row)} |")
