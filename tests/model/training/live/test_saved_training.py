"""A training in a folder: another process shows it as it stood, and goes on as if it had not been interrupted."""

from __future__ import annotations

import itertools
import json
import os
import time
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from model.data.sources import Data, Source, material_of
from model.inference.text_model import TextModel
from model.network.config import Kind
from model.runtime.errors import CheckpointError
from model.runtime.files import finish_replacing
from model.training.live import live_training
from model.training.live.live_training import LiveTraining
from model.training.live.saved_training import DATA, LONGEST, STATE, keep_first, read_saved_training, remove_old
from model.training.settings import DROPOUTS
from tests.model.checkpoints.killing import dying_at
from tests.model.training.live.live_examples import (
    KEY_EVERY,
    PAIRS,
    SETTINGS,
    advanced,
    losses,
    material,
    probe,
    settled,
    start,
    status,
)

pytestmark = pytest.mark.unchecked


def data() -> Data:
    return Data("pairs of mine", tuple(PAIRS), task="reverse", licence="mine")


def model_of(kind: Kind) -> TextModel:
    return start(material(kind), kind)


def begun(folder, kind: Kind = "encoder-decoder", settings=SETTINGS, **options) -> LiveTraining:
    model = model_of(kind)
    learned = material_of(kind, data(), "characters", 0, (model.source_tokenizer, model.target_tokenizer))
    given = {"folder": folder, "owner": "me", "source": Source("pairs of mine"), "key_every": KEY_EVERY, **options}
    return LiveTraining(model, learned, settings, probe(model), **given)


def gone_on_with(folder) -> LiveTraining:
    left = read_saved_training(folder)
    given = {"folder": folder, "owner": left.owner, "source": left.source, "going_on": left, "key_every": KEY_EVERY}
    return settled(LiveTraining(left.start, left.material, left.settings, left.probe, **given))


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only", "encoder-only"])
def test_another_process_goes_on_exactly_where_it_stood(kind, tmp_path):
    whole = advanced(begun(None, kind), 11)
    first = advanced(begun(tmp_path / "run", kind), 7)
    first.change(rate=1e-3)
    first.change(rate=SETTINGS.rate)  # which leaves nothing in force, and a mark each
    settled(first)
    again = gone_on_with(tmp_path / "run")
    assert (again.owner, again.start.name, again.source) == ("me", "new", Source("pairs of mine"))
    assert (status(again), again.snapshot.step) == ("idle", 7)
    assert losses(again) == losses(first) == losses(whole)[:7]
    film, before = again.current.film, first.current.film
    assert film.steps.tolist() == before.steps.tolist() == list(range(8))
    for name in film.names:
        frames, theirs = (torch.from_numpy(each.series(name)) for each in (film, before))
        assert_close(frames[:7], theirs[:7], atol=0, rtol=0, equal_nan=True)
        assert_close(
            frames[7].double(),
            theirs[7].double(),
            atol=1 if frames.dtype == torch.uint8 else 1e-5,
            rtol=1e-5,
            equal_nan=True,
        )
    assert [key.step for key in film.key_frames] == [0, 7]
    for name in first.current.curves.names:
        assert again.current.curves.get(name)[1].tolist() == first.current.curves.get(name)[1].tolist()
    advanced(again, 4)
    assert losses(again) == losses(whole)
    again.rewind(again.current.film.key_frames[0])  # the way back to its beginning is there too
    advanced(again, 7)
    assert losses(again) == losses(whole)[:7]


def test_settings_in_force_and_their_marks_come_back(tmp_path):
    first = advanced(begun(tmp_path / "run"), 3)
    first.change(rate=1e-3, dropout=0.0)
    advanced(first, 2)
    again = gone_on_with(tmp_path / "run")
    assert (again.settings.rate, again.settings.dropout) == (1e-3, 0.0)
    assert again.recorded.settings == again.settings
    assert [(mark.step, mark.changes) for mark in again.current.changes] == [
        (mark.step, mark.changes) for mark in first.current.changes
    ]
    assert losses(advanced(again, 2)) == losses(advanced(first, 2))


