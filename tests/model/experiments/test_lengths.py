"""Trained short, tested long: which lengths, on which texts, and what counts as right."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from model.data.tasks import find_task
from model.experiments import arms as lengths
from model.experiments.arms import COMPARISONS, SOURCES, begin, room, setup_of, unseen
from model.experiments.side_by_side import learners

SIZES = {"steps": 1, "d_model": 8, "depth": 1, "warmup": 0, "task": "copy", "lengths": (3, 4)}


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    monkeypatch.setattr("model.experiments.side_by_side.PAIRS", 200)
    monkeypatch.setattr("model.experiments.arms.SOURCES", 6)


def test_lengths_reach_from_the_shortest_to_the_longest_with_the_last_trained_one() -> None:
    assert lengths.tested_lengths((3, 4, 5), 9) == [3, 4, 5, 6, 7, 8, 9]
    found = lengths.tested_lengths(tuple(range(3, 9)), 60)
    assert 8 in found
    assert len(found) <= 15
    assert found[0] >= 3
    assert 55 < found[-1] <= 60


def test_sources_are_of_the_length_right_and_unknown() -> None:
    known = {pair.source for pair in unseen("reverse", 3, set(), 1)}
    fresh = unseen("reverse", 3, known, 1)
    assert known.isdisjoint(pair.source for pair in fresh)
    assert all(len(pair.source) == 3 and find_task("reverse").solve(pair.source) == pair.target for pair in fresh)
    assert SOURCES > 6 == len(fresh)
    assert not unseen("sort", 1, set("0123456789"), 1)


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only"])
def test_every_arm_is_tested_at_every_length(kind, monkeypatch) -> None:
    monkeypatch.setattr("model.experiments.arms.SOURCES", 2)  # an untrained model writes on and on
    reports = list(begin("positions", setup_of("positions", kind, **SIZES), 5))
    side = reports[-1].result
    arms = COMPARISONS["positions"].arms(setup_of("positions", kind, **SIZES))
    assert [(each.length, each.arm) for each in side.tests] == [(n, arm.name) for n in (3, 4, 5) for arm in arms]
    assert reports[0].result.due == 15
    assert not reports[0].result.done
    assert side.done
    assert reports[-1].share == pytest.approx(1.0)
    assert side.trained == 4
    assert all(0 <= each.exact <= each.tokens <= 1 for each in side.tests)


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only"])
def test_right_to_the_character_is_what_is_written(kind, monkeypatch) -> None:
    chosen = setup_of("positions", kind, **SIZES, max_length=24)
    made, _chance = learners(COMPARISONS["positions"].arms(chosen)[:1], chosen)
    pairs = unseen("copy", 4, set(), 3)
    asked = []

    def answers(sources, **_options):
        asked.extend(sources)
        return [SimpleNamespace(text=pair.target if number else "wrong") for number, pair in enumerate(pairs)]

    monkeypatch.setattr(made[0].model, "generate_batch", answers)
    assert lengths.answered_at(made[0], chosen, pairs, 4).exact == pytest.approx(5 / 6)
    assert asked == [pair.source + ("=" if kind == "decoder-only" else "") for pair in pairs]


def test_learned_positions_have_rows_for_the_longest_text() -> None:
    chosen = setup_of("positions", "encoder-decoder", **SIZES)
    assert room(chosen, 20) == 22
    with pytest.raises(ValueError, match="must be above"):
        next(begin("positions", chosen, 4))
