"""Live training: commands from outside its thread."""

import io
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from model.analysis.checks import checks
from model.checkpoints.load import open_checkpoint
from model.training.live.live_training import LiveTraining
from tests.model.training.live.live_examples import (
    SETTINGS,
    advanced,
    before_a_batch,
    expected_losses,
    live,
    losses,
    material,
    probe,
    settled,
    status,
    threads,
)
from tests.model.training.training_examples import assert_equal, unchanged

pytestmark = pytest.mark.unchecked


def test_the_course_of_a_run():
    given = live()
    assert given.snapshot.busy
    assert status(given) == "idle"
    assert threads() == []
    before = given.snapshot
    assert (before.step, before.total, before.loss, before.frames) == (0, 40, None, 1)
    given.advance()
    given.advance(5)
    assert status(given) == "idle"
    now = given.snapshot
    assert (now.step, now.wanted, now.frames) == (6, 6, 7)
    assert [key.step for key in given.current.film.key_frames] == [0, 4]
    assert losses(given) == expected_losses(6)
    assert now.loss == losses(given)[-1]
    assert now.validation == given.current.curves.latest("validation") is not None
    assert 0 <= now.accuracy <= 1
    assert 0 <= now.exact_match <= 1
    assert now.tokens_per_second > 0
    assert now.seconds_left == 0
    assert before.step == 0  # what was read does not change
    with pytest.raises(ValueError, match=r"steps \(0\) must be at least 1"):
        given.advance(0)
    given.change(steps=8)
    given.run()
    assert status(given) == "finished"
    assert given.snapshot.step == given.snapshot.total == 8
    given.change(steps=9)
    assert status(given) == "idle"  # there is something to do again
    given.run()
    assert status(given) == "finished"
    given.close()


def test_it_trains_on_one_core_in_a_thread_of_its_own_and_leaves_the_others_to_whoever_types():
    given, found = settled(live()), []
    corpus = given.recorded.trainer.train
    batch_of, before = corpus.batch, torch.get_num_threads()
    corpus.batch = lambda *of: found.append((threading.current_thread(), torch.get_num_threads())) or batch_of(*of)
    torch.set_num_threads(3)
    try:
        advanced(given)
        ((thread, cores),) = found
        assert thread is not threading.current_thread()
        assert (cores, torch.get_num_threads()) == (1, 3)
    finally:
        torch.set_num_threads(before)


def test_settings_change_between_two_steps_of_a_running_training():
    given = settled(live())
    with before_a_batch(given, lambda: given.advance(4)):
        given.change(rate=0.02, dropout=0.0)
    (mark,) = given.snapshot.marks
    assert mark.changes == {"rate": (5e-3, 0.02), "dropout": (0.2, 0.0)}
    assert mark.step == 1
    assert given.current.curves.get("rate")[1][1] == pytest.approx(0.02 * 2 / 3)  # still warming up
    assert given.recorded.settings.rate == 0.02
    with pytest.raises(ValueError, match=r"rate \(-1.0\) must be at least 0"):
        given.change(rate=-1.0)
    assert given.snapshot.status == "idle"


def test_it_branches_and_begins_anew():
    given = live()
    key = advanced(given, 5).current.film.key_frames[1]
    with pytest.raises(ValueError, match="heads cannot be changed"):
        given.branch(key, heads=3)
    given.branch(key, rate=0.02)
    advanced(given, 1)
    assert (given.snapshot.run, given.snapshot.step) == (2, 5)
    assert [run.film.steps[-1] for run in given.runs] == [5, 5]
    given.reset()
    settled(given)
    assert (given.snapshot.run, given.snapshot.step, given.recorded.settings.rate) == (3, 0, 0.02)


