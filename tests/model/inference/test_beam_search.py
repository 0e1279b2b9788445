"""Beam search against trying everything, and against a plain beam search that computes every target anew."""

import itertools
from typing import get_args

import pytest
import torch

from model.inference.beam_search import beam_search
from model.network.config import Position
from tests.model.examples import network
from tests.model.inference.test_decoding import END, SOURCES, context, ending, log_probabilities

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))]


def penalised(total, length, penalty):
    return total / ((5 + length) / 6) ** penalty


def plain_beam(model, source, limit, beam, penalty):
    """Hypotheses as (score, ids), best first."""
    live, finished = [(0.0, [])], []
    while live:
        tried = []
        for total, ids in live:
            values = log_probabilities(model, source, ids)
            tried += [(total + value, [*ids, token]) for token, value in enumerate(values)]
        tried.sort(key=lambda each: -each[0])
        live = []
        for rank, (total, ids) in enumerate(tried[: 2 * beam]):
            if ids[-1] == END or len(ids) == limit:
                if rank < beam:
                    finished.append((penalised(total, len(ids), penalty), ids))
            elif len(live) < beam:
                live.append((total, ids))
        finished.sort(key=lambda each: -each[0])
        if len(finished) >= beam and live:
            worst = finished[beam - 1][0]
            if penalised(live[0][0], len(live[0][1]), penalty) <= worst:
                break
    return finished


def run(model, rows, limits, extra=0, **options):
    return beam_search(context(model, rows, extra), ends=[END], limits=limits, **options)


def ids_of(tree, last):
    return [tree.nodes[index].token for index in tree.path(last)]


def assert_best_of_all(model, penalty):
    """A beam that holds every text of three tokens finds the best of them."""
    tokens = range(model.config.target_vocabulary)
    whole = itertools.product(tokens, repeat=3)
    targets = {ids[: ids.index(END) + 1] if END in ids else ids for ids in whole}
    prefixes = {ids[:place] for ids in targets for place in range(len(ids))}
    with torch.no_grad():
        steps = {ids: log_probabilities(model, SOURCES[0], list(ids)) for ids in prefixes}
    totals = {ids: sum(steps[ids[:place]][token] for place, token in enumerate(ids)) for ids in targets}
    best = max(totals, key=lambda ids: penalised(totals[ids], len(ids), penalty))
    (tree,) = run(model, SOURCES[:1], [3], beam=len(tokens) ** 2, length_penalty=penalty)
    found = tree.ranked()[0]
    assert tuple(ids_of(tree, found)) == best
    assert tree.nodes[found].total == pytest.approx(totals[best], abs=1e-4)


@pytest.mark.unchecked
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_beam_that_holds_everything_finds_the_best_of_all(seed, penalty):
    assert_best_of_all(ending(network(seed)), penalty)


@pytest.mark.unchecked
@pytest.mark.parametrize(("beam", "penalty"), [(1, 0.0), (2, 0.6), (4, 0.6), (4, 0.0), (5, 2.0)])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_batch_finds_what_the_plain_search_finds(seed, beam, penalty):
    compare(ending(network(seed, norm_placement="pre" if seed % 2 else "post")), beam, penalty)


@pytest.mark.parametrize("position", get_args(Position)[1:])  # the first one is above
def test_with_any_positions_a_batch_finds_what_the_plain_search_finds(position):
    compare(ending(network(0, position=position)), beam=2, penalty=0.6, limits=(4, 2, 5, 3), extras=(2,))


def compare(model, beam, penalty, limits=(8, 3, 10, 5), extras=(0, 2)):
    """A batch, with the plain search of each of its sources; all scores to 1e-5."""
    with torch.no_grad():
        for extra in extras:
            trees = run(model, SOURCES, limits, extra, beam=beam, length_penalty=penalty)
            for source, limit, tree in zip(SOURCES, limits, trees, strict=True):
                expected = plain_beam(model, source, limit, beam, penalty)
                assert [ids_of(tree, last) for last in tree.ranked()] == [ids for _, ids in expected]
                scores = [tree.score(last) for last in tree.ranked()]
                assert scores == pytest.approx([score for score, _ in expected], abs=1e-5)


def test_the_tree_is_whole():
    model = ending(network(0))
    (tree,) = run(model, SOURCES[2:3], [9], beam=3)
    fates = [node.fate for node in tree.nodes]
    assert {"kept", "finished"} <= set(fates)
    for index, node in enumerate(tree.nodes[1:], start=1):
        parent = tree.nodes[node.parent]
        assert node.parent < index
        assert parent.fate == "kept"
        assert node.length == parent.length + 1 == len(tree.path(index))
        assert node.total == pytest.approx(parent.total + node.log_probability)
        among_choices = dict(parent.choices).get(node.token, node.log_probability)
        assert among_choices == pytest.approx(node.log_probability, abs=1e-5)
        assert parent.choices == sorted(parent.choices, key=lambda choice: -choice[1])
    assert {index for index, fate in enumerate(fates) if fate == "finished"} == set(tree.finished)


@pytest.mark.parametrize(
    ("options", "message"), [({"beam": 0}, r"beam \(0\)"), ({"length_penalty": -1.0}, r"length_penalty \(-1.0\)")]
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        run(network(), SOURCES, [3] * 4, **options)
