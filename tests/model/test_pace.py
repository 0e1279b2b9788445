"""Filming costs no more than its share of the time, and leaves what one comes back to."""

import pytest

from model.driver import Driver
from model.pace import Pace
from model.watched import Watched
from tests.model.live_examples import KEY_EVERY, LONG, SETTINGS, Gate, live, material, probe, settled, start, status

pytestmark = pytest.mark.unchecked


def noted(pace: Pace, frame: float, step: float = 1.0, count: int = 40) -> int:
    for _ in range(count):
        pace.note(step, frame)
    return pace.every


@pytest.mark.parametrize(("frame", "every"), [(0.019, 1), (0.021, 2), (0.05, 4), (1.0, 64)])
def test_frames_take_at_most_their_share(frame, every):
    assert noted(Pace(0.02), frame) == every
    assert noted(Pace(), frame) == 1


def test_frames_come_more_often_again_once_they_are_clearly_cheaper():
    pace = Pace(0.02)
    assert noted(pace, 0.05) == 4
    assert noted(pace, 0.039) == 4  # just below: it would soon turn back
    assert noted(pace, 0.03) == 2
    assert noted(pace, 0.001) == 1
    pace.note(1.0, 1.0)  # one that was slow by chance
    pace.note(1.0, None)
    assert pace.every == 1


def test_a_paced_film_has_its_key_frames_and_what_was_asked_for():
    lens = start(learned := material())
    given = Watched(lens, learned, SETTINGS, probe(lens), share=1e-9, key_every=KEY_EVERY)
    for _ in range(10):
        given.step()
    given.step(filmed=True)
    assert given.run.film.steps.tolist()[-2:] == [8, 11]
    assert {0, 4, 8} <= set(given.run.film.steps.tolist())
    assert 2 not in given.run.curves.get("probe loss")[0][2:]
    assert given.run.curves.get("loss")[0].tolist() == list(range(1, 12))


def test_steps_that_are_counted_are_all_filmed_and_a_run_to_the_end_by_the_pace():
    training = live(share=1e-9)
    training.advance(3)
    training.advance(4)
    assert settled(training).current.film.steps.tolist() == list(range(8))
    training.run()
    steps = settled(training).current.film.steps.tolist()
    assert set(steps) == set(range(8)) | {*range(8, 41, KEY_EVERY), 40}
    assert training.snapshot.film_every > 1
    training.close()


@pytest.mark.parametrize("looked_at", [False, True])
def test_where_a_paced_run_stands_still_there_is_a_frame(looked_at):
    training = settled(live(share=1e-9))
    for _ in range(2):  # the pace has been found after the first steps
        training.advance(3)
    gate = Gate(settled(training))
    training.run()
    assert gate.reached.wait(LONG)
    if looked_at:
        training.view()  # so that step 7 leaves a look while the training still runs
    training.pause()
    gate.open.set()
    assert status(training) == "paused"
    assert training.current.film.steps[-1] == training.snapshot.step == 7
    assert training.snapshot.frames == len(training.current.film)
    training.close()


def test_where_fewer_steps_end_a_run_there_is_a_frame():
    training = settled(live(share=1e-9))
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


def test_a_filmed_step_whose_view_is_wanted_is_looked_at_once(monkeypatch):
    looks, look = [], Driver._look
    monkeypatch.setattr(Driver, "_look", lambda driver: (looks.append(driver), look(driver)))
    training = settled(live())
    training.view()
    looks.clear()
    training.advance(1)
    settled(training)
    assert len(looks) == 1
    training.close()
