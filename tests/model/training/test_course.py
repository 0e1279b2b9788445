"""The course of a training: epochs, steps, validation, what may change, two side by side, a loss that is not finite."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from model.data.datasets import PairDataset
from model.training.settings import TrainingSettings
from model.training.trainer import Trainer
from tests.model.examples import network, tokenizers, trainer
from tests.model.training.training_examples import PAIRS, batches_taken, make, unchanged

pytestmark = pytest.mark.unchecked


def test_nothing_to_train_on_is_refused():
    with pytest.raises(ValueError, match="the training split is empty"):
        Trainer(network(), *[PairDataset([], tokenizers(PAIRS), 32)] * 2, TrainingSettings())


def test_each_epoch_trains_on_every_example_once():
    given = make(epochs=2)
    seen = batches_taken(given)
    list(given.steps())
    first, second = seen[: given.epochs.ends[0]], seen[given.epochs.ends[0] :]
    for epoch in (first, second):
        assert sorted(itertools.chain.from_iterable(epoch)) == list(range(len(given.train)))
    assert first != second


def test_steps_instead_of_epochs():
    """An epoch is put in order when it is reached."""
    constant = {"schedule": "constant", "warmup": 0}
    by_epochs, by_steps = make(epochs=4, **constant), make(epochs=1, steps=20, **constant)
    assert (by_steps.total_steps, len(by_steps.epochs.ends)) == (20, 1)
    assert by_steps.epochs.ends[0] < 10
    reports = list(by_steps.steps())
    assert [report.loss for report in reports] == [report.loss for report in by_epochs.steps(20)]
    assert by_steps.epochs.ends == by_epochs.epochs.ends[: len(by_steps.epochs.ends)]
    assert by_steps.finished
    with pytest.raises(ValueError, match=r"steps \(0\) must be at least 1"):
        make(steps=0)


def test_settings_of_the_weights_that_are_kept_do_not_change_in_a_run():
    given = make()
    with pytest.raises(ValueError, match=r"average cannot be changed in a run from 0.998 to 0.5: start another run"):
        given.change(replace(given.settings, average=0.5))


def test_two_trainers_side_by_side_train_as_each_does_alone():
    """Though both draw dropout, in threads at the same time too, and others draw from torch's generator."""

    dropout = {"dropout": 0.3, "attention_dropout": 0.2}

    def one(seed: int) -> Trainer:
        return trainer(PAIRS[10:], [], dropout, epochs=1, batch_tokens=100, seed=seed)

    alone = [[report.loss for report in one(seed).steps(6)] for seed in (1, 2)]
    assert alone[0] != alone[1]
    first, second = one(1), one(2)
    together = [[], []]
    for each in zip(first.steps(6), second.steps(6), strict=True):
        torch.rand(3)
        for losses, report in zip(together, each, strict=True):
            losses.append(report.loss)
    assert together == alone
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(lambda each: [r.loss for r in each.steps(6)], [one(1), one(2)])) == alone


def test_a_step_leaves_torchs_random_numbers_as_they_were():
    given = trainer(PAIRS[10:], [], {"dropout": 0.3}, epochs=1)
    before = torch.get_rng_state()
    list(given.steps(2))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_loss_that_is_not_finite_leaves_the_weights():
    given = make()
    list(given.steps(3))
    with torch.no_grad():
        given.network.output.logits.weight[0, 0] = math.inf
    sentence = (
        r"step 4: loss nan, gradient norm nan, not finite first in output\.logits\.weight; the weights are still those "
        r"of step 3: lower the rate"
    )
    with unchanged(given), pytest.raises(FloatingPointError, match=sentence):
        next(given.steps())
    assert given.progress.step == 3


def test_the_first_gradient_that_is_not_finite_is_named_and_nothing_moves():
    given = make(average_last=2, validate_every=2)
    list(given.steps(3))
    names = ["decoder.layers.0.feed_forward.output.weight", "decoder.layers.1.self_attention.output.bias"]
    for name in reversed(names):
        given.network.get_parameter(name).register_hook(lambda gradient: gradient * math.nan)
    sentence = rf"^step 4: loss \d\.\d+, gradient norm nan, not finite first in {names[0]}; the weights"
    with unchanged(given), pytest.raises(FloatingPointError, match=sentence):
        next(given.steps())
    assert given.progress.step == 3


def test_float16_steps_are_left_out_until_no_smaller_scale_can_help():
    """65536 = 2^16: sixteen times the scale is halved."""
    given = make(precision="float16", epochs=20)
    list(given.steps(2))
    name = "decoder.layers.1.self_attention.output.bias"
    hook = given.network.get_parameter(name).register_hook(lambda gradient: gradient * math.nan)
    sentence = rf"^step 19: loss \d\.\d+, gradient norm nan, not finite first in {name}; the weights are still those of"
    with unchanged(given.network), pytest.raises(FloatingPointError, match=sentence):
        list(given.steps())
    assert (given.progress.step, given.scaler.get_scale()) == (18, 1)
    hook.remove()
    assert [report.step for report in given.steps(2)] == [19, 20]
