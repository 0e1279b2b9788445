"""How long a step will take is estimated from its operations and a measurement of this machine."""

import dataclasses

import pytest
import torch

from model.forecast import forecast, timed_step
from model.speed import Speed, estimated_step, speed_of
from tests.model.live_examples import SETTINGS, material, start

CPU = torch.device("cpu")


def test_larger_networks_batches_and_accumulations_take_longer(monkeypatch):
    monkeypatch.setattr("model.speed.speed_of", lambda device: Speed(1e-3, 1e10))
    monkeypatch.setattr("model.speed.slowdown", lambda precision, device: 3.0 if precision == "bfloat16" else 1.0)
    corpus, _ = material().corpora(16, 0.0)

    def seconds(**changes: int | str) -> float:
        settings = dataclasses.replace(SETTINGS, **changes)
        return estimated_step(config, forecast(config, corpus, settings), settings, CPU)

    config = start(material()).config
    small = seconds()
    assert small > 1e-3 * (1 + 2 * 1.5)  # a layer that encodes, two that decode
    assert seconds(batch_tokens=600) > small
    assert seconds(accumulation=2) == pytest.approx(2 * small)
    assert seconds(precision="bfloat16") == pytest.approx(3 * small)
    config = dataclasses.replace(config, d_model=64, d_ff=256)
    assert seconds() > 2 * small


def test_the_estimate_is_of_the_size_of_a_measured_step():
    assert speed_of(CPU) is speed_of(CPU)  # measured once
    learned = material()
    lens = start(learned, d_model=64, d_ff=256)
    corpora = learned.corpora(16, 0.0)
    guess = estimated_step(lens.config, forecast(lens.config, corpora[0], SETTINGS), SETTINGS, CPU)
    measured = min(timed_step(lens, corpora, SETTINGS) for _ in range(3))
    assert measured / 6 < guess < 6 * measured  # these machines are shared
