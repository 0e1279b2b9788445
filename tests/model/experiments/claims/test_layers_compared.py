"""Layers compared: counts against torch's own counter, gradients against their decay, verdicts where they must flip."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from model.experiments.claims import layers_compared
from model.experiments.claims.layers_compared import (
    FORMS,
    Layer,
    LayerMeasurements,
    Point,
    count_steps,
    doubled,
    gradients,
    judge,
    layers,
    measure,
    outcome,
)
from model.experiments.engines.attention_cost import Room, Sizes
from model.experiments.engines.timing import Times
from model.experiments.experiment import Outcome, Request, Table
from model.experiments.rule import Verdict
from tests.model.experiments.claims.judging import verdict_of

SMALL = {"width": 8, "kernel": 3, "longest": 32, "distance": 8}
SIZES = Sizes(batch=1, heads=1, width=8, device=torch.device("cpu"), dtype=torch.float32)


def small(**values: int) -> Request:
    return Request(None, "", SMALL | values, (1, 2))


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers_compared, "SECONDS", 0.03)


@pytest.mark.parametrize("form", ["recurrent", "convolutional", "attention"])
def test_operations_are_those_that_torch_counts(form: str) -> None:
    layer, x = layers(SIZES, 3, 20)[form], torch.randn(1, 20, 8)
    with FlopCounterMode(display=False) as counter:
        layer.run(x)
    assert counter.get_total_flops() == layer.operations


def test_steps_are_counted_and_paths_are_seen() -> None:
    made, x = layers(SIZES, 3, 20), torch.randn(1, 20, 8)
    found = {form: count_steps(layer, x) for form, layer in made.items()}
    assert found["recurrent"] == (20, 20)
    assert found["convolutional"] == (3, 3)
    assert found["attention"] == (1, 1)
    deaf = Layer(torch.relu, lambda x: iter([(20, torch.ones(1, 8))]), 0)
    assert count_steps(deaf, x) == (1, 0)


def test_both_forms_of_attention_and_the_written_recurrence_compute_the_same() -> None:
    made, x = layers(SIZES, 3, 20), torch.randn(1, 20, 8)
    torch.testing.assert_close(made["attention"].run(x), made["attention kernel"].run(x))
    *_, (known, last) = made["recurrent"].steps(x)
    assert known == 20
    torch.testing.assert_close(made["recurrent"].run(x)[:, -1], last)


def test_the_gradient_fades_in_the_recurrent_layer_and_not_in_attention() -> None:
    found = gradients(16, 3, 40, seed=1)
    assert {kind: len(values) for kind, values in found.items()} == dict.fromkeys(found, 41)
    assert found["recurrent"][40] < 1e-3 * found["recurrent"][0]
    assert max(found["attention"][1:]) < 30 * min(found["attention"][1:])
    assert min(found["convolutional"]) > 0  # all is within the receptive field


def test_a_run_measures_every_length_and_shows_the_table_of_the_paper() -> None:
    *_, last = measure(small())
    found = last.result
    assert last.share == pytest.approx(1.0)
    assert found.lengths == doubled(32) == [16, 32]
    assert found.column("path", "recurrent") == [16, 32]
    assert found.column("memory", "attention")[-1] > 32 * 32 * 4
    shown: Outcome = outcome(found)
    assert isinstance(shown.figures[0], Table)
    assert len(shown.figures[0].rows) == len(FORMS)
    assert "±" not in str(shown.figures[0].rows[3][2])  # two lengths leave no interval


def test_a_layer_that_hands_on_step_by_step_is_not_attention() -> None:
    def planted(sizes: Sizes, kernel: int, length: int) -> dict[str, Layer]:
        made = layers(sizes, kernel, length)
        return made | {"attention": replace(made["attention"], steps=made["recurrent"].steps)}

    *_, last = measure(small(longest=16), planted)
    assert outcome(last.result).verdict is Verdict.WRONG


def test_lengths_without_memory_are_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers_compared, "room", lambda _sizes, length: Room(length, length, 20, 0))
    *_, last = measure(small())
    assert last.result.left_out == (32,)
    assert "from 32 tokens on memory is too small" in str(outcome(last.result).reason)


def compared(*speeds: float) -> LayerMeasurements:
    """Lengths with attention so many times as quick as the recurrent layer; 10 % of noise."""
    points = []
    for number, speed in enumerate(speeds):
        length = 16 * 2**number
        seconds = dict.fromkeys(FORMS, 1.0) | {"recurrent kernel": speed}
        times = {form: Times(value, 0.95 * value, 1.05 * value, 5) for form, value in seconds.items()}
        path = {"recurrent": length, "recurrent kernel": length, "convolutional": 3, "attention": 1}
        path["attention kernel"] = 1
        points.append(Point(length, times, dict.fromkeys(FORMS, 1), path, path, dict.fromkeys(FORMS, 1)))
    return LayerMeasurements(8, 3, tuple(points))


@pytest.mark.parametrize(
    ("speeds", "verdict"),
    [
        ((3.0, 2.0, 1.5), Verdict.HOLDS),
        ((3.0, 1.0, 0.5), Verdict.IN_PART),
        ((0.5, 0.4, 0.3), Verdict.WRONG),
        ((3.0, 2.0, 1.01), Verdict.OPEN),
        ((3.0, 0.5, 1.0), Verdict.OPEN),
    ],
)
def test_the_verdict_follows_the_times(speeds: tuple[float, ...], verdict: Verdict) -> None:
    assert verdict_of(judge(compared(*speeds))[0]) is verdict


def test_where_it_turns_is_told() -> None:
    reason = str(judge(compared(3.0, 2.0, 1.0, 0.5, 0.4))[1])
    assert "up to 32 tokens it is, from 128 on" in reason


@pytest.mark.parametrize(("form", "path"), [("attention", 2), ("recurrent", 1), ("convolutional", 1)])
def test_another_path_than_that_of_the_table_is_wrong(form: str, path: int) -> None:
    found = compared(3.0, 2.0)
    last = replace(found.points[-1], path=dict(found.points[-1].path) | {form: path})
    assert verdict_of(judge(replace(found, points=(found.points[0], last)))[0]) is Verdict.WRONG