def test_a_view_is_never_touched_by_the_training():
    """Weights of its own, those of its step: what is computed from it later is what was computed then."""
    given = live()
    first = advanced(given, 2).view()
    assert (first.step, first.probe) == (2, probe(given.start))
    assert_equal(first.model.network.state_dict(), given.recorded.trainer.network.state_dict())
    logits, film = first.trace["output.logits"].clone(), given.current.film
    cross = first.trace.attention("cross").clone()
    assert np.abs(film.attention("cross")[-1] / 255 - cross.numpy()).max() <= 0.5001 / 255
    with unchanged(first.model.network):
        second = advanced(given, 3).view()
    assert second.step == 5
    assert_close(first.model.trace_tokens(first.probe.source, first.probe.target)["output.logits"], logits)
    assert all(check.passed for check in checks(first.trace))
    assert not torch.equal(second.trace["output.logits"], logits)


def test_a_view_that_is_wanted_comes_with_the_next_step():
    given, steps = settled(live()), []
    assert given.view().step == 0
    with before_a_batch(given, lambda: given.advance(3)):
        given._look, look = lambda: (look(), steps.append(given._view.step)), given._look
    assert steps == [1, 3]  # as asked for, and at the end; not at every step


def test_another_probe_is_watched():
    given = live()
    other = probe(advanced(given, 2).start, "xyz")
    given.set_probe(other)
    advanced(given, 1)
    assert given.view().probe == given.current.film.probe == other
    assert given.current.film.steps.tolist() == [2, 3]
    assert list(given.current.film.rerender(other)) == [1.0]
    assert given.current.film.steps.tolist() == [0, 2, 3]
    assert losses(given) == expected_losses(3)


def test_a_run_is_a_checkpoint_of_ours(tmp_path):
    given = live()
    given.advance(5)
    settled(given).change(clip=0.5)
    view = advanced(given).view()
    given.save(tmp_path / "mine")
    read = open_checkpoint(tmp_path / "mine")
    again = read.trace_tokens(view.probe.source, view.probe.target)
    assert torch.equal(again["output.logits"], view.trace["output.logits"])
    assert (read.training["steps"], read.training["task"], read.example) == (6, "reverse", "abcd")
    card = (tmp_path / "mine" / "README.md").read_text(encoding="utf-8")
    for part in (
        "# mine",
        "| steps | 6 |",
        "Trained from scratch in Vitrine.",
        "are those of the last step.",
        "clip 1.0 → 0.5 after step 5",
    ):
        assert part in card
    with zipfile.ZipFile(io.BytesIO(given.zip("yours"))) as archive:
        archive.extractall(tmp_path)
    for file in (tmp_path / "mine").iterdir():
        if file.name != "README.md":
            assert (tmp_path / "yours" / file.name).read_bytes() == file.read_bytes(), file.name
    assert (tmp_path / "yours" / "README.md").read_text(encoding="utf-8").startswith("# yours")


def test_a_bundled_checkpoint_is_trained_on():
    """With its own tokenizers; the shared model stays as it is, and the card names where it began."""
    model = open_checkpoint(Path(__file__).parents[4] / "checkpoints" / "reverse")
    tokenizers = model.source_tokenizer, model.target_tokenizer
    learned = type(material())(material().pairs["train"], "reverse", "characters", 0, tokenizers)
    with unchanged(model.network):
        given = LiveTraining(model, learned, replace(SETTINGS, rate=1e-4), probe(model, "vitrine"))
        given.advance(1)
        assert status(given) == "idle"
    assert given.snapshot.loss < 0.1
    assert not any(parameter.requires_grad for parameter in model.network.parameters())
    _, record = given._frozen()
    assert "from reverse (trained on `task:reverse:20000`: made by code, model/data/tasks.py)" in record["note"]


def test_a_training_that_has_had_its_time_ends_with_a_sentence_and_keeps_what_it_has():
    given = live(longest=1e-9)
    given.run()
    assert status(given) == "failed"
    assert given.snapshot.message.startswith("this training has had its 1.66667e-11 minutes, which is all")
    assert given.snapshot.step == 1  # the time is known after a step
    given.advance()
    assert (status(given), given.snapshot.step) == ("failed", 1)
    assert given.zip("kept")
