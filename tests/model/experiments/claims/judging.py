"""Running an experiment of the Lab in a test: its last outcome, with what is planted in the place of what it judges."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from model.experiments.experiment import Outcome, Request
from model.experiments.index import experiments
from model.experiments.rule import Rule, Verdict
from model.inference.text_model import TextModel
from model.message import Message, say
from model.network.config import Kind
from tests.model import elsewhere

TEXT = "The cat sees a dog. The bird likes a river."


@cache
def tiny(kind: Kind, **options: Any) -> TextModel:
    return elsewhere.model_of(kind, **options)


def request_of(name: str, model: TextModel | None = None, text: str = TEXT, **values: Any) -> Request:
    return experiments()[name].request(model or tiny("encoder-decoder"), text, values, (1, 2, 3))


def judged(name: str, model: TextModel | None = None, text: str = TEXT, **values: Any) -> Outcome:
    """The last outcome of the experiment as it is."""
    *_others, last = experiments()[name].run(request_of(name, model, text, **values))
    assert last.share == 1.0
    sound(last.result)
    return last.result


def planted(
    find: Callable[..., Outcome],
    name: str,
    model: TextModel | None = None,
    values: dict[str, Any] | None = None,
    **plant: Any,
) -> Verdict:
    """The verdict with `plant` in the place of what the experiment judges."""
    found = find(request_of(name, model, **(values or {})), **plant)
    sound(found)
    return found.verdict


def verdict_of(rule: Rule | None) -> Verdict:
    """Verdict of a rule, as an outcome has it."""
    return Outcome(rule, say("so")).verdict


def sound(outcome: Outcome) -> None:
    """Every sentence has all its values, a title begins with a capital or a sign; curves have as many ys as xs, grids
    and tables are rectangular.
    """
    assert "{" not in str(outcome.reason)
    assert "{" not in str(outcome.rule)
    for quantity in outcome.quantities:
        assert str(quantity.name)
        assert quantity.values
    for figure in outcome.figures:
        assert str(figure.title)
        if isinstance(figure.title, Message):  # else a formula
            first = figure.title.text.split()[0].strip(",:")
            assert not (first.isalpha() and first.islower()), figure.title
        for curve in getattr(figure, "curves", ()):
            assert str(curve.name)
            assert len(curve.xs) == len(curve.ys) > 0
        if hasattr(figure, "values"):
            assert len(figure.values) == len(figure.rows)
            assert all(len(row) == len(figure.columns) for row in figure.values)
        elif hasattr(figure, "columns"):
            assert all(len(row) == len(figure.columns) for row in figure.rows)
