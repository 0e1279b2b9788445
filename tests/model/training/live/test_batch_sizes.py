"""Batches to be watched, and full ones: which a step takes, and that a run which has had both says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.training.live.saved_training import read_saved_training
from model.training.settings import BatchSizes
from tests.model.training.live.live_examples import SETTINGS, Gate, advanced, live, losses, settled, watched
from tests.model.training.live.test_saved_training import begun

pytestmark = pytest.mark.unchecked
SIZES = BatchSizes(watched=30, full=60)
FIRST = replace(SETTINGS, batch_tokens=SIZES.watched)


def in_force(training) -> int:
    return training.recorded.settings.batch_tokens


def changes(training) -> list[tuple[int, int, int]]:
    return [(mark.step, *mark.changes["batch_tokens"]) for mark in training.snapshot.marks]


def test_steps_that_are_watched_take_small_batches_and_a_run_to_the_end_full_ones():
    given = advanced(live(FIRST, batches=SIZES), 3)
    assert (in_force(given), changes(given)) == (30, [])
    alone = watched(FIRST)
    assert losses(given) == [alone.step().loss for _ in range(3)]  # those of a run that has never had others
    gate = Gate(given)
    given.run()
    assert gate.reached.wait(60)
    assert in_force(given) == 60
    assert not given.snapshot.watched
    given.advance(1)  # what goes on keeps its batches
    given.pause()
    gate.open.set()
    settled(given)
    assert changes(given) == [(3, 30, 60)]
    step = given.snapshot.step
    advanced(given)
    assert changes(given)[-1] == (step, 60, 30)
    _model, record = given._frozen()
    assert record["settings"]["batch_tokens"] == 30
    assert f"batch_tokens 30 → 60 after step 3; batch_tokens 60 → 30 after step {step}" in record["note"]


def test_another_size_to_watch_counts_from_the_next_steps_on():
    given = advanced(live(FIRST, batches=SIZES))
    given.watch_batches(45)
    advanced(given)
    assert changes(given) == [(1, 30, 45)]
    for wrong in (61, 0):
        with pytest.raises(ValueError, match=f"batches to watch .{wrong} tokens. must have between 1 and 60 tokens"):
            given.watch_batches(wrong)
    assert given.batches == BatchSizes(45, 60)


def test_a_size_that_is_chosen_in_the_settings_counts_for_both():
    given = advanced(live(FIRST, batches=SIZES))
    given.change(batch_tokens=50)
    advanced(given)
    assert (in_force(given), given.batches) == (50, BatchSizes(50, 50))
    given.change(rate=1e-3)
    assert given.batches == BatchSizes(50, 50)


def test_a_branch_keeps_the_batches_of_its_key_frame_so_that_nothing_else_differs():
    given = advanced(live(FIRST, batches=SIZES), 5)
    given.branch(given.current.film.key_frames[0], rate=1e-3)
    given.run()
    settled(given)
    assert in_force(given) == 30
    assert changes(given) == []


def test_without_sizes_all_steps_take_those_of_the_settings():
    given = advanced(live(), 2)
    given.run()
    settled(given)
    assert (in_force(given), changes(given), given.batches) == (60, [], BatchSizes(60, 60))


def test_steps_to_be_watched_are_looked_at_one_by_one_as_far_as_anybody_can_see(monkeypatch):
    """The clock goes by the steps: of each the view is there when its snapshot is, or of each second one."""
    for every, seen in ((0.5, [1, 2, 3, 4]), (1.5, [1, 3])):
        monkeypatch.setattr("model.training.live.live_training.LOOK_EVERY", every)
        given = live(FIRST, batches=SIZES, clock=lambda: 0.0)
        settled(given)
        recorded, looked = given.recorded, []
        monkeypatch.setattr(given, "_clock", lambda recorded=recorded: float(recorded.steps_done))
        given._looked_at = -9.0
        look = recorded.look
        monkeypatch.setattr(
            recorded, "look", lambda look=look, r=recorded, to=looked: to.append(r.steps_done) or look()
        )
        advanced(given, 4)
        assert looked[: len(seen)] == seen
        given.close()


def test_the_sizes_are_kept_for_another_process(tmp_path):
    advanced(begun(tmp_path / "run", settings=FIRST, batches=SIZES))
    assert read_saved_training(tmp_path / "run").batches == SIZES


def test_a_training_keeps_its_newest_step_when_it_is_asked_to(tmp_path):
    given = begun(tmp_path / "run")
    gate = Gate(settled(given))
    given.run()
    assert gate.reached.wait(60)
    gate.open.set()
    given.pause()
    assert given.keep() == tmp_path / "run"
    assert read_saved_training(tmp_path / "run").state["step"] == given.snapshot.step >= 1
    assert live().keep() is None
