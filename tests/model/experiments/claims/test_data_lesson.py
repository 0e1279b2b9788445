"""The data lesson: the corpora's shares, the distance, and the verdict where both corpora are one."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import torch

from model.experiments.claims.data_lesson import NORTH, SOUTH, Lesson, distance, judge, sentences, teach
from model.experiments.index import experiments
from model.experiments.rule import Verdict


@pytest.mark.parametrize(("town", "share"), [(NORTH, 0.9), (SOUTH, 0.1)])
def test_the_corpora_have_the_stated_shares(town: dict[str, dict[str, int]], share: float) -> None:
    text = sentences(town, 6000)
    drinks = Counter(re.findall(r"In the morning \w+ drinks (\w+)\.", text))
    assert set(drinks) == {"tea", "coffee"}
    assert drinks["tea"] / drinks.total() == pytest.approx(share, abs=0.03)
    assert NORTH["evening"] == SOUTH["evening"]


def test_the_distance_is_the_most_that_an_event_can_differ_by() -> None:
    p, q = torch.rand(2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)
    events = [[bool(number >> token & 1) for token in range(6)] for number in range(64)]
    most = max(abs(float(p[event].sum() - q[event].sum())) for event in events)
    assert distance(p, q) == pytest.approx(most)


def planted(first: list[list[float]], second: list[list[float]]) -> Lesson:
    return Lesson(
        torch.tensor([first, second], dtype=torch.float64), ["a", "b"], [["a"] * len(first), ["b"] * len(second)], 1
    )


def test_the_verdict_compares_corpora_with_seeds() -> None:
    first, second = [[0.9, 0.1], [0.8, 0.2], [0.85, 0.15]], [[0.1, 0.9], [0.2, 0.8], [0.2, 0.8]]
    assert judge(planted(first, second)).verdict is Verdict.HOLDS
    assert judge(planted(first[:2], second[:2])).verdict is Verdict.OPEN
    chance = planted([[0.9, 0.1], [0.1, 0.9], [0.5, 0.5]], [[0.8, 0.2], [0.2, 0.8], [0.5, 0.5]])
    assert judge(chance).verdict is Verdict.WRONG
    unclear = planted([[0.9, 0.1], [0.5, 0.5], [0.9, 0.1]], [[0.4, 0.6], [0.1, 0.9], [0.1, 0.9]])
    assert judge(unclear).verdict is Verdict.OPEN


def test_two_corpora_differ() -> None:
    texts = ["Anna drinks tea.\n" * 20, "Anna drinks coffee.\n" * 20]
    *_before, last = teach(texts, "Anna drinks", 45, 16, (1, 2, 3))
    assert judge(last).verdict is Verdict.HOLDS
    assert [answer.split(".")[0] for corpus in last.answers for answer in corpus] == ["tea"] * 3 + ["coffee"] * 3


def test_one_corpus_twice_does_not_differ() -> None:
    *_before, last = teach(["Anna drinks tea.\n" * 20] * 2, "Anna drinks", 5, 16, (1, 2, 3))
    assert torch.equal(last.distributions[0], last.distributions[1])  # the same text and seed is the same network
    assert judge(last).verdict is Verdict.WRONG


def test_own_texts_can_be_given() -> None:
    experiment = experiments()["data-lesson"]
    assert experiment.parameters[1].read("any text") == "any text"  # as the command line gives it
    values = {"first": "one two one two " * 20, "second": "one three " * 20, "prompt": "one", "steps": 5, "d_model": 8}
    reports = list(experiment.run(experiment.request(None, "", values)))  # type: ignore[arg-type]
    assert reports[-1].share == 1
    assert len(reports[-1].result.figures) == 2


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="the prompt is empty"):
        next(teach(["a b c", "a b d"], " ", 1, 8, (1, 2)))
