"""Weights of tokens beside the effect of hiding them: ranks as pandas has them, and networks planted either way."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from model.capture.interventions import Intervention
from model.checkpoints.load import open_checkpoint
from model.experiments.claims import maps
from model.experiments.engines.ab_training import Arm, learners
from model.experiments.engines.training_comparisons import setup_of
from model.experiments.experiment import Grid, Outcome, Request
from model.experiments.rule import Verdict
from model.inference.text_model import TextModel

BUNDLED = Path(__file__).resolve().parents[4] / "checkpoints"
TEXT = "abcdefghijklmno"


@dataclass(frozen=True)
class Planted(Intervention):
    """Weights that grow with the position of a token, and logits that are the attended values of the first head.

    values: of each token, from its score. other: sign of the scores of the other heads.
    """

    explicit: ClassVar[bool] = True
    values: Any
    other: float = 1.0
    seen: list[Tensor] = field(default_factory=list, compare=False)

    def after(self, path: str, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        if path.endswith("cross_attention.scores"):
            sign = torch.full((output.shape[1], 1, 1), self.other)
            sign[0] = 1.0
            return (sign * self.scores(output.shape[-1])).expand_as(output)
        if path.endswith("cross_attention.value"):
            return self.values(self.scores(output.shape[-2]))[:, None].expand_as(output)
        if path.endswith("cross_attention.heads"):
            self.seen[:] = [output[:, 0, :, 0]]
        if path == "output.logits" and self.seen:
            output = torch.zeros_like(output)
            output[..., 5] = 4 * self.seen[0].reshape(output.shape[:-1])
        return output

    @staticmethod
    def scores(count: int) -> Tensor:
        """0 for the first token, the largest for the last."""
        return torch.linspace(0, 2, count)


def first_is_a_sink(scores: Tensor) -> Tensor:
    """The larger a token's weight, the more is lost without it."""
    return (scores > 0).float()


def reversed_values(scores: Tensor) -> Tensor:
    """Values so much larger at small weights that these lose most."""
    return torch.exp(-2 * scores)


@pytest.fixture(scope="module")
def model() -> TextModel:
    setup = setup_of("norms", "encoder-decoder", task="reverse", d_model=8, depth=1, steps=1)
    (learner,), _chance = learners([Arm("pre", {"scale_attention": False})], setup, 200)
    return learner.model


def found(model: TextModel, planted: Planted) -> Outcome:
    request = Request(model, TEXT, {"sentences": 0, "tokens": 40, "file": ""})
    *_before, last = maps.run_of((planted,))(request)
    return last.result


def test_ranks_and_their_correlation_are_those_of_pandas() -> None:
    chance = np.random.default_rng(0)
    x, y = chance.normal(size=20), chance.integers(0, 5, 20).astype(float)  # with ties
    frame = pd.DataFrame({"x": x, "y": y})
    assert maps.ranks(y).tolist() == frame["y"].rank().tolist()
    expected = frame.rank().corr().loc["x", "y"]
    assert maps.correlation(maps.ranks(x), maps.ranks(y)) == pytest.approx(expected)
    assert maps.correlation(maps.centred(x), maps.centred(y)) == pytest.approx(expected)
    assert maps.correlation(maps.ranks(x), np.ones(20)) == 0


def test_the_interval_covers_what_is_true_as_often_as_it_says() -> None:
    chance, inside, count = np.random.default_rng(1), 0, 200
    covariance = [[1.0, 0.6], [0.6, 1.0]]
    expected = 6 / np.pi * np.arcsin(0.6 / 2)  # Spearman's of a normal distribution
    for seed in range(count):
        x, y = chance.multivariate_normal([0, 0], covariance, 60).T
        low, high = maps.agreement(maps.centred(x), maps.centred(y), seed).interval()
        inside += low <= expected <= high
    assert 0.88 <= inside / count <= 0.99
    wide = maps.Agreement(0.2, 0.1)
    assert wide.interval(24)[0] < wide.interval()[0]


def test_where_weights_are_effects_they_agree(model: TextModel) -> None:
    outcome = found(model, Planted(first_is_a_sink))
    assert outcome.verdict is Verdict.HOLDS
    assert outcome.quantities[0].mean == pytest.approx(1.0)


