"""Drawn targets: the distribution they are drawn from, and what they report."""

import math
from collections import Counter
from typing import get_args

import pytest
import torch
from torch.testing import assert_close
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from model.inference.decoding import Sampling, sample
from model.network.config import Position
from tests.model.examples import network
from tests.model.inference.test_decoding import END, SOURCES, context, ending, log_probabilities, naive

OPTIONS = [
    {"temperature": 0.5},
    {"temperature": 2.0, "top_k": 3},
    {"top_p": 0.6},
    {"temperature": 1.3, "top_k": 7, "top_p": 0.8},
    {"top_k": 100},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_probabilities_are_hugging_faces(options):
    logits = torch.randn(50, 13) * 3
    expected = TemperatureLogitsWarper(options.get("temperature", 1.0))(None, logits)
    if "top_k" in options:
        expected = TopKLogitsWarper(options["top_k"])(None, expected)
    if "top_p" in options:
        expected = TopPLogitsWarper(options["top_p"])(None, expected)
    assert_close(Sampling(**options)(logits), expected.softmax(dim=-1))


def run(model, rows, sampling, limits=None, extra=0):
    limits = limits or [8] * len(rows)
    return sample(context(model, rows, extra), sampling, ends=[END], limits=limits)


def ids_of(target):
    return [token for token, _, _ in target]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=3.0, seed=4), Sampling(top_k=4, top_p=0.9)])
def test_each_step_reports_the_models_own_log_probabilities(sampling):
    compare(ending(network(1)), sampling)


@pytest.mark.parametrize("position", get_args(Position)[1:])  # the first one is above
def test_with_any_positions_they_are_the_models_own(position):
    compare(ending(network(1, position=position)), Sampling(temperature=3.0, seed=4), limits=(5, 2, 4, 3))


def compare(model, sampling, limits=(8, 2, 5, 3)):
    """What is drawn in a batch, with what the whole network says of each target."""
    written = run(model, SOURCES, sampling, limits)
    for source, limit, target in zip(SOURCES, limits, written, strict=True):
        ids = ids_of(target)
        assert END not in ids[:-1]
        assert ids[-1] == END or len(ids) == limit
        for place, (token, value, choices) in enumerate(target):
            expected = log_probabilities(model, source, ids[:place])
            assert value == pytest.approx(expected[token], abs=1e-5)
            assert [choice for _, choice in choices] == pytest.approx(sorted(expected, reverse=True)[:5], abs=1e-5)


def test_a_seed_draws_the_same_alone_in_a_batch_and_beside_padding():
    model = network()
    sampling = Sampling(temperature=2.0, seed=3)
    together = [ids_of(target) for target in run(model, SOURCES, sampling)]
    padded_more = [ids_of(target) for target in run(model, SOURCES, sampling, extra=3)]
    alone = [ids_of(run(model, [row], sampling)[0]) for row in SOURCES]
    assert together == padded_more == alone
    others = [ids_of(target) for target in run(model, SOURCES, Sampling(temperature=2.0, seed=4))]
    assert others != together


def test_the_most_probable_token_alone_is_greedy():
    model = ending(network(2))
    with torch.no_grad():
        expected, _ = naive(model, SOURCES[0], 8)
    (target,) = run(model, SOURCES[:1], Sampling(top_k=1))
    assert ids_of(target) == expected


@pytest.mark.slow
def test_tokens_come_as_often_as_their_probability():
    model, draws = network(), 500
    probabilities = [math.exp(value) for value in log_probabilities(model, SOURCES[1], [])]
    counts = Counter(run(model, SOURCES[1:2], Sampling(seed=seed), [1])[0][0][0] for seed in range(draws))
    for token, probability in enumerate(probabilities):
        deviation = math.sqrt(probability * (1 - probability) / draws)
        assert abs(counts[token] / draws - probability) < 4.5 * deviation + 1e-9


WRONG = [("temperature", 0.0), ("temperature", math.inf), ("top_k", 0), ("top_p", 0.0), ("top_p", 1.5), ("seed", 2**64)]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_option_is_named(name, value):
    with pytest.raises(ValueError, match=rf"{name} \({value}\)"):
        Sampling(**{name: value})
