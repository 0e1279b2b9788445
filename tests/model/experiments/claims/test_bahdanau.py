"""Bahdanau's three steps against loops, hiding tokens against interventions, and the verdict where it must flip."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from model.capture.interventions import Cells, intervening
from model.capture.trace import Trace
from model.checkpoints.load import open_checkpoint
from model.experiments.claims.bahdanau import HidingEffects, changed_share, hidden_in_turn, judge, own_map, run, steps
from model.experiments.experiment import Grid
from model.experiments.index import experiments
from model.experiments.rule import Verdict
from model.inference.models import Translator
from tests.model.examples import recurrent
from tests.model.experiments.claims.judging import verdict_of

BUNDLED = Path(__file__).resolve().parents[4] / "checkpoints" / "eng-cmn-recurrent"


@pytest.fixture(scope="module")
def model() -> Translator:
    found = open_checkpoint(BUNDLED, torch.device("cpu"))
    assert isinstance(found, Translator)
    return found


def test_the_three_steps_are_those_of_the_paper() -> None:
    attention = recurrent().decoder.layers[0].cross_attention.double()
    draw = torch.Generator().manual_seed(0)
    state, annotations = (torch.randn(*shape, generator=draw, dtype=torch.float64) for shape in ((16,), (5, 16)))
    with torch.no_grad():
        energies, weights, context = steps(attention, state, annotations)
        w, u, v = attention.from_state.weight, attention.from_annotation, attention.energy.weight[0]
        total = sum(math.exp(float(energy)) for energy in energies)
        for place, annotation in enumerate(annotations):
            inner = [math.tanh(float(w[row] @ state + u.weight[row] @ annotation + u.bias[row])) for row in range(16)]
            assert float(energies[place]) == pytest.approx(sum(float(v[row]) * inner[row] for row in range(16)))
            assert float(weights[place]) == pytest.approx(math.exp(float(energies[place])) / total)
        assert_close(context, sum(weight * each for weight, each in zip(weights, annotations, strict=True)))


def test_a_hidden_token_is_one_that_no_step_of_the_decoder_sees(model: Translator) -> None:
    text, target = "I am a teacher.", "我是老师。"
    found = hidden_in_turn(model, text, target)
    ids = [*model.target_tokens(target).ids[1:], *model.target_tokenizer.ending]
    whole = model.trace(text, target)["output.logits"].log_softmax(dim=-1)
    for place in (0, len(found.source) - 2):
        with intervening(model.network, [Cells("cross", visible=False, key=place)]):
            logits = model.trace(text, target)["output.logits"].log_softmax(dim=-1)
        for row, token in enumerate(ids):
            lost = float(whole[row, token] - logits[row, token])
            assert float(found.lost[row, place]) == pytest.approx(lost, abs=1e-4)
            assert bool(found.changed[row, place]) == bool(logits[row].argmax() != whole[row].argmax())


def test_the_verdict_follows_the_share_and_its_error() -> None:
    assert verdict_of(judge([1.0, 0.9, 1.0, 0.8], 0.9)[0]) is Verdict.HOLDS
    assert verdict_of(judge([1.0, 0.9, 1.0, 0.8], 0.3)[0]) is Verdict.IN_PART
    assert verdict_of(judge([-0.2, -0.3, -0.25], 0.0)[0]) is Verdict.WRONG
    assert verdict_of(judge([1.0, -1.0, 0.5, -0.6], 0.5)[0]) is Verdict.OPEN
    assert verdict_of(judge([1.0], 1.0)[0]) is Verdict.OPEN


def test_a_share_counts_the_tokens_that_change_without_the_largest() -> None:
    weights = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    changed = torch.tensor([[True, False, False], [True, True, False]])
    hidden = HidingEffects(weights, changed, weights, ["a", "b", "c"], ["x", "y"])
    assert changed_share([hidden]) == 0.5
    assert hidden.differences == [1.0, -1.0]


def backwards(trace: Trace) -> torch.Tensor:
    """A map that is largest where the network looks least."""
    return 1 - own_map(trace)


def test_the_map_that_is_turned_round_does_not_tell_where_words_come_from(model: Translator) -> None:
    experiment = experiments()["bahdanau"]
    request = experiment.request(model, "", {"sentences": 6})
    *_, own = run(request)
    *_, turned = run(request, backwards)
    assert own.share == turned.share == 1.0
    assert own.result.verdict in (Verdict.HOLDS, Verdict.IN_PART)
    assert turned.result.verdict in (Verdict.WRONG, Verdict.OPEN)
    own_share, turned_share = (report.result.quantities[0].mean for report in (own, turned))
    assert own_share > turned_share + 10
    off = own.result.quantities[3].mean
    assert off < 1e-4
    grids = [figure for figure in own.result.figures if isinstance(figure, Grid)]
    assert len(grids) == 3  # the Transformer's map is there: both have the same tokens
    for grid in grids[:2]:
        assert [sum(row) for row in grid.values] == pytest.approx([1.0] * len(grid.rows), abs=1e-4)
