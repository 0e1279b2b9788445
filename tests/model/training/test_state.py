"""A run that was stopped and goes on must not differ from one that never stopped."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from model.training.trainer import Trainer
from tests.model.examples import recurrent, trainer
from tests.model.training.training_examples import PAIRS, assert_equal, unchanged

pytestmark = pytest.mark.unchecked

NETWORK = {"dropout": 0.2, "attention_dropout": 0.1, "activation_dropout": 0.1, "tied_embeddings": "output"}
SETTINGS = {"epochs": 3, "batch_tokens": 80, "warmup": 4, "rate": 5e-3, "bpe_dropout": 0.2, "average": 0.9}


def make(network=None, **settings) -> Trainer:
    return trainer(PAIRS[10:], PAIRS[:10], NETWORK | (network or {}), **(SETTINGS | settings))


def reported(given: Trainer, count=None) -> list[tuple]:
    """Everything of the reports but the seconds."""
    return [
        (r.step, r.epoch, r.loss, r.rate, r.gradient_norms, r.parameter_norm, r.tokens, r.validation)
        for r in given.steps(count)
    ]


def assert_same(one: Trainer, other: Trainer) -> None:
    assert one.figures() == other.figures()
    assert_equal(dict(one.network.named_parameters()), dict(other.network.named_parameters()))
    assert_equal(one.average, other.average)
    assert_equal(one.optimizer.moments(), other.optimizer.moments())


EPOCH = make().epochs.ends[0]  # its last step
RESUMED = [
    ({}, 0),
    ({}, EPOCH - 3),
    ({}, EPOCH),
    ({}, EPOCH + 1),
    ({"precision": "bfloat16"}, 9),
    ({"precision": "float16"}, 9),
    ({"average_last": 2, "validate_every": 2}, 9),
    ({"average_last": 3, "validate_every": 4}, 9),  # two are kept at the stop
    ({"validate_every": 4, "patience": 2}, 9),
    ({"accumulation": 2}, 9),
    ({"schedule": "inverse-sqrt"}, 9),
    ({"schedule": "constant", "precision": "bfloat16", "accumulation": 3, "average_last": 1}, 9),
]


@pytest.mark.parametrize(("options", "stop"), RESUMED, ids=str)
def test_a_resumed_run_is_the_uninterrupted_one(options, stop, tmp_path):
    whole, begun = make(**options), make(**options)
    expected = reported(whole, 12)
    reports = reported(begun, stop)
    begun.save_state(tmp_path / "run.resume")
    progress = begun.progress
    del begun
    torch.manual_seed(99)  # another process has another state
    torch.rand(7)
    resumed = make(**options)
    resumed.load_state(tmp_path / "run.resume")
    assert resumed.progress == progress
    assert reports + reported(resumed, 12 - stop) == expected
    assert any(report[-1] is not None for report in expected)
    assert_same(resumed, whole)


def test_a_run_out_of_patience_is_finished_for_good(tmp_path, monkeypatch):
    losses = {2: 3.0, 4: 2.0, 6: 2.5, 8: 1.9, 10: 1.9, 12: 2.4, 14: 1.0}
    for stop in (7, 9, 10, 12):
        given = make(validate_every=2, patience=2)
        monkeypatch.setattr(Trainer, "validate", lambda self: losses[self.progress.step])
        list(given.steps(stop))
        assert given.finished == (stop == 12)
        given.save_state(tmp_path / "run.resume")
        resumed = make(validate_every=2, patience=2)
        resumed.load_state(tmp_path / "run.resume")
        assert resumed.finished == given.finished
        assert [report.step for report in resumed.steps()] == list(range(stop + 1, 13))  # the best was at 8
        assert resumed.finished
        assert resumed.total_steps > 12
        assert (resumed.progress.best_step, resumed.progress.best_validation) == (8, 1.9)


def test_patience_needs_a_validation_split():
    with pytest.raises(ValueError, match=r"patience \(2\) needs validation: the validation split is empty"):
        trainer(PAIRS, [], {}, patience=2)


def test_a_recurrent_network_is_not_compiled():
    given = make()
    with pytest.raises(ValueError, match="compile is on and the network is recurrent"):
        Trainer(recurrent(), given.train, given.validation, replace(given.settings, compile=True))


def test_saving_changes_nothing(tmp_path):
    plain = make()
    list(plain.steps(6))
    saving = make()
    for _ in saving.steps(6):
        saving.save_state(tmp_path / "run.resume")
    assert_same(plain, saving)
    assert [path.name for path in tmp_path.iterdir()] == ["run.resume"]


@pytest.mark.parametrize(
    ("network", "settings", "change"),
    [
        ({}, {"weight_decay": 0.1}, "weight_decay was 0.05, is 0.1"),
        ({}, {"average": 0.5}, "average was 0.9, is 0.5"),
        ({}, {"batch_tokens": 81}, "batch_tokens was 80, is 81"),
        ({}, {"label_smoothing": 0.0}, "label_smoothing was 0.1, is 0.0"),
        ({}, {"bpe_dropout": 0.0}, "bpe_dropout was 0.2, is 0.0"),
        ({"dropout": 0.3}, {}, "dropout was 0.2, is 0.3"),
        ({"activation": "gelu"}, {}, "activation was relu, is gelu"),
        ({"n_heads": 4}, {}, "n_heads was 2, is 4"),
        ({"d_ff": 8}, {}, "d_ff was 24, is 8"),
    ],
)
def test_other_settings_and_another_network_are_refused(network, settings, change, tmp_path):
    make().save_state(tmp_path / "run.resume")
    other = make(network, **settings)
    with unchanged(other), pytest.raises(ValueError, match=rf"other settings \({change}\): use the same"):
        other.load_state(tmp_path / "run.resume")


def test_a_state_with_the_former_name_of_a_setting_is_resumed(tmp_path):
    make().save_state(tmp_path / "run.resume")
    with safe_open(tmp_path / "run.resume", framework="pt") as file:
        metadata = file.metadata()
    metadata["settings"] = metadata["settings"].replace("bpe_dropout", "undo_merges")
    save_file(load_file(tmp_path / "run.resume"), tmp_path / "old.resume", metadata)
    assert make().load_state(tmp_path / "old.resume") == []


def test_what_makes_a_run_go_on_that_failed_may_change_until_its_end(tmp_path):
    """As if it had been changed without a stop."""
    whole, path = make(epochs=1), tmp_path / "run.resume"
    list(whole.steps(3))
    whole.save_state(path)
    changes = {"rate": 1e-3, "warmup": 0, "schedule": "constant", "clip": 0.5, "seed": 2}
    resumed = make(epochs=1, **changes)
    assert resumed.load_state(path) == [
        *("rate was 0.005, is 0.001", "warmup was 4, is 0", "schedule was cosine, is constant"),
        *("clip was 1.0, is 0.5", "seed was 1, is 2"),
    ]
    whole.change(replace(whole.settings, **changes))
    expected = reported(whole)
    assert reported(resumed) == expected
    resumed.save_state(path)
    with pytest.raises(ValueError, match=r"other settings \(rate was 0.001, is 0.002\): use the same"):
        make(epochs=1, **changes | {"rate": 2e-3}).load_state(path)


@pytest.mark.parametrize("change", [{"d_ff": 8}, {"n_decoder_layers": 1}, {"n_encoder_layers": 3}])
def test_another_size_is_refused_though_the_state_has_no_config(change, tmp_path):
    path = tmp_path / "run.resume"
    begun = make()
    list(begun.steps(1))
    begun.save_state(path)
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    assert json.loads(metadata.pop("config"))["d_ff"] == 24
    save_file(load_file(path), path, metadata)
    make().load_state(path)
    with pytest.raises(ValueError, match="belongs to a model of another size"):
        make(change).load_state(path)


def test_more_epochs_make_a_longer_run(tmp_path):
    begun = make()
    list(begun.steps())
    begun.save_state(tmp_path / "run.resume")
    longer = make(epochs=4)
    longer.load_state(tmp_path / "run.resume")
    assert [report.epoch for report in longer.steps()] == [3] * (longer.epochs.ends[3] - longer.epochs.ends[2])


def test_other_data_is_refused(tmp_path):
    """Trained on or validated with; the same number of examples of the same vocabulary."""
    path = tmp_path / "run.resume"
    begun = make()
    list(begun.steps(2))
    begun.save_state(path)
    for change in ("train", "validation"):
        other = make()
        examples = getattr(other, change).examples
        examples[3] = examples[3]._replace(target=[*examples[3].target[:-2], 5, examples[3].target[-1]])
        sentence = r"run\.resume was written with other data: use the same to resume, or del"
        with unchanged(other), pytest.raises(ValueError, match=sentence):
            other.load_state(path)
    make(epochs=5).load_state(path)


@pytest.mark.parametrize("keep", [0, 4, 100, 0.5, -1])
def test_a_damaged_state_is_refused(keep, tmp_path):
    path = tmp_path / "run.resume"
    make().save_state(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(ValueError, match=r"run\.resume cannot be read as a training state"):
        make().load_state(path)


def test_a_file_of_other_tensors_is_no_state(tmp_path):
    path = tmp_path / "run.resume"
    save_file({"weight": torch.zeros(2)}, path)
    sentence = r"is not a training state of this version: it lacks .*data.*: delete the file to start"
    with pytest.raises(ValueError, match=sentence):
        make().load_state(path)
    with pytest.raises(ValueError, match=r"missing\.resume cannot be read as a training state"):
        make().load_state(tmp_path / "missing.resume")
