"""The course of a training from the files beside its checkpoints: ours, of Hugging Face's Trainer, and damaged ones."""

import json
from itertools import pairwise

import pytest
import torch
from safetensors.torch import save_file

from model.runtime.errors import CheckpointError
from model.training.training_log import Course, course_of
from tests.model.examples import sentences, trainer

NONE = Course(None, None, None, [], [])


def begun(**settings):
    """A training on few sentences, in about eight steps."""
    pairs = sentences(40)
    return trainer(pairs[:32], pairs[32:], {}, epochs=2, validate_every=3, batch_tokens=200, **settings)


def write(folder, name="training.json", **record):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(record))
    return folder


def test_the_state_of_the_run_is_ahead_of_its_checkpoints(tmp_path):
    made = begun(label_smoothing=0.1)
    reports = list(made.steps())
    made.save_state(tmp_path / "run.resume")
    validations = [(report.step, report.validation) for report in reports if report.validation is not None]
    steps = [step for step, _loss in validations]
    sums = [[each.loss for each in reports if begin < each.step <= end] for begin, end in pairwise([0, *steps])]
    assert len(sums) > 1
    folders = (write(tmp_path / "run", steps=3, validations=validations[:1]), write(tmp_path / "run-000000", steps=0))
    for folder, step in zip((*folders, write(tmp_path / "run-last", steps=6)), (3, 0, 6), strict=True):
        found = course_of(folder)
        assert (found.step, found.latest, found.smoothing) == (step, reports[-1].step, 0.1)
        assert found.validation == validations
        assert [step for step, _loss in found.training] == steps
        assert [loss for _step, loss in found.training] == pytest.approx([sum(each) / len(each) for each in sums])
    later = write(tmp_path / "run", steps=900, validations=[[900, 1.0]], settings={"steps": 1000})
    assert course_of(later) == Course(900, 900, 1000, [], [(900, 1.0)])  # the state is of another run


def test_a_resumed_run_has_the_same_training_losses(tmp_path):
    whole, first = begun(), begun()
    list(whole.steps())
    for report in first.steps():
        if report.step == 4:  # between two validations
            break
    first.save_state(tmp_path / "run.resume")
    second = begun()
    second.load_state(tmp_path / "run.resume")
    list(second.steps())
    assert second.progress.losses == whole.progress.losses != []


def test_the_log_of_hugging_faces_trainer(tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    model = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_positions=8, n_embd=8, n_layer=1, n_head=2))
    row = torch.arange(8)
    data = [{"input_ids": row, "labels": row}] * 8
    options = {"logging_steps": 1, "save_steps": 2, "eval_steps": 2, "eval_strategy": "steps", "max_steps": 4}
    arguments = TrainingArguments(str(tmp_path), report_to="none", use_cpu=True, disable_tqdm=True, **options)
    theirs = Trainer(model, arguments, train_dataset=data, eval_dataset=data)
    theirs.train()
    log = theirs.state.log_history
    for step in (2, 4):
        found = course_of(tmp_path / f"checkpoint-{step}")
        assert (found.step, found.latest, found.total) == (step, step, 4)
        expected = [
            [(each["step"], each[name]) for each in log if name in each and each["step"] <= step]
            for name in ("loss", "eval_loss")
        ]
        assert [found.training, found.validation] == expected
        assert expected[0]


@pytest.mark.parametrize(
    ("name", "record", "expected"),
    [
        ("trainer_state.json", {"log_history": 3, "global_step": True, "max_steps": -1}, NONE),
        ("trainer_state.json", {"log_history": [3, {"step": "1", "loss": 2}, {"step": 1, "loss": None}]}, NONE),
        ("trainer_state.json", {"log_history": [{"step": 1, "loss": float("nan")}]}, NONE),
        ("training.json", {"steps": "</script>", "validations": [[1], 2, [1, "x"], {}], "settings": []}, NONE),
        ("training.json", {"validations": [[5, 1.0], [2, 3]]}, Course(None, None, None, [], [(2, 3.0), (5, 1.0)])),
        ("other.json", {}, NONE),
    ],
)
def test_what_the_files_do_not_say_is_unknown(name, record, expected, tmp_path):
    assert course_of(write(tmp_path / "one", name, **record)) == expected


def test_a_damaged_state_is_said(tmp_path):
    folder = write(tmp_path / "one", steps=2)
    (tmp_path / "one.resume").write_bytes(b"\x00" * 20)
    with pytest.raises(CheckpointError, match=r"one\.resume cannot be read as safetensors"):
        course_of(folder)
    save_file({"x": torch.zeros(1)}, tmp_path / "one.resume", {"progress": "[["})
    with pytest.raises(CheckpointError, match=r"one\.resume is not valid JSON"):
        course_of(folder)
    save_file({"x": torch.zeros(1)}, tmp_path / "one.resume", {"progress": "[1]"})
    assert course_of(folder) == Course(2, 2, None, [], [])
