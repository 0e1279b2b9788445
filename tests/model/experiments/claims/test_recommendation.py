"""Recommendation: items as they are typed, the rule against loops, and the verdict under another rule."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from model.experiments.claims.recommendation import (
    WAYS,
    Attention,
    Item,
    Market,
    Recommendations,
    judge,
    learn,
    nearest,
    outcome,
    read_items,
    resembling,
)
from model.experiments.experiment import Request
from model.experiments.index import experiments
from model.experiments.rule import Verdict
from tests.model.experiments.claims.judging import verdict_of

EXPERIMENT = experiments()["recommendation"]


def request(seeds: tuple[int, ...] = (1, 2, 3), **values: object) -> Request:
    return EXPERIMENT.request(None, "", {"steps": 100} | values, seeds)


def last(asked: Request, **rules: object) -> Recommendations:
    *_, report = learn(asked, **rules)
    assert report.share == 1.0
    return report.result


def test_items_are_read_as_they_are_typed() -> None:
    expected = [Item("novel", (1.0, 0.2, 0.0)), Item("lamp", (0.0, 1.0, -3.0))]
    assert read_items(" novel: 1, 0.2,0;lamp:0,1,-3 ; ") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "0 items are given; it must be 1 to 24"),
        ("novel", "item 'novel' must be a name, a colon and numbers"),
        (": 1, 2", "item ': 1, 2' must be a name"),
        ("novel: 1, two", "the features of 'novel' are '1, two'; they must be numbers"),
        ("novel: ", "the features of 'novel' are ''"),
        ("novel: 1", "'novel' must have 2 to 8 features"),
        ("novel: nan, 1", "each from -1000 to 1000"),
        ("novel: 1e9, 1", "each from -1000 to 1000"),
        ("novel: 0, 0", "the features of 'novel' are all 0"),
        ("novel: 1, 2, 3; lamp: 1, 2", "'lamp' has 2 features and 'novel' 3"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_items(text)


def test_items_are_free_texts_and_rules_are_not() -> None:
    parameters = {parameter.name: parameter for parameter in EXPERIMENT.parameters}
    assert parameters["history"].read("hat: 1, 0") == "hat: 1, 0"
    with pytest.raises(ValueError, match="rule is 'luck'; it can be nearest, average"):
        parameters["rule"].read("luck")


def test_a_candidate_of_other_features_is_refused() -> None:
    with pytest.raises(ValueError, match="'hat' has 2 features and 'cake' 3"):
        next(learn(request(candidate="hat: 1, 0")))


def test_half_of_the_customers_buy_what_is_like_one_of_their_purchases() -> None:
    market = Market(4, 3, nearest, seed=1)
    customers = market.customers(400)
    for history, candidate, buys in zip(customers.history, customers.candidate, customers.buys, strict=True):
        cosines = [float(torch.nn.functional.cosine_similarity(item, candidate, dim=0)) for item in history]
        assert (max(cosines) > market.limit) == bool(buys)
    assert 0.4 < float(customers.buys.float().mean()) < 0.6
    torch.testing.assert_close(
        resembling(customers.history, customers.candidate),
        (customers.history.mean(dim=1) * customers.candidate).sum(dim=-1),
    )


def test_attention_is_torchs_own() -> None:
    layer, history, candidate = Attention(3), torch.randn(2, 4, 3), torch.randn(2, 3)
    values = torch.randn(2, 4, 5)
    expected = torch.nn.functional.scaled_dot_product_attention(
        layer.query(candidate)[:, None], layer.key(history), values
    )
    torch.testing.assert_close(layer(history, candidate)[:, None] @ values, expected)


@pytest.mark.unchecked
def test_only_the_softmax_is_ahead_and_the_verdict_flips_under_another_rule() -> None:
    found = last(request())
    assert [len(found.last(way)) for way in WAYS] == [3, 3, 3]
    assert outcome(found).verdict is Verdict.IN_PART
    planted = last(request(), rules={"nearest": resembling})
    assert outcome(planted).verdict is Verdict.WRONG


@pytest.mark.parametrize(
    ("softmax", "bare", "verdict"),
    [
        ((0.9, 0.9, 0.9), (0.8, 0.8, 0.8), Verdict.HOLDS),
        ((0.9, 0.9, 0.9), (0.7, 0.7, 0.7), Verdict.IN_PART),
        ((0.7, 0.7, 0.7), (0.9, 0.9, 0.9), Verdict.IN_PART),
        ((0.7, 0.7, 0.7), (0.7, 0.69, 0.68), Verdict.WRONG),
        ((0.9, 0.7, 0.9), (0.7, 0.7, 0.7), Verdict.OPEN),
        ((0.9, 0.74, 0.82), (0.7, 0.7, 0.7), Verdict.OPEN),  # every seed is ahead, by less than twice their spread
        ((0.9, 0.9), (0.8, 0.8), Verdict.OPEN),
        ((0.9,), (0.8,), Verdict.OPEN),
    ],
)
def test_the_verdict_follows_the_accuracies(softmax: tuple, bare: tuple, verdict: Verdict) -> None:
    count = len(softmax)
    accuracies = {"average": [[0.7]] * count, "attention": [[each] for each in softmax]}
    accuracies["bare product"] = [[each] for each in bare]
    empty = {way: [[0.0]] * count for way in WAYS}
    found = Recommendations([Item("a", (1.0,))], Item("b", (1.0,)), range(count), [1], accuracies, empty, {})
    assert verdict_of(judge(found)[0]) is verdict
    behind = replace(found, accuracies=accuracies | {"average": [[0.95 + 0.2]] * count})
    assert verdict_of(judge(behind)[0]) is (Verdict.WRONG if count > 2 else Verdict.OPEN)
