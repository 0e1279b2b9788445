"""Greedy decoding against a loop that writes one sentence at a time."""

import itertools
import math
from typing import get_args

import pytest
import torch
from torch.testing import assert_close

from model.inference.decoding import greedy
from model.network.config import Position
from tests.model.examples import network

PADDING, START, END = 0, 1, 2
SOURCES = [[5, 6, 7, 3], [4], [9, 9, 3, 8, 10, 4, 5], [10, 3]]


def padded(rows: list[list[int]], extra: int = 0) -> torch.Tensor:
    longest = max(map(len, rows)) + extra
    return torch.tensor([row + [PADDING] * (longest - len(row)) for row in rows])


def context(model, rows, extra=0):
    return model.read(padded(rows, extra), padding=PADDING, start=START)


def log_probabilities(model, source: list[int], ids: list[int]) -> list[float]:
    """Of each token after `ids`, by the whole network and Python's own arithmetic."""
    logits = model(torch.tensor([source]), torch.tensor([[START, *ids]]))[0, -1].tolist()
    total = math.log(math.fsum(map(math.exp, logits)))
    return [logit - total for logit in logits]


def naive(model, source: list[int], limit: int) -> tuple[list[int], list[list[float]]]:
    """The whole network again for each token: its ids, and log-probabilities of the whole vocabulary."""
    ids, steps = [], []
    while len(ids) < limit and END not in ids:
        steps.append(log_probabilities(model, source, ids))
        ids.append(max(range(len(steps[-1])), key=steps[-1].__getitem__))
    return ids, steps


def run(model, rows, extra=0, **options):
    limits = [options.pop("limit", 11)] * len(rows)
    return greedy(context(model, rows, extra), **({"ends": [END], "limits": limits} | options))


@pytest.mark.unchecked
@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("seed", range(8))
def test_a_batch_writes_what_the_naive_loop_writes(seed, placement):
    compare(network(seed, norm_placement=placement), extra=seed % 3)


@pytest.mark.parametrize("position", get_args(Position)[1:])  # the first one is above
def test_with_any_positions_a_batch_writes_what_the_naive_loop_writes(position):
    compare(network(position=position), limit=5)


@torch.no_grad()
def ending(model):
    model.output.logits.weight[END] *= 1.5  # so that some sentences end
    return model


def compare(model, limit=11, extra=0):
    """A batch, with the naive loop over its sources; neither company nor padding changes anything."""
    ending(model)
    with torch.no_grad():
        ids, values, tokens = run(model, SOURCES, extra, limit=limit)
        for index, source in enumerate(SOURCES):
            expected, steps = naive(model, source, limit)
            assert ids[index] == expected
            for place, probabilities in enumerate(steps):
                best = sorted(range(len(probabilities)), key=lambda t: -probabilities[t])[:5]
                assert tokens[place, index].tolist() == best
                assert values[place, index].tolist() == pytest.approx([probabilities[t] for t in best], abs=1e-5)


def test_the_naive_loop_sees_sentences_that_end_and_ones_that_do_not():
    written = [ids for seed in range(8) for ids in run(ending(network(seed)), SOURCES)[0]]
    ends = sum(ids[-1] == END for ids in written)
    assert 3 < ends < len(written) - 3
    assert all(END not in ids[:-1] for ids in written)
    assert all(len(ids) == 11 or ids[-1] == END for ids in written)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_it_stops_at_the_limit(count):
    ids, values, tokens = run(network(), SOURCES, limit=count, ends=[99])  # no token of this network
    assert values.shape == tokens.shape == (count, len(SOURCES), 5)
    assert [len(row) for row in ids] == [count] * len(SOURCES)


@pytest.mark.unchecked
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_a_draft_changes_nothing_but_the_work(seed, monkeypatch):
    model, passes = network(seed), []
    decode = model.decoder.forward
    monkeypatch.setattr(model.decoder, "forward", lambda *rest: passes.append(rest[0].shape[1]) or decode(*rest))
    (written,), values, tokens = run(model, SOURCES[:1])
    assert passes == [1] * len(written)
    wrong = [(token + 1) % 13 for token in written]
    for length in range(len(written) + 1):
        for draft in (written[:length], written[:length] + wrong[length:], wrong[:length], written + [END, 5] * 9):
            passes.clear()
            (again,), new_values, new_tokens = run(model, SOURCES[:1], draft=draft)
            assert again == written
            assert torch.equal(new_tokens[: len(written)], tokens)
            assert_close(new_values[: len(written)], values)
            agree = [guess == token for guess, token in zip(draft, written, strict=False)]
            right = len(list(itertools.takewhile(bool, agree)))
            assert len(passes) == max(1, len(written) - right)


@pytest.mark.unchecked
def test_where_the_draft_errs_another_text_is_guessed_from(monkeypatch):
    model, passes = network(0), []
    decode = model.decoder.forward
    monkeypatch.setattr(model.decoder, "forward", lambda *rest: passes.append(rest[0].shape[1]) or decode(*rest))
    (written,), values, _tokens = run(model, SOURCES[:1])
    wrong = [(token + 1) % 13 for token in written]
    alone, helped = [], []
    for others, found in (((), alone), ((wrong[:3], written[1:]), helped)):
        passes.clear()
        (again,), new_values, _new_tokens = run(model, SOURCES[:1], draft=wrong, others=others)
        assert again == written
        assert_close(new_values[: len(written)], values)
        found += passes
    assert len(helped) < len(alone)


def test_a_draft_is_for_a_single_source():
    assert run(network(), SOURCES, draft=[3, 4, 5])[0] == run(network(), SOURCES)[0]


def test_a_small_vocabulary_gives_fewer_alternatives():
    ids, values, tokens = run(network(target_vocabulary=3), SOURCES, keep=5)
    assert values.shape[2] == tokens.shape[2] == 3
    assert values.exp().sum(dim=-1).flatten().tolist() == pytest.approx([1.0] * values[..., 0].numel(), abs=1e-5)
    assert len(ids) == len(SOURCES)


def test_the_loop_ends_when_every_sentence_has():
    model = network(norm_placement="pre")
    with torch.no_grad():
        model.decoder.norm.weight.zero_()
        model.decoder.norm.bias.copy_(model.output.logits.weight[END])
        model.output.logits.weight[END] *= 10  # every step says </s>
    ids, values, _ = run(model, SOURCES)
    assert ids == [[END]] * len(SOURCES)
    assert len(values) == 1
