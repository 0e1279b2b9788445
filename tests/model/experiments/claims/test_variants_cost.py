"""Growth of the variants: fitted from planted times, measured once for real, and the verdict where it must flip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from model.experiments.claims.variants_cost import FARTHER, PARTS, lengths_of, measure, outcome
from model.experiments.engines.timing import Task, Times
from model.experiments.experiment import Table
from model.experiments.index import experiments
from model.experiments.rule import Verdict
from model.experiments.variants.index import variants
from model.experiments.variants.variant import Shape, Sizes

SHAPE = Shape(2, 16, 4)
SOME = [each for each in variants(Sizes(features=8)) if each.key in ("full", "window", "linear", "multi-query")]


def planted(exponents: Mapping[str, float], noise: float = 0.0) -> Callable[..., Iterator[dict[str, Times]]]:
    """Clock by which each variant takes nᵖ seconds, more and less by some noise in turn."""
    number = iter(range(len(PARTS)))

    def timer(tasks: Mapping[str, Task]) -> Iterator[dict[str, Times]]:
        at = next(number)
        lengths = {each.key: lengths_of(each, SHAPE.length)[at] for each in SOME}
        seconds = {key: lengths[key] ** exponents[key] * (1 + noise * (-1) ** at) for key in tasks}
        yield {key: Times(each, each, each, 5) for key, each in seconds.items()}

    return timer


TRUE = {"full": 2.0, "window": 1.0, "linear": 1.0, "multi-query": 2.0}


@pytest.mark.parametrize(
    ("exponents", "noise", "expected"),
    [
        (TRUE, 0.01, Verdict.HOLDS),
        (TRUE | {"window": 2.0, "linear": 2.0}, 0.01, Verdict.WRONG),
        (TRUE | {"linear": 2.1}, 0.01, Verdict.IN_PART),
        (TRUE, 0.9, Verdict.OPEN),
    ],
)
def test_the_verdict_follows_the_growth(exponents: Mapping[str, float], noise: float, expected: Verdict) -> None:
    *_before, last = measure(SOME, SHAPE, 16, planted(exponents, noise))
    found = outcome(SOME, last.result)
    assert found.verdict is expected
    if noise < 0.1:
        fitted = [quantity.values[0] for quantity in found.quantities]
        assert fitted == pytest.approx([exponents[each.key] for each in SOME], abs=0.05)


def test_memory_grows_as_claimed_and_cheap_variants_go_farther() -> None:
    *_before, last = measure(SOME, SHAPE._replace(length=64), 64, planted(TRUE))
    assert last.share == 1
    (table, *_figures) = outcome(SOME, last.result).figures
    assert isinstance(table, Table)
    memory = {str(row[0]): row[5] for row in table.rows}
    assert memory["full attention"] == pytest.approx(2, abs=0.3)
    assert memory["sliding window"] == pytest.approx(1, abs=0.3)
    assert memory["linear attention"] == pytest.approx(1, abs=0.3)
    assert lengths_of(SOME[1], 64)[-1] == FARTHER * lengths_of(SOME[0], 64)[-1] == FARTHER * 64


@pytest.mark.slow
def test_every_variant_is_measured() -> None:
    experiment = experiments()["variants-cost"]
    values = {"longest": 64, "heads": 2, "channels": 4, "width": 4, "rank": 4, "features": 8}
    *_before, last = experiment.run(experiment.request(None, "", values))  # type: ignore[arg-type]  # reads no model
    assert last.share == 1
    assert len(last.result.quantities) == len(variants(Sizes()))