def test_where_weights_run_against_effects_they_do_not(model: TextModel) -> None:
    outcome = found(model, Planted(reversed_values))
    assert outcome.verdict is Verdict.WRONG
    assert outcome.quantities[0].mean == pytest.approx(-1.0)
    assert "number 16 by weight and number 1 by effect" in str(outcome.reason)


def test_where_one_head_alone_agrees_it_is_named(model: TextModel) -> None:
    outcome = found(model, Planted(first_is_a_sink, other=-1.0))
    assert outcome.verdict is Verdict.IN_PART
    assert "1 of 4 heads are surely above 0.5, the best is head 1.1 with 1;" in str(outcome.reason)
    (grid,) = [each for each in outcome.figures if isinstance(each, Grid)]
    assert grid.values == [[pytest.approx(1.0), *[pytest.approx(-1.0)] * 3]]


@pytest.mark.parametrize(
    ("low", "high", "heads", "expected", "words"),
    [
        (0.4, 0.6, False, Verdict.OPEN, "they agree, weakly or more"),
        (-0.1, 0.6, False, Verdict.OPEN, "no agreement is sure"),
        (0.6, 0.8, True, Verdict.HOLDS, "they agree"),
        (0.216, 0.499, False, Verdict.IN_PART, "they agree weakly"),
        (0.2, 0.4, True, Verdict.IN_PART, "they agree weakly"),
        (-0.1, 0.4, False, Verdict.WRONG, "no agreement is sure"),
        (-0.6, -0.4, False, Verdict.WRONG, "they run against each other"),
    ],
)
def test_weak_agreement_is_called_weak(low, high, heads, expected, words) -> None:
    assert maps.rule_of(low, high, heads).verdict is expected
    assert str(maps.strength(low, high)) == words


def test_few_tokens_decide_nothing(model: TextModel) -> None:
    *_before, last = maps.run_of()(Request(model, "abc", {"sentences": 0, "tokens": 40, "file": ""}))
    assert last.result.verdict is Verdict.OPEN
    assert str(last.result.reason).startswith("4 tokens decide nothing")


@pytest.mark.parametrize(
    ("name", "text"), [("shakespeare", "To be, or not to be"), ("fill-mask", "I like [MASK] tea.")]
)
def test_other_kinds_are_looked_at_too(name: str, text: str) -> None:
    model = open_checkpoint(BUNDLED / name)
    *_before, last = maps.token_effects(model, text, 6)
    assert last is not None
    tokens = model.source_tokens(text)
    kept = [place for place in maps.spaced(len(tokens.ids), 6) if name == "fill-mask" or place < len(tokens.ids) - 1]
    assert last.labels == [tokens.labels[place] for place in kept]
    ids = [torch.tensor([tokens.ids])]
    plain = maps.predictions(model, ids, ())
    place, kind = kept[1], "decoder" if name == "shakespeare" else "encoder"
    hidden = maps.predictions(model, ids, maps.hiding(kind, place))
    if kind == "decoder":
        assert torch.equal(plain[:place], hidden[:place])  # earlier queries never saw it
    rows = maps.seeing(kind, len(tokens.ids), place)
    fall = sum(float(plain[row].max() - hidden[row, plain[row].argmax()]) for row in rows) / len(rows)
    assert last.effects[1] == pytest.approx(fall)
    weights = model.trace(text).attention(kind)[:, :, rows, place].double().mean(-1)
    assert last.weights[:, :, 1] == pytest.approx(weights.numpy())


def test_texts_are_the_lines_and_those_of_the_models_own_data(model: TextModel) -> None:
    assert maps.texts_of(model, "one\n\ntwo", 0) == ["one", "two"]
    reverse = open_checkpoint(BUNDLED / "reverse")
    assert all(each.isalpha() and each.islower() for each in maps.texts_of(reverse, "abc", 5))
    assert len(maps.texts_of(reverse, "abc", 5)) == 6
    assert maps.texts_of(reverse, "abc", 2, "first\n\nsecond\nthird\nfourth\n") == ["abc", "first", "fourth"]
