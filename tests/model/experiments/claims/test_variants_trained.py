"""Variants trained in the place of full attention: the arms, a course, and the verdict where it must flip."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from model.experiments.claims.variants_trained import NONE, arm_of, compared_of, judge, setup_of, trained
from model.experiments.engines.ab_training import Course, Side, learners
from model.experiments.index import experiments
from model.experiments.rule import Verdict
from model.experiments.variants.variant import Sizes
from tests.model.experiments.claims.judging import verdict_of

pytestmark = pytest.mark.unchecked

SIZES = Sizes(width=4, rank=4, features=8)
VALUES = {"task": "sort", "kind": "decoder-only", "steps": 5, "d_model": 16}
CHANCE = 3.0


@pytest.fixture(autouse=True)
def _few_pairs(monkeypatch):
    monkeypatch.setattr("model.experiments.engines.ab_training.PAIRS", 300)


def side(losses: dict[str, float], steps: int = 10, seeds: int = 3, noise: float = 0.01) -> Side:
    """Losses of each variant but full attention that differ by `noise` from seed to seed."""
    courses = tuple(
        Course(key, seed, 100, losses=(loss + seed * noise * (key != "full"),) * steps, seconds=0.1)
        for seed in range(seeds)
        for key, loss in losses.items()
    )
    return Side(courses, steps, CHANCE)


@pytest.mark.parametrize(
    ("learnt", "expected"),
    [
        ({"full": 1.0, "window": 1.0, "linear": 0.9, NONE: 2.5}, Verdict.HOLDS),
        ({"full": 1.0, "window": 2.0, "linear": 0.9, NONE: 2.5}, Verdict.IN_PART),
        ({"full": 1.0, "window": 2.0, "linear": 2.0, NONE: 2.5}, Verdict.WRONG),
        ({"full": 1.0, "window": 1.0, "linear": 1.0, NONE: 1.0}, Verdict.OPEN),  # nothing is needed
        ({"full": 2.9, "window": 2.9, "linear": 2.9, NONE: 2.9}, Verdict.OPEN),  # nothing is learnt
        ({"full": 1.0, "window": 1.1, "linear": 0.9, NONE: 2.5}, Verdict.OPEN),  # a twentieth less, give or take
    ],
)
def test_the_verdict_follows_the_losses(learnt: dict[str, float], expected: Verdict) -> None:
    compared = [each for each in compared_of(SIZES, "decoder-only") if each.key in learnt]
    assert verdict_of(judge(compared, side(learnt))[0]) is expected
    for few in (1, 2):
        rule, reason = judge(compared, side(learnt, seeds=few))
        assert verdict_of(rule) is Verdict.OPEN
        assert str(reason).startswith("the seeds do not decide whether more is learnt")
    if expected is Verdict.HOLDS:
        assert verdict_of(judge(compared, side(learnt, noise=0.5))[0]) is Verdict.OPEN
    assert verdict_of(judge(compared, replace(side(learnt), steps=20))[0]) is Verdict.OPEN


def test_only_what_can_write_is_trained_in_a_decoder() -> None:
    writing, reading = ({each.key for each in compared_of(SIZES, kind)} for kind in ("decoder-only", "encoder-decoder"))
    assert reading - writing == {"low-rank"}
    assert NONE in writing


def test_arms_begin_with_the_same_weights_where_they_have_the_same() -> None:
    compared = [each for each in compared_of(SIZES, "decoder-only") if each.key in ("full", "window", "differential")]
    made, _chance = learners([arm_of(each) for each in compared], setup_of(VALUES, (1,)), 300)
    weights = [dict(each.model.network.named_parameters()) for each in made]
    for other in weights[1:]:
        for name in weights[0]:
            torch.testing.assert_close(other[name], weights[0][name])
    assert len(weights[2]) == len(weights[0]) + 1


@pytest.mark.parametrize("kind", ["decoder-only", pytest.param("encoder-decoder", marks=pytest.mark.slow)])
def test_every_variant_takes_steps_with_each_seed(kind: str) -> None:
    compared = compared_of(SIZES, kind)
    *_before, last = trained(compared, setup_of(VALUES | {"kind": kind}, (1, 2)))
    assert last.share == 1
    assert [len(quantity.values) for quantity in last.result.quantities] == [2] * len(compared)
    assert all(0 < value < 10 for quantity in last.result.quantities for value in quantity.values)
    finals = {quantity.values for quantity in last.result.quantities}
    assert len(finals) == len(compared)  # no two variants are the same


def test_it_is_run_with_every_seed() -> None:
    experiment = experiments()["variants-trained"]
    assert experiment.request(None, "", {}, (1, 2)).seeds == (1, 2)  # type: ignore[arg-type]  # reads no model
