"""How to train: what is refused, and the learning rate."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.training import TrainingSettings, learning_rate


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, r"epochs \(0\) must be between 1 and inf"),
        ({"batch_tokens": 0}, r"batch_tokens \(0\)"),
        ({"rate": -1.0}, r"rate \(-1.0\)"),
        ({"rate": math.nan}, r"rate \(nan\)"),
        ({"label_smoothing": 1.5}, r"label_smoothing \(1.5\) must be between 0 and 1"),
        ({"average": -0.1}, r"average \(-0.1\)"),
        ({"undo_merges": 2.0}, r"undo_merges \(2.0\)"),
    ],
)
def test_settings_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TrainingSettings(**options)


@given(st.integers(1, 50), st.integers(1, 100), st.floats(1e-5, 1.0))
def test_the_rate_rises_in_a_line_and_falls_as_a_cosine(warmup, after, peak):
    settings, total = TrainingSettings(rate=peak, warmup=warmup), warmup + after
    rates = [learning_rate(step, total, settings) for step in range(1, total + 1)]
    assert rates[warmup - 1] == pytest.approx(peak)
    for step in range(1, warmup + 1):
        assert rates[step - 1] == pytest.approx(peak * step / warmup)
    for step in range(warmup, total + 1):
        expected = peak * math.cos(math.pi / 2 * (step - warmup) / after) ** 2
        assert rates[step - 1] == pytest.approx(expected, abs=1e-12)
