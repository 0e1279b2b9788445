"""What a training will cost is what it costs."""

import random

import pytest
import torch

from model.data.datasets import PairDataset
from model.data.pairs import Pair, in_split, split_of
from model.data.sources import (
    Answers,
    Data,
    RunningText,
    Sentences,
    Translations,
    material_of,
    new_config,
    phrase_data,
    preset_options,
    task_data,
    usual_units,
)
from model.network.costs import costs
from model.network.transformer import build
from model.training.cost import forecast, require_memory, timed_step
from model.training.demonstration import fresh
from tests.model.training.live.live_examples import PAIRS, SETTINGS, material, start
from tests.model.training.training_examples import unchanged


def test_the_forecast_is_that_of_the_largest_batch():
    learned, model = material(), start(material())
    train, _ = learned.corpora(16, 0.0)
    assert isinstance(train, PairDataset)
    found = forecast(model.config, train, SETTINGS)
    sizes = []
    for indices in train.order(SETTINGS.batch_tokens, random.Random(SETTINGS.seed)):
        batch = train.batch(indices, None)
        source, target = batch.inputs[:2]
        sizes.append(costs(model.config, *source.shape, target.shape[1], batch.predicted).training_memory)
    assert found.training_memory == max(sizes)
    assert found.parameter_count == sum(weights.numel() for weights in build(model.config).parameters())


def test_nothing_to_train_on_is_said():
    train, _ = Translations([], "", "characters", 0, material().tokenizers).corpora(16, 0.0)
    with pytest.raises(ValueError, match="give more of them"):
        forecast(start(material()).config, train, SETTINGS)


def test_a_measured_step_leaves_the_model_as_it_was():
    learned = material()
    model = start(learned)
    with unchanged(model.network):
        assert 0 < timed_step(model, learned.corpora(16, 0.0), SETTINGS) < 10


def test_more_memory_than_there_is_is_refused():
    require_memory(1000, torch.device("cpu"))
    with pytest.raises(ValueError, match=r"needs about 1000000\.0 GB"):
        require_memory(10**15, torch.device("cpu"))


@pytest.mark.parametrize("preset", ["tiny", "small", "paper-base"])
@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only", "encoder-only"])
def test_a_new_model_of_every_kind_begins_from_a_preset(kind, preset):
    options = preset_options(kind, preset)
    data = phrase_data(kind)
    learned = material_of(kind, data, "joint" if kind == "encoder-decoder" else "bpe", 60)
    config = new_config(kind, options | {"d_model": 8, "n_heads": 2, "d_ff": 8}, learned.tokenizers)
    assert config.kind == kind
    assert {name: getattr(config, name) for name in options} == options | {"d_model": 8, "n_heads": 2, "d_ff": 8}
    assert fresh("new", config, learned, 1).kind == kind


def test_what_each_kind_learns_from():
    pairs, text = (
        Data("own", tuple(PAIRS), validation_percent=20),
        Data("own", text="One.\nTwo is here.\n" * 30, validation_percent=20),
    )
    found = {kind: material_of(kind, pairs, "characters", 0) for kind in ("encoder-decoder", "decoder-only")}
    assert isinstance(found["encoder-decoder"], Translations)
    assert isinstance(found["decoder-only"], Answers)
    assert found["decoder-only"].pairs["validation"] == in_split(PAIRS, "validation", 20)
    running = material_of("decoder-only", text, "characters", 0)
    assert isinstance(running, RunningText)
    assert len(running.parts[1]) == len(text.text) * 20 // 100
    single = material_of("encoder-only", text, "characters", 0)
    assert isinstance(single, Sentences)
    kept = [each for each in ("One.", "Two is here.") if split_of(each, 20) != "test"]
    assert sorted(single.texts["train"] + single.texts["validation"]) == kept
    with pytest.raises(ValueError, match="needs pairs"):
        material_of("encoder-decoder", text, "characters", 0)


def test_the_validation_share_takes_nothing_from_the_test():
    pairs = [Pair(str(number), "") for number in range(2000)]
    assert in_split(pairs, "test", 20) == in_split(pairs, "test")
    assert len(in_split(pairs, "validation", 20)) == pytest.approx(400, rel=0.15)
    assert set(in_split(pairs, "validation")) < set(in_split(pairs, "validation", 20))


def test_a_stack_without_layers_is_of_another_kind():
    learned = material_of("encoder-decoder", Data("own", tuple(PAIRS)), "characters", 0)
    for name in ("n_encoder_layers", "n_decoder_layers"):
        with pytest.raises(ValueError, match=rf"{name} \(0\) must be at least 1: a model without"):
            new_config("encoder-decoder", preset_options("encoder-decoder", "tiny") | {name: 0}, learned.tokenizers)


def test_what_a_model_is_first_shown_is_short():
    huge = "x" * 5000
    data = {
        "encoder-only": Data("own", text=f"{huge}\n{huge} y", validation_percent=10),
        "decoder-only": Data("own", text=huge, validation_percent=10),
        "encoder-decoder": Data("own", tuple(Pair(f"{number}{huge}", "y") for number in range(9))),
    }
    for kind, own in data.items():
        assert 0 < len(material_of(kind, own, "characters", 0).example) < 250


def test_tied_stacks_share_their_vocabulary_and_a_task_counts_characters():
    task = task_data("reverse", 20)
    assert usual_units("encoder-decoder", "", tied=True) == "joint"
    assert usual_units("encoder-decoder", "") == "mixed"
    assert usual_units("decoder-only", "", tied=True) == "bpe"
    assert len(task.pairs) == 20
    assert usual_units("encoder-decoder", task.task) == "characters"
