"""A live run leaves every step on its film, and the one where it stands."""

from dataclasses import replace

import pytest

from model.data import sources
from model.training.live import pending_steps, saving
from model.training.live.live_training import LiveTraining
from tests.model.training.live.live_examples import (
    LONG,
    SETTINGS,
    advanced,
    before_a_batch,
    expected_losses,
    live,
    settled,
    status,
    watched,
)

pytestmark = pytest.mark.unchecked


@pytest.mark.parametrize("looked_at", [False, True])
@pytest.mark.parametrize("end", ["paused", "finished"])
def test_where_a_run_stands_still_there_is_a_frame(end, looked_at):
    """The film is full, so that the step where it is held, or that fewer steps make its last, would be left out."""
    training = live(budget=3 * watched().run.film.frame_size, steps=5)
    with before_a_batch(training, training.run):
        if looked_at:
            training.view()  # so that step 6 leaves a look while the training still runs
        training.pause() if end == "paused" else training.change(steps=6)
    assert status(training) == end
    assert training.snapshot.film_every == 4
    assert training.current.film.steps[-1] == training.snapshot.step == 6
    assert training.snapshot.frames == len(training.current.film)
    assert training.view().step == training.current.curves.get("loss")[0][-1] == 6


def test_a_step_whose_view_is_wanted_is_looked_at_once(monkeypatch):
    looks, look = [], LiveTraining._look
    monkeypatch.setattr(LiveTraining, "_look", lambda training: (looks.append(training), look(training)))
    training = settled(live())
    training.view()
    looks.clear()
    advanced(training, 1)
    assert len(looks) == 1


def test_what_waits_is_on_the_curves_that_are_saved(monkeypatch):
    monkeypatch.setattr(pending_steps, "LONGEST", LONG)
    training = settled(live(replace(SETTINGS, validate_every=1)))
    own = training.recorded
    for _ in range(2):
        own.step(at_once=False)
    assert own.run.curves.latest("loss") is None
    _model, record = saving.frozen(own, training.start, sources.Source())
    assert record["validation_loss"] == own.latest("validation") is not None
    assert own.run.curves.get("loss")[1].tolist() == expected_losses(2, validate_every=1)