def test_its_state_is_kept_while_it_runs_and_when_it_rests_and_goes_when_it_is_given_up(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    monkeypatch.setattr(live_training, "KEEP_EVERY", 0.0)
    training = settled(begun(folder))
    assert not folder.exists()  # there is nothing to go on with yet, and the first step is waited for
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_saved_training(folder)
    advanced(training, 2)
    assert read_saved_training(folder).state["step"] == 2
    training.close(forget=False)
    assert (folder / STATE).exists()
    gone_on_with(folder).close()
    assert not folder.exists()


def test_where_nothing_can_be_written_it_trains_all_the_same(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    training = begun(tmp_path / "file" / "run")
    advanced(training, 2)
    assert (status(training), training.snapshot.step) == ("idle", 2)
    assert [record.message for record in caplog.records] == ["a training is not kept any more"]
    assert training.save_error.startswith(
        "this training is not kept for a restart of the server any more: run cannot be"
    )


def test_a_kill_at_any_moment_of_the_first_keeping_leaves_nothing_or_what_can_be_read_back(tmp_path, monkeypatch):
    training = advanced(begun(tmp_path / "first"), 1)
    left = read_saved_training(tmp_path / "first")
    given = training.start, training.material.data, left.source, left.owner, training.recorded, training.batches
    found = []
    for step in itertools.count(1):
        folder = tmp_path / f"run {step}"
        with dying_at(step, monkeypatch) as died:
            keep_first(folder, *given)
        finish_replacing(folder)
        found.append(folder.exists())
        if folder.exists():
            assert read_saved_training(folder).state["step"] == 1
        if not died:
            break
    assert found == sorted(found)  # first nothing, then all of it
    assert found.count(False) > 5


def test_of_a_training_whose_data_are_unknown_nothing_is_kept(tmp_path):
    model = model_of("decoder-only")
    training = LiveTraining(model, material("decoder-only"), SETTINGS, probe(model), folder=tmp_path / "run")
    advanced(training, 1)
    assert not (tmp_path / "run").exists()


def test_what_an_older_version_has_kept_goes_on(tmp_path):
    """It had the dropout rates apart, another name for bpe_dropout, and no sizes of batches."""
    first = advanced(begun(tmp_path / "run", settings=replace(SETTINGS, bpe_dropout=0.25)), 2)
    file = tmp_path / "run" / STATE
    with safe_open(file, framework="pt") as opened:
        state = json.loads(opened.metadata()["training"])
    del state["batches"]
    for each in ("first", "now"):
        values = state[each]
        state[each] = {"rates": {name: values.pop(name) for name in DROPOUTS}, "settings": values}
        values["undo_merges"] = values.pop("bpe_dropout")
    save_file(load_file(file), file, {"training": json.dumps(state)})
    again = gone_on_with(tmp_path / "run")
    assert again.settings == first.settings == again.current.settings
    assert again.batches == first.batches


@pytest.mark.parametrize("damage", [STATE, DATA, "start"])
def test_what_is_damaged_is_a_sentence(damage, tmp_path):
    advanced(begun(tmp_path / "run"), 1)
    path = tmp_path / "run" / damage
    if path.is_dir():
        for file in path.iterdir():
            file.unlink()
    else:
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=r"that was kept in run cannot be read"):
        read_saved_training(tmp_path / "run")


def test_what_nobody_goes_on_with_for_a_week_goes(tmp_path):
    for name in ("new", "old"):
        advanced(begun(tmp_path / name), 1)
    past = time.time() - LONGEST - 60
    for path in [tmp_path / "old", *(tmp_path / "old").iterdir()]:
        os.utime(path, (past, past))
    remove_old(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    remove_old(tmp_path / "nowhere")
