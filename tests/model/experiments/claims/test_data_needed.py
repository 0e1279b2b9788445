"""Data needed: equal sizes and batches for both networks, and the verdict where it must flip."""

from __future__ import annotations

import pytest
import torch

from model.experiments.claims import data_needed
from model.experiments.claims.data_needed import (
    NETWORKS,
    TESTED,
    Accuracies,
    RecurrentNetwork,
    judge,
    outcome,
    pairs_needed,
    recurrent,
    train,
    trainer_of,
    transformer,
    weights,
)
from model.experiments.experiment import Request
from model.experiments.index import experiments
from model.experiments.rule import Verdict
from tests.model.experiments.claims.judging import verdict_of

EXPERIMENT = experiments()["data-needed"]
SMALL = {"tasks": "copy", "largest": 64, "steps": 4, "width": 16, "depth": 1, "recurrent_rate": 4e-3}


def small(**values: object) -> Request:
    return EXPERIMENT.request(None, "", SMALL | values, (1,))


def test_the_recurrent_network_is_an_embedding_a_gru_and_logits() -> None:
    network = recurrent(20, 16, 2, 12)
    assert isinstance(network, RecurrentNetwork)
    assert network.parameter_count() == weights(20, network.config.d_model)
    theirs = torch.nn.GRU(network.config.d_model, network.config.d_model, batch_first=True)
    with torch.no_grad():
        for name, linear in (("ih", network.recurrent.from_input), ("hh", network.recurrent.from_state)):
            getattr(theirs, f"weight_{name}_l0").copy_(linear.weight)
            getattr(theirs, f"bias_{name}_l0").copy_(linear.bias)
    ids = torch.randint(20, (3, 7))
    expected = network.output(theirs(network.embedding(ids))[0])
    torch.testing.assert_close(network.output(network.states(ids, None)), expected)


def test_both_networks_have_about_as_many_weights() -> None:
    for width, depth in ((16, 1), (32, 2), (64, 4)):
        ours, theirs = (make(30, width, depth, 16).parameter_count() for make in (transformer, recurrent))
        assert theirs == pytest.approx(ours, rel=0.06)


def test_both_learn_the_same_pairs_and_none_of_those_tested() -> None:
    first, second = (trainer_of("copy", make, 16, 1, 0.004, small()) for make in NETWORKS.values())
    assert first.train.digest() == second.train.digest()
    assert first.validation.digest() == second.validation.digest()
    assert len(first.train) == 16
    known, tested = ({tuple(row) for row in part.rows} for part in (first.train, first.validation))
    assert not known & tested
    assert len(tested) == TESTED


def test_fewer_pairs_are_the_first_of_more() -> None:
    few, many = (trainer_of("copy", transformer, size, 1, 0.004, small()).train.rows for size in (4, 16))
    assert few == many[:4]


@pytest.mark.parametrize(
    ("accuracies", "pairs"),
    [((0.5, 0.7, 0.8), 400**0.5 * 1600**0.5), ((0.8, 0.9, 0.9), 100.0), ((0.1, 0.2, 0.7), None), ((), None)],
)
def test_pairs_for_an_accuracy_lie_between_two_sizes(accuracies: tuple[float, ...], pairs: float | None) -> None:
    assert pairs_needed((100, 400, 1600)[: len(accuracies)], accuracies) == pytest.approx(pairs)


@pytest.mark.unchecked
def test_exchanged_networks_turn_the_leads_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_needed, "TESTED", 40)
    exchanged = {"transformer": recurrent, "recurrent": transformer}
    (*_, straight), (*_, turned) = train(small()), train(small(), exchanged)
    assert straight.share == turned.share == 1.0
    (lead,), (other,) = straight.result.leads("copy"), turned.result.leads("copy")
    assert lead
    assert lead == pytest.approx(-other)
    shown = outcome(straight.result)
    assert len(shown.figures) == 2
    assert [len(curve.xs) for curve in shown.figures[0].curves] == [3, 3]


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(ValueError, match="task \\('knit'\\) must be one of copy"):
        next(train(small(tasks="copy, knit")))


def found(**leads: tuple[float, ...]) -> Accuracies:
    """Accuracies of the seeds with the recurrent network ahead by so much on each task."""
    accuracies = {}
    for task, by_seed in leads.items():
        for seed, lead in enumerate(by_seed, start=1):
            accuracies |= {(task, "transformer", 100, seed): 0.5, (task, "recurrent", 100, seed): 0.5 + lead}
    return Accuracies(list(leads), [100], range(1, 1 + max(map(len, leads.values()))), accuracies, {})


MORE, LESS = (0.15, 0.2, 0.18), (-0.15, -0.2, -0.18)


@pytest.mark.parametrize(
    ("leads", "verdict"),
    [
        ({"copy": MORE, "sort": (0.1, 0.1, 0.1)}, Verdict.HOLDS),
        ({"copy": MORE, "sort": LESS}, Verdict.IN_PART),
        ({"copy": LESS, "sort": (-0.1, -0.1, -0.1)}, Verdict.WRONG),
        ({"copy": (0.01, 0.01, 0.01), "sort": (0.0, 0.01, -0.01)}, Verdict.WRONG),  # surely less than the margin
        ({"copy": LESS, "sort": (0.1, -0.1, 0.0)}, Verdict.OPEN),  # sort may need more
        ({"copy": MORE, "sort": (0.1, -0.1, 0.0)}, Verdict.OPEN),
        ({"copy": (0.1, 0.3, 0.2), "sort": MORE}, Verdict.OPEN),  # ahead with every seed, by less than twice the spread
        ({"copy": (0.1, -0.2, 0.0), "sort": (0.01, 0.01, 0.01)}, Verdict.OPEN),
        ({"copy": MORE[:2], "sort": MORE[:2]}, Verdict.OPEN),
        ({"copy": LESS[:1]}, Verdict.OPEN),
        ({"copy": ()}, Verdict.OPEN),
    ],
)
def test_the_verdict_follows_the_leads(leads: dict, verdict: Verdict) -> None:
    assert verdict_of(judge(found(**leads))[0]) is verdict


def test_the_tasks_with_a_lead_are_told() -> None:
    assert "some tasks only: copy" in str(judge(found(copy=MORE, sort=LESS))[1])
    assert "on no task, and less on: copy" in str(judge(found(copy=LESS, sort=(0.0, 0.0, 0.0)))[1])
    assert str(judge(found(copy=(0.01, 0.01, 0.01)))[1]).endswith("needs more data on no task")
    assert str(judge(found(copy=MORE[:2]))[1]).endswith("the seeds do not decide")
