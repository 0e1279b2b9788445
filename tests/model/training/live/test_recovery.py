"""A watched run whose step is not finite goes back to where all was well."""

import math

import pytest
import torch

from tests.model.training.live.live_examples import SETTINGS, watched
from tests.model.training.live.test_recorded_trainer import losses

pytestmark = pytest.mark.unchecked


def test_weights_that_broke_are_left_for_the_last_good_key_frame():
    given = watched()
    expected = losses(given, 6)
    with torch.no_grad():
        given.trainer.network.output.logits.weight[0, 0] = math.nan
    why = r"output.logits.weight of step 6 is not finite either, so that the run went back to step 4: lower the rate"
    sentence = rf"step 7: loss nan, .*; {why} \(.*\) before it goes on$"
    with pytest.raises(FloatingPointError, match=sentence):
        given.step()
    assert given.steps_done == 4
    assert losses(given, 2) == expected[4:]


def test_a_rate_that_is_too_large_is_lowered_and_the_run_goes_on():
    given = watched()
    expected = losses(given, 6)
    given.change({"rate": 1e30, "warmup": 0})
    with pytest.raises(FloatingPointError, match=r"^step 8: loss .*no finite predictions either, so .*step 4: lower"):
        losses(given, 2)
    assert given.choices.settings.rate == 1e30  # what was asked for stays in force, and is marked
    assert [mark.step for mark in given.run.marks] == [4]
    given.change({"rate": SETTINGS.rate, "warmup": SETTINGS.warmup})
    assert losses(given, 2) == expected[4:]


def test_a_beginning_that_is_not_finite_says_so():
    given = watched()
    with torch.no_grad():
        given.trainer.network.output.logits.weight[0, 0] = math.nan
    with pytest.raises(FloatingPointError, match=r"^step 1: loss nan, .*; it has no earlier step to go back to: begin"):
        given.step()
    assert given.steps_done == 0
