"""Live trainings side by side: many at once, with nobody who looks, kept for a reconnect, freed."""

import gc
import math
import threading
import weakref
from dataclasses import replace
from functools import partial

import pytest
import torch

from model.runtime.ledger import Ledger
from model.runtime.memory import collect
from model.training.cost import forecast, table_memory
from model.training.live import pending_steps
from model.training.live.registry import TrainingRegistry
from model.training.live.worker import Slots
from tests.model.clock import Clock
from tests.model.training.live.live_examples import (
    LONG,
    SETTINGS,
    advanced,
    before_a_batch,
    live,
    losses,
    settled,
    status,
    threads,
    watched,
)
from tests.two_threads import Second, Seen

pytestmark = pytest.mark.unchecked

CPU = torch.device("cpu")


def test_two_sessions_at_once_train_as_each_does_alone():
    """Both draw dropout and validate while the other does; attention is dropped out too."""
    slots = Slots(2)
    seeds = (1, 2)
    given = [live(replace(SETTINGS, seed=seed), slots=slots) for seed in seeds]
    barrier = threading.Barrier(2, timeout=LONG)
    for each in given:
        each.change(attention_dropout=0.3)
        settled(each)
        corpus = each.recorded.trainer.train
        batch_of = corpus.batch
        corpus.batch = lambda indices, chance, batch_of=batch_of: barrier.wait() * 0 or batch_of(indices, chance)
    for each in given:
        each.advance(6)
    for seed, each in zip(seeds, given, strict=True):
        assert status(each) == "idle"
        alone = watched(replace(SETTINGS, seed=seed))
        alone.change({"attention_dropout": 0.3})
        assert losses(each) == [alone.step().loss for _ in range(6)]
    assert losses(given[0]) != losses(given[1])


def test_a_training_is_promised_its_memory_until_it_is_freed_and_one_that_does_not_fit_ends_no_other(monkeypatch):
    own = Ledger(1000, lambda: 0, lambda: None)
    monkeypatch.setattr("model.training.live.registry.ledger", lambda: own)
    kept = TrainingRegistry()
    first = kept.begin("a", lambda slots: settled(live(slots=slots)), 600)
    assert own.left() == max(0, min(400, 1000 - max(0, 600 - first.size)))
    for key in ("a", "b"):
        with pytest.raises(ValueError, match="the training needs about"):
            kept.begin(key, lambda slots: live(slots=slots), 2000 if key == "a" else 600)
    assert kept.get("a") is first
    assert len(kept) == 1
    second = kept.begin("a", lambda slots: settled(live(slots=slots)), 900)
    assert [each.size for each in own.promises] == [900]
    assert second is kept.get("a")
    monkeypatch.setattr(collect, "_next", math.inf)
    kept.end("a")
    assert own.promises == ()
    assert collect._next < 0  # what it had may be garbage: who is refused next has it collected


def test_of_two_that_begin_at_once_under_one_key_the_second_frees_the_first(monkeypatch):
    """The second comes while the first is being made: it would find nothing to end, and be hidden by the first."""
    own = Ledger(1000, lambda: 0, lambda: None)
    monkeypatch.setattr("model.training.live.registry.ledger", lambda: own)
    kept, made = TrainingRegistry(), {}
    lock = Seen()
    kept._locks = {"tab": lock}

    def make(name, slots, meanwhile=lambda: None):
        made[name] = live(slots=slots)
        meanwhile()
        return made[name]

    second = Second(lock, lambda: kept.begin("tab", partial(make, "second"), 400))
    kept.begin("tab", partial(make, "first", meanwhile=second.go), 400)
    second.end()
    assert kept.all() == (made["second"],)
    assert (status(made["first"]), len(own.promises)) == ("stopped", 1)
    kept.end("tab")
    assert own.promises == ()


def test_a_training_that_cannot_be_made_gives_its_promise_back(monkeypatch):
    own = Ledger(1000, lambda: 0, lambda: None)
    monkeypatch.setattr("model.training.live.registry.ledger", lambda: own)

    def make(slots):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        TrainingRegistry().begin("tab", make, 400)
    assert own.promises == ()


def test_a_training_that_somebody_is_at_is_not_swept_away():
    clock = Clock()
    kept = TrainingRegistry(clock=clock, timer=clock.timer)
    given = kept.begin("one", lambda slots: live(slots=slots, clock=clock))
    lock = Seen()
    kept._locks = {"one": lock}
    other = Second(lock, lambda: clock.go(600))  # the timer's thread
    with lock:
        other.go()
    other.end()
    assert kept.all() == (given,)
    clock.go(1)  # it comes back
    assert kept.all() == ()


