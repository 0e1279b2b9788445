"""Each step is filmed, with the weights that it left, though several are filmed together."""

import math

import pytest
import torch
from numpy.testing import assert_allclose
from torch.testing import assert_close

from model.training.live import pending_steps
from model.training.live.frame_recorder import Camera
from model.training.live.recorded_trainer import RUNS, RecordedTrainer
from tests.model.training.live.live_examples import (
    KEY_EVERY,
    SETTINGS,
    expected_losses,
    material,
    probe,
    start,
    watched,
)

pytestmark = pytest.mark.unchecked


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """However long a step takes here."""
    monkeypatch.setattr(pending_steps, "LONGEST", math.inf)


def step(given: RecordedTrainer, count: int) -> None:
    for _ in range(count):
        given.step(at_once=False)


def fails(*_given):
    raise RuntimeError("no room")


def assert_alike(given: RecordedTrainer, other: RecordedTrainer) -> None:
    """Film and curves show the same; a pass over several moments rounds otherwise than one after another."""
    film, theirs = given.run.film, other.run.film
    assert film.steps.tolist() == theirs.steps.tolist()
    assert film.names == theirs.names
    for name in film.names:
        step = 1 if name in film.kinds else 0  # of the 255 that a weight is kept in
        near = {"rtol": 1e-4, "atol": max(step, 1e-5)}
        assert_allclose(film.series(name).astype(float), theirs.series(name).astype(float), **near, err_msg=name)
    assert given.run.curves.names == other.run.curves.names
    for name in given.run.curves.names:
        (steps, values), (others, expected) = given.run.curves.get(name), other.run.curves.get(name)
        assert steps.tolist() == others.tolist()
        assert_allclose(values, expected, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    "options",
    [{}, {"position": "relative"}, {"norm": "none"}, {"kind": "decoder-only"}, {"kind": "recurrent"}],
    ids=str,
)
def test_steps_that_are_filmed_together_are_those_filmed_one_by_one(options):
    one_by_one, together = watched(**options, steps=2 * pending_steps.MANY + 3), watched(**options)
    step(together, 2 * pending_steps.MANY)
    assert together.run.film.steps.tolist() == list(range(2 * pending_steps.MANY + 1))
    step(together, 3)
    assert together.run.film.latest == 2 * pending_steps.MANY
    assert together.latest("loss") == one_by_one.run.curves.latest("loss") != together.run.curves.latest("loss")
    together.develop()
    assert_alike(together, one_by_one)


def test_where_the_weights_or_the_frames_are_large_each_step_is_filmed_at_once(monkeypatch):
    given = watched()
    logits = 5 * given.model.config.vocabulary
    each = 2 * given.trainer.gradients.weights.whole.nbytes + pending_steps.WHILE_FILMED * (
        given.run.film.frame_size + logits
    )
    monkeypatch.setattr(pending_steps, "BUDGET", 2 * each)
    step(given, 1)
    assert given.run.film.latest == 0
    step(given, 1)
    assert given.run.film.latest == 2
    monkeypatch.setattr(pending_steps, "BUDGET", 1)
    step(given, 1)
    assert given.run.film.latest == 3


def test_slow_steps_do_not_wait(monkeypatch):
    given = watched()
    monkeypatch.setattr(pending_steps, "LONGEST", -1)
    for count in (1, 2):
        step(given, 1)
        assert given.run.film.latest == count


def test_who_leaves_a_run_or_its_text_finds_all_steps_on_the_film():
    given, other = watched(), probe(start(material()), "xyz")
    step(given, 6)
    given.branch(given.run.film.key_frames[0], {"rate": 0.02})
    first, second = given.runs
    assert first.film.steps.tolist() == list(range(7))
    assert first.curves.get("probe loss")[0].tolist() == list(range(7))
    step(given, 3)
    given.rewind(first.film.key_frames[1])
    assert second.film.steps.tolist() == [0, 1, 2, 3]
    step(given, 2)
    before = given.run.curves.get("probe loss")[1].tolist()
    given.show(other)
    assert given.run.film.steps.tolist() == [6]
    assert given.run.curves.get("probe loss")[1].tolist()[: len(before)] == before
    assert len(given.run.curves.get("probe loss")[1]) == 7


