"""A model that goes on: with the data, the split and the settings of its run, or a sentence that they are others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from model.data.pairs import in_split
from model.data.sources import PHRASES, data_of_run, has_data_of, material_of, task_data, usual_percent
from model.inference.models import Translator
from model.options import present_names
from model.training.live.saving import incomparable
from model.training.model_card import card
from model.training.settings import OWN, TRAINING_OPTIONS, TrainingSettings, settings_of_run
from tests.model.examples import config, network, sentences, tokenizers

CHECKPOINTS = Path(__file__).parent.parent.parent.parent / "checkpoints"
TASK = {"data": "task:reverse:300", "task": "reverse"}


def record_of(name: str) -> dict:
    return json.loads((CHECKPOINTS / name / "training.json").read_text())


def test_a_run_of_a_task_goes_on_with_its_very_rows():
    record = TASK | {"validation_percent": 20}
    found = data_of_run("encoder-decoder", record)
    assert found == replace(task_data("reverse", 300), validation_percent=20)
    material = material_of("encoder-decoder", found, "characters", 0)
    assert material.pairs["train"] == in_split(found.pairs, "train", 20)
    assert material.record()["validation_percent"] == 20


def test_a_record_of_the_command_line_without_a_percentage_has_its_usual_split():
    assert record_of("reverse").get("validation_percent") is None
    found = data_of_run("encoder-decoder", record_of("reverse"))
    assert usual_percent(found) == 1
    train = material_of("encoder-decoder", found, "characters", 0).pairs["train"]
    assert len(train) == record_of("reverse")["training_pairs"]


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"data": "tatoeba-eng-cmn.tsv"},
        {"data": "task:"},
        {"data": "task:no-such-task:20"},
        {"data": "task:reverse:many"},
        {"data": "task:reverse:0"},
        {"data": "task:reverse:999999999999"},
        {"data": "task:reverse:300", "validation_data": "other.tsv"},
        {"data": "task:reverse:300", "validation_percent": "5"},
        {"data": "task:reverse:300", "validation_percent": 99},
        {"data": "task:reverse:300", "note": "Trained on in Vitrine from reverse."},
        {"data": 7},
    ],
)
def test_what_is_not_here_or_was_split_in_an_unknown_way_is_no_data_of_the_run(record):
    assert not has_data_of(record)
    assert data_of_run("encoder-decoder", record) is None


def test_sentences_made_by_rule_are_here_for_every_kind():
    for kind in ("encoder-decoder", "decoder-only", "encoder-only"):
        assert data_of_run(kind, {"data": PHRASES, "validation_percent": 5}).validation_percent == 5


def test_settings_that_say_what_is_learnt_are_the_runs_and_how_long_and_fast_are_not():
    own, gentle = record_of("eng-cmn"), TrainingSettings(steps=9, rate=1e-5, warmup=3, average=0.0, bpe_dropout=0.0)
    found = settings_of_run(own, gentle)
    assert (found.steps, found.rate, found.warmup) == (9, 1e-5, 3)
    for name in OWN:
        recorded = present_names(own["settings"], TRAINING_OPTIONS).get(name, getattr(gentle, name))
        assert getattr(found, name) == recorded, name
    assert (found.average, found.bpe_dropout) == (0.998, own["settings"]["undo_merges"])  # as it was called then
    assert "| bpe dropout | 0.1 |" in card("a", config(), 1, own)


@pytest.mark.parametrize(
    "told", [None, [], "x", {"batch_tokens": "many"}, {"batch_tokens": -4}, {"average": 7}, {"clip": True}, {"x": 1}]
)
def test_settings_that_a_file_names_wrongly_are_left_out(told):
    settings = TrainingSettings()
    assert settings_of_run({"settings": told}, settings) == settings
    assert settings_of_run({"settings": {"batch_tokens": 1e999}}, settings) == settings


def test_the_card_says_how_the_split_was_made():
    made = config()
    for percent, numbers in ((None, "validation 2;"), (1, "validation 2;"), (5, "validation 2 to 6;")):
        assert numbers in card("a", made, 1, TASK | {"training_pairs": 10, "validation_percent": percent})
    text = card("a", made, 1, {"training_characters": 90, "validation_percent": 20})
    assert "the last 20 % are for validation" in text


def test_the_card_of_what_went_on_says_whether_its_validation_can_be_compared():
    start = Translator("first", network(), tokenizers(sentences(50)), TASK | {"validation_percent": 5})
    same = {"data": "task:reverse:300", "validation_percent": 5}
    assert incomparable(start, same) == []
    for other in (same | {"validation_percent": 1}, same | {"data": "task:sort:300"}):
        assert "not comparable with that of first" in incomparable(start, other)[0]
    start.training = {}
    assert incomparable(start, same) == []  # nothing was trained before


@pytest.mark.parametrize(
    ("loss", "text"), [(None, "not measured"), (0.03456, "0.0346 nats"), (2.9e-5, "below 0.0001 nats"), (0.0, "below")]
)
def test_the_card_writes_no_loss_as_nothing(loss, text):
    assert f"| validation loss | {text}" in card("small", config(), 7, {"validation_loss": loss})