def test_what_two_windows_choose_at_once_holds_both(monkeypatch):
    given = settled(live())
    allowed = given._allowed

    def meanwhile(choices):
        monkeypatch.setattr(given, "_allowed", allowed)
        given.change(rate=2e-3)
        return allowed(choices)

    monkeypatch.setattr(given, "_allowed", meanwhile)
    given.change(clip=0.5)
    assert (given.settings.rate, given.settings.clip) == (2e-3, 0.5)
    assert settled(given).recorded.settings == given.settings


def test_more_than_the_limit_wait_for_their_turn():
    slots = Slots(1)
    first, second, third = (settled(live(slots=slots)) for _ in range(3))
    with before_a_batch(first, lambda: first.advance(2)):
        for each in (second, third):  # a thread each: the second one is to come first
            each.advance(1)
            assert status(each) == "waiting"
        assert (second.snapshot.ahead, third.snapshot.ahead) == (0, 1)
        assert second.snapshot.step == 0
        second.change(rate=1e-3)  # is done while it waits
        assert status(second) == "waiting"
        assert second.recorded.settings.rate == 1e-3
        second.pause()
        assert status(second) == "paused"
        assert third.snapshot.ahead == 0
    while third.snapshot.step == 0:  # woken by the first
        settled(third)
    assert (status(third), second.snapshot.step) == ("idle", 0)
    assert advanced(second).snapshot.step == 1
    with pytest.raises(ValueError, match=r"limit \(0\) must be at least 1"):
        Slots(0)


def test_trainings_are_kept_for_a_reconnect_and_then_freed():
    clock = Clock()
    kept = TrainingRegistry(clock=clock, timer=clock.timer)
    given = kept.begin("one", lambda slots: live(slots=slots, clock=clock))
    given.advance(1)
    model = weakref.ref(settled(given).recorded.trainer.network)
    clock.go(500)
    assert kept.get("one") is given  # somebody is back
    assert kept.get("two") is None
    for seconds in (100, 499):
        clock.go(seconds)
        assert len(kept) == len(clock.waiting) == 1
    clock.go(1)
    assert len(kept) == 0
    assert kept.get("one") is None
    assert not clock.waiting
    gc.collect()
    assert model() is None
    given.advance(1)
    assert status(given) == "failed"
    assert given.snapshot.message == "this training has been freed: begin another one"
    first = kept.begin("one", lambda slots: live(slots=slots, clock=clock))
    second = kept.begin("one", lambda slots: live(slots=slots, clock=clock))
    assert (first.current, settled(second).current is None) == (None, False)
    kept.end("one")
    kept.end("one")
    assert not clock.waiting


def test_what_a_training_holds_counts_as_free_for_the_one_that_follows_it(monkeypatch):
    monkeypatch.setattr(pending_steps, "BUDGET", 1)
    kept = TrainingRegistry()
    given = settled(kept.begin("one", lambda slots: live(slots=slots)))
    weights = 4 * given.start.network.parameter_count()
    # Model, gradients, first key frame, the film's own model, and room for a step that waits to be filmed.
    assert 6 * weights <= given.size < 7 * weights  # rows are longer: each weight begins where kernels like it
    advanced(given, 5)
    assert given.size > 11 * weights  # gradients, moments, two key frames with theirs
    before = given.size
    given.branch(given.current.film.key_frames[1], rate=1e-3)
    assert settled(given).size < 2 * before  # its key frames are the other run's
    config = given.start.config
    require = partial(kept.require_room, config=config, material=given.material, settings=SETTINGS, device=CPU)
    found = forecast(config, given.material.corpora(16, 0.0)[0], SETTINGS)
    needed = 2 * (found.training_memory + table_memory(config)) + 3 * weights
    monkeypatch.setattr("model.training.cost.left_memory", lambda: needed - given.size)
    require("one")
    with pytest.raises(ValueError, match=r"^the training needs about 0\.\d GB, and 0\.0 GB are free: lower d_model"):
        require("two")
    monkeypatch.setattr("model.training.cost.left_memory", lambda: needed - given.size - 1)
    with pytest.raises(ValueError, match="lower d_model"):
        require("one")
    assert kept.get("one") is given
    kept.end("one")


def test_twenty_runs_leave_no_thread_and_no_memory():
    before, models = threads(), []
    for _ in range(20):
        given = live()
        advanced(given, 1)
        models.append(weakref.ref(given.recorded.trainer.network))
        given.run()
        given.stop()
        assert given.snapshot.status == "stopped"
        given.close()
    assert threads() == before
    gc.collect()
    assert [model() for model in models] == [None] * 20
