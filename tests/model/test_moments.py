"""Each step is filmed, with the weights that it left, though several are filmed together."""

from dataclasses import replace

import pytest
import torch
from numpy.testing import assert_array_equal

from model import moments
from model.camera import Camera
from model.driver import Driver
from model.watched import Watched
from tests.model.live_examples import (
    KEY_EVERY,
    LONG,
    SETTINGS,
    Gate,
    expected_losses,
    live,
    losses,
    material,
    probe,
    settled,
    start,
    status,
    watched,
)

pytestmark = pytest.mark.unchecked


def step(given: Watched, count: int) -> None:
    for _ in range(count):
        given.step(at_once=False)


def film_and_curves(given: Watched) -> dict[str, list[float]]:
    """Names and numbers of everything that a run has shown."""
    film, curves = given.run.film, given.run.curves
    series = {name: film.series(name).ravel().tolist() for name in film.names}
    points = {name: [part.tolist() for part in curves.get(name)] for name in curves.names}
    return {"steps": film.steps.tolist(), **series, **points}


@pytest.mark.parametrize("options", [{}, {"position": "relative"}, {"kind": "decoder-only"}], ids=str)
def test_steps_that_are_filmed_together_are_those_filmed_one_by_one(options):
    one_by_one, together = watched(**options), watched(**options)
    for _ in range(2 * moments.MANY + 3):
        one_by_one.step()
    step(together, 2 * moments.MANY)
    assert together.run.film.steps.tolist() == list(range(2 * moments.MANY + 1))
    step(together, 3)
    assert together.run.film.latest == 2 * moments.MANY
    assert together.latest("loss") == one_by_one.run.curves.latest("loss") != together.run.curves.latest("loss")
    together.develop()
    assert film_and_curves(together) == film_and_curves(one_by_one)


def test_where_the_weights_or_the_frames_are_large_each_step_is_filmed_at_once(monkeypatch):
    given = watched()
    each = given.trainer.gradients.weights.whole.nbytes + moments.WHILE_FILMED * given.run.film.frame_size
    monkeypatch.setattr(moments, "HELD", 2 * each)
    step(given, 1)
    assert given.run.film.latest == 0
    step(given, 1)
    assert given.run.film.latest == 2
    monkeypatch.setattr(moments, "HELD", 1)
    step(given, 1)
    assert given.run.film.latest == 3


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


def test_the_first_step_after_going_back_moves_the_weights_from_where_they_were_put():
    """The update ratio knows which weights a step began with."""
    given, plain = watched(), watched()
    for _ in range(3):
        given.step()
        plain.step()
    expected = plain.run.curves.get("update ratio/decoder.layers.0")[1].tolist()
    given.rewind(given.run.film.key_frames[0])
    step(given, 3)
    given.develop()
    assert given.run.curves.get("update ratio/decoder.layers.0")[1].tolist() == expected


def test_steps_that_a_full_film_would_not_keep_are_not_looked_at(monkeypatch):
    taken: list[int] = []
    take = Camera.take
    monkeypatch.setattr(
        Camera, "take", lambda camera, steps: take(camera, (taken.append(step) or step for step in steps))
    )
    learned = material()
    lens = start(learned)
    size = watched().run.film.frame_size
    taken.clear()
    given = Watched(lens, learned, SETTINGS, probe(lens), budget=5 * size, key_every=KEY_EVERY)
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
    plain = watched()
    for _ in range(25):
        plain.step()
    everything = dict(zip(*plain.run.curves.get("update ratio/decoder.embedding"), strict=True))
    assert [everything[step] for step in taken[1:]] == ratios[1].tolist()  # each of one step, not of several
    given.look()
    assert given.run.film.steps.tolist() == [0, 8, 16, 24, 25]


def test_a_frame_that_fails_loses_no_loss(monkeypatch):
    given = watched()
    step(given, 3)

    def fails(camera, steps):
        raise RuntimeError("no room")

    monkeypatch.setattr(Camera, "take", fails)
    with pytest.raises(RuntimeError, match="no room"):
        given.develop()
    monkeypatch.undo()
    step(given, 2)
    given.develop()
    assert given.run.curves.get("loss")[1].tolist() == expected_losses(5)
    assert given.run.film.steps.tolist() == [0, 4, 5]


def test_a_run_to_the_end_is_filmed_step_by_step():
    training = live()
    training.run()
    assert status(training) == "finished"
    assert training.current.film.steps.tolist() == list(range(41))
    assert losses(training) == expected_losses(40)
    assert (training.snapshot.film_every, training.snapshot.frames) == (1, 41)
    training.close()


@pytest.mark.parametrize("looked_at", [False, True])
def test_where_a_run_stands_still_there_is_a_frame(looked_at):
    """The film is full, so that the step where it is held would be left out."""
    size = watched().run.film.frame_size
    training = settled(live(budget=3 * size))
    training.advance(5)
    gate = Gate(settled(training))
    training.run()
    assert gate.reached.wait(LONG)
    if looked_at:
        training.view()  # so that step 6 leaves a look while the training still runs
    training.pause()
    gate.open.set()
    assert status(training) == "paused"
    assert training.snapshot.film_every == 4
    assert training.current.film.steps[-1] == training.snapshot.step == 6
    assert training.snapshot.frames == len(training.current.film)
    training.close()


def test_where_fewer_steps_end_a_run_there_is_a_frame():
    training = settled(live(budget=3 * watched().run.film.frame_size))
    training.advance(6)
    gate = Gate(settled(training))
    training.run()
    assert gate.reached.wait(LONG)
    training.view()
    training.change(steps=7)
    gate.open.set()
    assert status(training) == "finished"
    assert training.current.film.steps[-1] == training.snapshot.step == 7
    training.close()


def test_what_is_shown_while_it_trains_is_on_film_and_curves():
    training = settled(live())
    gate = Gate(training)
    training.run()
    assert gate.reached.wait(LONG)
    training.view()
    training.pause()
    gate.open.set()
    settled(training)
    shown = training.view()
    assert shown.step == training.current.film.latest == training.current.curves.get("loss")[0][-1]
    weights = shown.trace.attention("cross")
    assert torch.equal(
        (weights * 255).round().to(torch.uint8), torch.from_numpy(training.current.film.series("cross")[-1])
    )
    training.close()


def test_a_step_whose_view_is_wanted_is_looked_at_once(monkeypatch):
    looks, look = [], Driver._look
    monkeypatch.setattr(Driver, "_look", lambda driver: (looks.append(driver), look(driver)))
    training = settled(live())
    training.view()
    looks.clear()
    training.advance(1)
    settled(training)
    assert len(looks) == 1
    training.close()


def test_what_waits_is_saved(tmp_path):
    training = settled(live(replace(SETTINGS, validate_every=1)))
    training.advance(3)
    settled(training)
    own = training._driver.own
    step(own, 2)
    training.zip("given")
    assert_array_equal(own.run.film.steps, range(6))
    training.close()