@pytest.mark.parametrize("name", ["rewind", "branch"])
def test_a_frame_that_fails_leaves_all_runs_as_they_are(monkeypatch, name):
    given = watched()
    step(given, 3)
    for _ in range(RUNS - 1):
        given.restart()
    step(given, 2)
    monkeypatch.setattr(Camera, "take", fails)
    runs, budget = list(given.runs), given.run.film._frames.budget
    with pytest.raises(RuntimeError, match="no room"):
        given.rewind(given.runs[0].film.keys[0]) if name == "rewind" else given.branch(given.run.film.keys[0], {})
    assert (given.runs, given.run.film._frames.budget) == (runs, budget)
    assert given.run in given.runs
    monkeypatch.undo()
    given.branch(given.run.film.keys[0], {})
    assert len(given.runs) == RUNS
    assert [run.film._camera.latest is None for run in given.runs] == [True] * (RUNS - 1) + [False]


def test_a_step_of_the_same_number_in_another_run_begins_with_other_weights():
    """The update ratio of the first step after going back is that of the run gone back to."""
    given, name = watched(), "update ratio/decoder.layers.0"
    step(given, 5)
    given.develop()
    expected = given.run.curves.get(name)[1].tolist()
    given.branch(given.run.film.keys[0], {"rate": 0.05})
    step(given, 4)
    given.rewind(next(key for key in given.runs[0].film.key_frames if key.step == 4))
    step(given, 1)
    given.develop()
    assert given.run.curves.get(name)[1].tolist() == expected


def test_the_first_step_after_going_back_moves_the_weights_from_where_they_were_put():
    """The update ratio knows which weights a step began with."""
    given, plain = watched(steps=3), watched(steps=3)
    expected = plain.run.curves.get("update ratio/decoder.layers.0")[1].tolist()
    given.rewind(given.run.film.key_frames[0])
    step(given, 3)
    given.develop()
    assert given.run.curves.get("update ratio/decoder.layers.0")[1].tolist() == expected


def test_steps_that_a_full_film_would_not_keep_are_not_looked_at(monkeypatch):
    taken: list[int] = []
    take = Camera.take
    monkeypatch.setattr(
        Camera, "take", lambda camera, steps, *how: take(camera, (taken.append(step) or step for step in steps), *how)
    )
    learned = material()
    model = start(learned)
    size = watched().run.film.frame_size
    taken.clear()
    given = RecordedTrainer(model, learned, SETTINGS, probe(model), budget=5 * size, key_every=KEY_EVERY)
    for _ in range(25):
        given.step()
    assert given.run.film.every == 8
    monkeypatch.undo()
    assert given.run.film.steps.tolist() == [0, 8, 16, 24]
    assert 21 not in taken
    assert given.run.curves.get("loss")[0].tolist() == list(range(1, 26))
    assert given.run.curves.get("probe loss")[0].tolist() == taken
    ratios = given.run.curves.get("update ratio/decoder.embedding")
    assert ratios[0].tolist() == taken[1:]
    plain = watched(steps=25)
    everything = dict(zip(*plain.run.curves.get("update ratio/decoder.embedding"), strict=True))
    assert [everything[step] for step in taken[1:]] == ratios[1].tolist()  # each of one step, not of several
    view = given.look()
    assert given.run.film.steps.tolist() == [0, 8, 16, 24, 25]
    logits = given.model.trace_tokens(given.probe.source, given.probe.target)["output.logits"]
    assert_close(view.trace["output.logits"], logits)
    assert_close(view.model.trace_tokens(view.probe.source, view.probe.target)["output.logits"], logits)


@pytest.mark.parametrize("part", ["take", "_look", "_frames"])
def test_a_frame_that_fails_loses_no_loss(monkeypatch, part):
    given = watched()
    step(given, 3)
    monkeypatch.setattr(Camera, part, fails)
    with pytest.raises(RuntimeError, match="no room"):
        given.develop()
    monkeypatch.undo()
    assert given.look().step == given.run.film.latest == 3
    step(given, 2)
    given.develop()
    assert given.run.curves.get("loss")[1].tolist() == expected_losses(5)
    assert given.run.film.steps.tolist() == [0, 3, 4, 5]


@pytest.mark.parametrize("count", [1, 2])
def test_what_a_look_shows_stays_when_the_weights_move_on(count):
    given = watched(position="learned")
    step(given, count)
    view = given.look()
    kept = {name: view.trace[name].clone() for name in view.trace.names()}
    step(given, 3)
    given.look()
    assert "encoder.embedding.positions" in kept
    assert [name for name, tensor in kept.items() if not torch.equal(view.trace[name], tensor)] == []
