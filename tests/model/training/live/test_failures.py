"""What a live training does when something fails: it stands where all was well, and says what to change."""

import re
from dataclasses import replace

import pytest
import torch

from tests.model.training.live.live_examples import (
    SETTINGS,
    advanced,
    expected_losses,
    live,
    losses,
    settled,
    spoil_gradients,
    status,
)

pytestmark = pytest.mark.unchecked


def failed_after_six():
    """A training whose seventh gradient was not finite, and what made it so."""
    given = live(steps=6)
    hook = spoil_gradients(given)
    given.run()
    assert status(given) == "failed"
    return given, hook


def test_a_gradient_that_is_not_finite_pauses_on_the_last_good_step():
    given, hook = failed_after_six()
    message = given.snapshot.message
    assert re.match(r"step 7: loss \d.*, gradient norm nan, not finite first in output.logits.weight; the ", message)
    assert message.endswith(
        "run stands on step 6, its last good one: go back to an earlier step and lower the rate (0.005), or change "
        "the seed to go on with another batch"
    )
    assert given.snapshot.step == settled(given).view().step == 6
    given.run()
    assert status(given) == "failed"  # the same weights, the same batch
    assert "this step failed for the second time, so that the run went back to step 4: lower" in given.snapshot.message
    assert given.snapshot.step == settled(given).view().step == 4
    hook.remove()
    given.advance(2)
    assert status(given) == "idle"
    assert given.snapshot.message == ""
    assert losses(given) == expected_losses(6)


@pytest.mark.parametrize("way", ["on", "back", "branch", "reset"])
def test_a_step_that_fails_on_another_course_fails_for_the_first_time(way):
    given = settled(live(steps=0 if way == "reset" else 4))

    def fail() -> None:
        hook = spoil_gradients(given)
        given.run()
        assert status(given) == "failed"
        assert "for the second time" not in given.snapshot.message
        hook.remove()

    fail()
    stood = given.snapshot.step
    if way == "on":
        advanced(given, 2)
        given.rewind(given.current.film.key_frames[0])
        given.advance(stood)
        settled(given)
    elif way == "back":
        given.rewind(given.current.film.key_frames[-1])
    elif way == "branch":
        given.branch(given.current.film.key_frames[-1], rate=1e-3)
    else:
        given.reset()
    settled(given)
    assert given.snapshot.step == stood
    fail()


def test_after_another_seed_it_goes_on_where_it_stood():
    given, hook = failed_after_six()
    hook.remove()
    given.change(seed=9)
    given.advance(2)
    assert (status(given), given.snapshot.step) == ("idle", 8)
    assert losses(given)[:6] == expected_losses(6)


ERRORS = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
    RuntimeError("MPS backend out of memory (MPS allocated: 17.9 GiB). Tried to allocate 20.00 GiB on private pool."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("done", [0, 2])
def test_a_batch_too_large_for_the_memory_pauses_on_the_last_good_step(error, done, monkeypatch):
    given, other = settled(live(steps=done)), live()
    trainer = given.recorded.trainer
    step = trainer.optimizer.step

    def breaks_off(*arguments):
        if not done:  # the optimizer has begun to make its moments
            trainer.optimizer.state[trainer.optimizer._row]["step"] = torch.zeros(())
        raise error

    monkeypatch.setattr(trainer.optimizer, "step", breaks_off)
    given.run()
    assert status(given) == "failed"
    assert given.snapshot.message == (
        f"step {done + 1}: a batch of 60 tokens a side does not fit into memory: lower batch_tokens, "
        f"and raise accumulation to keep steps as large; the weights are those of step {done}"
    )
    assert given.snapshot.step == done
    monkeypatch.setattr(trainer.optimizer, "step", step)
    given.advance(2)
    other.advance(1)
    assert (status(given), status(other)) == ("idle", "idle")
    assert losses(given) == expected_losses(done + 2)


def test_a_look_that_does_not_fit_into_memory_is_no_endless_loop(monkeypatch):
    given = settled(live())

    def breaks_off(model):
        raise MemoryError

    monkeypatch.setattr("model.training.live.recorded_trainer.alone", breaks_off)
    given.advance(1)
    assert status(given) == "failed"
    monkeypatch.undo()
    given.advance(1)
    assert status(given) == "idle"
    assert given.view().step == given.snapshot.step == 2


def test_what_nobody_expected_is_told_and_logged(caplog, monkeypatch):
    given = settled(live())
    monkeypatch.setattr(given.recorded.trainer, "_backward", lambda batches: {}["key"])
    given.advance(1)
    assert status(given) == "failed"
    assert given.snapshot.message.startswith("step 1: training broke off with KeyError: 'key'; the weights are those")
    assert "KeyError" in caplog.text


def test_what_cannot_begin_says_why():
    given = live(replace(SETTINGS, compile=True))
    for _ in range(2):
        assert status(given) == "failed"
        assert given.snapshot.message.startswith("compile (True) must be off in live training")
        given.run()
    assert given.current is None
    assert given.runs == ()


def test_a_batch_that_does_not_fit_into_memory_is_refused_and_the_run_goes_on(monkeypatch):
    given = live(steps=4)
    monkeypatch.setattr("model.training.cost.left_memory", lambda: 100_000)
    for change in (
        lambda: given.change(batch_tokens=600),
        lambda: given.branch(given.current.film.key_frames[0], batch_tokens=600),
    ):
        with pytest.raises(ValueError, match=r"^the training needs .* max_length, the layers or batch_tokens$"):
            change()
    given.change(batch_tokens=40)
    given.advance(1)
    assert (status(given), given.snapshot.step) == ("idle", 5)
    assert given.settings.batch_tokens == 40
    monkeypatch.setattr("model.training.cost.left_memory", lambda: 0)
    first = given.current.film.key_frames[0]
    budget = given.current.film.keys.budget
    for change in (lambda: given.rewind(first), lambda: given.branch(first, rate=1e-3)):
        with pytest.raises(ValueError, match="lower d_model"):  # 60 tokens a batch, as there were then
            change()
    assert (status(given), given.snapshot.step, len(given.runs)) == ("idle", 5, 1)
    assert (given.settings.batch_tokens, given.current.film.keys.budget) == (40, budget)
    given.branch(first, batch_tokens=40)
    given.advance(1)
    assert (status(given), given.snapshot.step, len(given.runs)) == ("idle", 1, 2)


def test_a_larger_batch_asked_for_while_the_training_is_prepared_is_refused_too(monkeypatch):
    monkeypatch.setattr("model.training.cost.left_memory", lambda: 0)
    given = live()
    with pytest.raises(ValueError, match="lower d_model"):
        given.change(batch_tokens=600)
    given.change(rate=1e-3)
    assert status(given) == "idle"
    assert (given.settings.batch_tokens, given.recorded.settings.batch_tokens) == (60, 60)


def test_a_step_that_failed_twice_goes_back_to_larger_batches_whatever_is_free(monkeypatch):
    given = live(steps=4)
    given.change(batch_tokens=40)
    advanced(given, 2)
    monkeypatch.setattr("model.training.cost.left_memory", lambda: 0)
    spoil_gradients(given)
    for _ in range(2):
        given.run()
        assert status(given) == "failed"
    assert "for the second time, so that the run went back to step 4" in given.snapshot.message
    assert given.recorded.settings.batch_tokens == 40
