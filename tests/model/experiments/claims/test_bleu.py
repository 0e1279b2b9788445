"""Scores while errors are repaired: what is wrong, how much of it, and a score that falls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from model.checkpoints.load import open_checkpoint
from model.data.pairs import Pair, split_of
from model.experiments.claims import bleu
from model.experiments.experiment import Outcome, Request
from model.experiments.rule import Verdict
from model.inference.text_model import TextModel
from model.training.translation_scores import Scores, score

BUNDLED = Path(__file__).resolve().parents[4] / "checkpoints"
PAIRS = [
    Pair(f"s{number}", f"the {word} sees a {word} here") for number, word in enumerate(("cat", "dog", "owl", "fox"))
]


@pytest.fixture(scope="module")
def model() -> TextModel:
    return open_checkpoint(BUNDLED / "reverse")


def found(model: TextModel, scorer: bleu.Scorer, seeds: tuple[int, ...] = (1,)) -> Outcome:
    request = Request(model, "", {"sentences": 12, "share": 1.0}, seeds)
    *_before, last = bleu.run_of(scorer)(request)
    assert last.share == 1.0
    return last.result


def turned(written, references, tokenizer: str) -> Scores:
    """The opposite of a score: higher is worse."""
    right = score(written, references, tokenizer)
    return replace(right, bleu=100 - right.bleu)


def deaf(written, references, tokenizer: str) -> Scores:
    """A score that hears of few errors nothing."""
    right = score(written, references, tokenizer)
    return replace(right, bleu=min(right.bleu, 50.0))


@pytest.mark.parametrize(
    ("scorer", "expected"), [(score, Verdict.HOLDS), (turned, Verdict.WRONG), (deaf, Verdict.IN_PART)]
)
def test_the_verdict_is_that_of_the_score(model: TextModel, scorer: bleu.Scorer, expected: Verdict) -> None:
    outcome = found(model, scorer, (1, 2, 3))
    assert outcome.verdict is expected
    if scorer is score:
        values = {str(each.name): each.values for each in outcome.quantities}
        assert values["BLEU of reverse"] == (pytest.approx(100.0),)
        assert values["BLEU, none wrong"] == (pytest.approx(100.0),) * 3
        assert all(value < 10 for value in values["BLEU, 100 % wrong"])


def test_the_verdict_needs_a_spread() -> None:
    rising = [[1.0, 2.0], [1.0, 3.0], [2.0, 3.0]]
    assert bleu.rule_of(rising).verdict is Verdict.HOLDS
    assert [bleu.rule_of(rising[:few]).verdict for few in (1, 2)] == [Verdict.OPEN] * 2


def test_errors_are_as_many_as_is_said_and_only_repaired() -> None:
    texts = dict(bleu.corrupted(PAIRS, "13a", [1.0, 0.5, 0.25, 0.0], 1))
    right = {pair.source: pair.target.split() for pair in PAIRS}
    wrong = {
        share: {
            (source, place)
            for source, text in written.items()
            for place, (one, other) in enumerate(zip(text.split(), right[source], strict=True))
            if one != other
        }
        for share, written in texts.items()
    }
    assert {share: len(each) for share, each in wrong.items()} == {1.0: 24, 0.5: 12, 0.25: 6, 0.0: 0}
    assert wrong[0.25] < wrong[0.5] < wrong[1.0]
    for source, place in wrong[0.25]:
        assert len({texts[share][source].split()[place] for share in (1.0, 0.5, 0.25)}) == 1
    assert dict(bleu.corrupted(PAIRS, "13a", [0.5], 2)) != {0.5: texts[0.5]}


def test_pairs_are_held_out_and_suit_the_model(model: TextModel) -> None:
    own = bleu.held_out(model, 50)
    assert own.model is model
    assert own.tokenizer == "char"
    assert len(own.pairs) == 50
    assert all(pair.target == pair.source[::-1] and split_of(pair.source) == "test" for pair in own.pairs)
    chinese = bleu.held_out(open_checkpoint(BUNDLED / "eng-cmn"), 5)
    assert (chinese.model.name, chinese.tokenizer) == ("eng-cmn", "zh")
    reads = bleu.held_out(open_checkpoint(BUNDLED / "shakespeare"), 5)
    assert reads.model.name == "reverse"
