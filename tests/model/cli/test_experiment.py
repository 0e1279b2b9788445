"""python -m model experiment: the list, one experiment, all of them in a table, and what cannot be asked for."""

from __future__ import annotations

import csv
from collections.abc import Iterator

import pytest

from model.__main__ import main
from model.experiments import index
from model.experiments.experiment import (
    Calculation,
    Curve,
    Curves,
    Experiment,
    Grid,
    Group,
    Outcome,
    Parameter,
    Request,
    Table,
)
from model.experiments.rule import Quantity, Rule, exceeds
from model.experiments.runner import Report
from model.message import say


def measure(request: Request) -> Iterator[Report[Outcome]]:
    """Outcome with every kind of figure; a number for each seed."""
    size = request.values["size"]
    grid = Grid("X", ((1.0, -2.0),), ("r",), ("c", "d"), "row", "column")
    figures = (
        Curves("curves", "x", "y", (Curve("a", (1, 2), (3.0, 4.0)),)),
        grid,
        Table("table", ("name", "value"), (("one, two", 7),)),
        Calculation("steps", (("first", (grid,)),)),
    )
    numbers = Quantity("seeds", tuple(float(seed) for seed in request.seeds), "s")
    rule = Rule([exceeds(Quantity("size", (float(size),)), 5.0)])
    yield Report(1.0, Outcome(rule, say("size {size}", size=size), (numbers,), figures))


def broken(_request: Request) -> Iterator[Report[Outcome]]:
    raise ValueError("this cannot be measured | here")
    yield


PLANTED = Experiment(
    name="planted",
    row=3,
    group=Group.COST,
    statement=say("it holds"),
    truth=say("it depends"),
    run=measure,
    parameters=(Parameter("size", "size", 8, 1, 100),),
    seeded=True,
)
BROKEN = Experiment(name="broken", row=4, group=Group.COST, statement=say("so"), truth=say("no"), run=broken)


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "experiments", lambda: {"planted": PLANTED, "broken": BROKEN})
    for name in ("compute_alone", "keep_freed_memory"):  # other tests have both cores, and their memory
        monkeypatch.setattr(f"model.cli.experiment.{name}", lambda: None)


def test_without_a_name_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "--format", "csv"]) == 0
    assert list(csv.reader(capsys.readouterr().out.splitlines())) == [
        ["row", "name", "about"],
        ["3", "planted", "it holds"],
        ["4", "broken", "so"],
    ]


def test_one_is_reported_with_its_numbers_and_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "planted", "--set", "size=2", "--seeds", "3", "--first-seed", "4"]) == 0
    written = capsys.readouterr().out
    assert written.startswith("3. it holds\n   it depends\n")
    assert "wrong: size 2\nrule: It holds if “size” is above 5; otherwise it is wrong.\n" in written
    assert "seeds: 5 ± 1 s (3 seeds)" in written
    assert "curves:\nx,,y\n1,a,3\n2,a,4\n" in written
    assert 'table:\nname,value\n"one, two",7\n' in written
    assert written.endswith("steps:\nfirst: X\nrow \\ column,c,d\nr,1,-2\n")


def test_all_are_a_table_and_one_that_fails_does_not_end_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "--all"]) == 0
    header, _line, first, second = capsys.readouterr().out.splitlines()
    assert header == "| row | name | verdict | statement | reason | rule | seconds |"
    assert first.startswith(
        "| 3 | planted | holds | it holds | size 8 | It holds if “size” is above 5; otherwise it is wrong. | "
    )
    assert second == "| 4 | broken | not run | so | this cannot be measured \\| here |  |  |"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing"], "there is no experiment 'nothing'"),
        (["planted", "--set", "width=2"], "planted has no parameter 'width'; it has size"),
        (["planted", "--set", "size=many"], "size is 'many'; it must be a number, as 8"),
        (["planted", "--set", "size=0"], "size is 0; it must be from 1 to 100"),
        (["planted", "--seeds", "0"], "--seeds is 0; it must be at least 1"),
        (["planted", "--all"], "--all runs every experiment as it is"),
        (["broken"], "this cannot be measured"),
    ],
)
def test_what_cannot_be_asked_for_is_a_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", *arguments]) == 2
    written = capsys.readouterr()
    assert sentence in written.err
    assert "Traceback" not in written.err
