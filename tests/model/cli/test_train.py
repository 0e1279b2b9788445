"""python -m model train: what it leaves behind when a run diverges, and what its options write."""

import math
import re
import shutil
from pathlib import Path

import pytest
import torch

from model.__main__ import main
from model.checkpoints.load import open_checkpoint
from model.cli import train
from model.data import sources
from model.data.pairs import split_of
from model.training import trainer
from model.training.trainer import Trainer
from tests.model.examples import TINY, sentences, write_pairs
from tests.model.training.training_examples import read_curves

pytestmark = pytest.mark.unchecked

RUN = "--vocabulary 90 --dropout 0.1 --epochs 3 --batch-tokens 700 --warmup 5 --rate 5e-3".split()


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("data") / "pairs.tsv", sentences(250))


def command(data: Path, out: Path, *more: str) -> list[str]:
    return ["train", "--data", str(data), "--out", str(out), *TINY, *RUN, *more]


def logged(folder: Path) -> list[int]:
    return [step for step, _ in read_curves(folder)["loss/training"]]


def test_a_run_that_diverges_leaves_what_was_good(data, tmp_path, monkeypatch, capsys):
    """Checkpoint and state are those of before, one sentence says what happened, and the run can go on."""
    out, backward = tmp_path / "run", Trainer._backward
    options = ["--validate-every", "4", "--log-dir", str(tmp_path / "curves")]

    def diverges(trainer: Trainer, batches: object) -> float:
        return backward(trainer, batches) + (math.nan if trainer.progress.step == 10 else 0)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_backward", diverges)
        assert main(command(data, out, *options)) == 2
    *_, error = capsys.readouterr().err.splitlines()
    assert error.startswith("error: step 11: loss nan, gradient norm ")
    assert error.endswith(
        f"; {out}.resume holds step 10, the last good one: go on with another --seed, which takes other batches"
    )
    model = open_checkpoint(out)
    assert model.training["steps"] in (4, 8)
    assert all(bool(tensor.isfinite().all()) for tensor in model.network.parameters())
    assert logged(tmp_path / "curves") == list(range(1, 11))
    assert main(command(data, out, *options, "--seed", "2")) == 0
    printed = capsys.readouterr().out
    assert f"going on at step 10 of {steps_of(printed)} ({out}.resume); seed was 1, is 2\n" in printed
    assert logged(tmp_path / "curves") == list(range(1, steps_of(printed) + 1))


def steps_of(printed: str) -> int:
    return int(printed.partition("going on at step ")[2].split()[2])


def test_a_run_whose_model_broke_goes_on_from_before_with_a_lower_rate(data, tmp_path, capsys):
    """Saved at step 4; the fifth step breaks the weights, and the sixth has no finite loss."""
    out, rate = tmp_path / "run", "--rate 1e30 --validate-every 4 --schedule constant --warmup 0".split()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trainer, "learning_rate", lambda step, total, given: given.rate if step > 4 else 1e-3)
        assert main(command(data, out, *rate)) == 2
    *_, error = capsys.readouterr().err.splitlines()
    assert re.match(r"error: step 6: loss nan, gradient norm nan, not finite first in encoder\.", error)
    assert error.endswith(
        f"; the model of step 5 makes no finite predictions, and {out}.resume still holds step 4: go on from there "
        "with a lower --rate"
    )
    assert main(command(data, out, *rate, "--rate", "1e-3", "--epochs", "2")) == 0
    assert ".resume); epochs was 3, is 2; rate was 1e+30, is 0.001\n" in capsys.readouterr().out


def test_a_run_that_breaks_at_once_begins_again(data, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(command(data, out, "--warmup", "0", "--rate", "1e30")) == 2
    *_, error = capsys.readouterr().err.splitlines()
    assert error.endswith(
        "; nothing is saved that one could go on from: begin again with a lower --rate or another --seed"
    )
    assert main(command(data, out, "--warmup", "0", "--epochs", "1")) == 0


def test_the_last_weights_are_kept_beside_the_best(data, tmp_path, monkeypatch, capsys):
    out, last = tmp_path / "run", tmp_path / "run-last"
    losses = iter([2.0, 1.0, 3.0])  # the second epoch is the best
    monkeypatch.setattr(Trainer, "validate", lambda self: next(losses))
    assert main(command(data, out, "--keep-last", "--average-last", "1")) == 0
    best, final = open_checkpoint(out), open_checkpoint(last)
    validations = final.training["validations"]
    assert [loss for _, loss in validations] == [2.0, 1.0, 3.0]
    assert best.training["steps"] == validations[1][0]
    assert final.training["steps"] == validations[2][0]
    assert not torch.equal(best.network.output.logits.weight, final.network.output.logits.weight)
    assert "best validation loss 1.0000" in capsys.readouterr().out
    cards = [(folder / "README.md").read_text(encoding="utf-8") for folder in (out, last)]
    ends = ["kept at the best validation loss.", "as it was after the last step."]
    assert [[end in text for end in ends] for text in cards] == [[True, False], [False, True]]


def test_words_are_tokens_where_that_is_asked_for(data, tmp_path):
    out = tmp_path / "run"
    assert main(command(data, out, "--units", "words", "--steps", "2")) == 0
    tokenizers = [open_checkpoint(out).source_tokenizer, open_checkpoint(out).target_tokenizer]
    for kind in ("decoder-only", "encoder-only"):
        tokenizers.append(sources.prepare(kind, str(data), "words", 80).tokenizers[0])
    for tokenizer in tokenizers:
        labels = [tokenizer.label(token) for token in range(len(tokenizer))]
        assert tokenizer.parents() == {}
        assert any(len(label) > 3 and label not in tokenizer.special_labels for label in labels)


def test_weights_on_the_way_are_kept_by_their_steps(data, tmp_path, capsys):
    out = tmp_path / "run"
    options = ("--steps", "5", "--keep-every", "2", "--validate-every", "2")
    assert main(command(data, out, *options)) == 0
    kept = {folder.name: open_checkpoint(folder) for folder in sorted(tmp_path.glob("run-*"))}
    assert list(kept) == ["run-000000", "run-000002", "run-000004"]
    assert [model.training["steps"] for model in kept.values()] == [0, 2, 4]
    final = open_checkpoint(out).training
    losses = dict(map(tuple, final["validations"]))
    assert list(losses) == [2, 4, 5]
    assert [model.training["validation_loss"] for model in kept.values()] == [None, losses[2], losses[4]]
    assert [step for step, _ in final["losses"]] == [2, 4, 5]
    weights = [model.network.output.logits.weight for model in kept.values()]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])
    (tmp_path / "run.resume").unlink()
    assert main(command(data, tmp_path / "other", "--steps", "1", "--keep-every", "0")) == 2
    assert "keep_every (0) must be at least 1" in capsys.readouterr().err
    shutil.rmtree(out)  # others' checkpoints of these names are not lost
    assert main(command(data, out, *options)) == 2
    assert "run-000000 is a checkpoint of another run" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "shown"), [([], {"epochs"}), (["--steps", "3"], set())], ids=["epochs", "steps"])
def test_the_card_lists_the_settings_that_say_something(options, shown, data, tmp_path):
    out = tmp_path / "run"
    assert main(command(data, out, *(options or ["--epochs", "1"]), "--accumulation", "2")) == 0
    rows = [line.split(" | ") for line in (out / "README.md").read_text(encoding="utf-8").splitlines()]
    training = {row[0].removeprefix("| "): row[1].removesuffix(" |") for row in rows if len(row) == 2}
    assert training["accumulation"] == "2"
    assert {"epochs"} & set(training) == shown
    assert not {"None", "False"} & set(training.values())
    assert not {"average last", "compile", "patience", "validate every"} & set(training)


def test_without_validation_the_card_says_so(tmp_path, capsys):
    data = write_pairs(tmp_path / "pairs.tsv", [pair for pair in sentences(60) if split_of(pair.source) == "train"])
    assert main(command(data, tmp_path / "run", "--epochs", "1")) == 0
    assert "as it was after the last step." in (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    printed = capsys.readouterr().out
    assert f"the validation split is empty: {tmp_path / 'run'} holds the weights of step " in printed
    assert "nan" not in printed


def test_only_the_run_of_a_checkpoint_replaces_it(data, tmp_path, capsys):
    """With its state it goes on, also after its end; without, nothing is lost unless --replace says so."""
    out, state = tmp_path / "run", tmp_path / "run.resume"
    assert main(command(data, out, "--epochs", "1")) == 0
    assert main(command(data, out, "--epochs", "1")) == 0
    steps = open_checkpoint(out).training["steps"]
    assert main(command(data, out, "--epochs", "2")) == 0
    assert open_checkpoint(out).training["steps"] > steps
    state.unlink()
    before = (out / "training.json").read_bytes()
    capsys.readouterr()
    assert main(command(data, out, "--epochs", "1")) == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f"error: {out} is a checkpoint of another run (run.resume is not beside it): give ")
    assert errors.count("\n") == 1
    assert "--replace" in errors
    assert (out / "training.json").read_bytes() == before
    assert main(command(data, out, "--epochs", "1", "--replace")) == 0
    assert open_checkpoint(out).training["steps"] == steps
    shutil.rmtree(out)
    capsys.readouterr()
    assert main(command(data, out, "--epochs", "1")) == 2
    assert capsys.readouterr().err == (
        f"error: {state} is of a finished run whose checkpoint is gone: delete it to start afresh\n"
    )


def test_one_embedding_for_all_gets_one_vocabulary(data, tmp_path):
    assert main(command(data, tmp_path / "run", "--epochs", "1", "--tied-embeddings", "all")) == 0
    model = open_checkpoint(tmp_path / "run")
    assert model.source_tokenizer.to_json() == model.target_tokenizer.to_json()
    assert model.training["settings"]["bpe_dropout"] == 0.1


@pytest.mark.parametrize("spec", ["task:copy:60", "datasets:some/books:en-fr"])
def test_the_record_names_the_data_and_no_merges_that_were_not_undone(spec, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "read_pairs_from", lambda given: sentences(60))
    options = [*TINY, "--epochs", "1", "--units", "characters", "--out", str(tmp_path / "run")]
    monkeypatch.setattr(train, "record_figures", lambda folder, given: {})
    assert main(["train", "--data", spec, *options]) == 0
    record = open_checkpoint(tmp_path / "run").training
    assert record["data"] == spec
    assert record["settings"]["bpe_dropout"] == 0.0


@pytest.mark.parametrize("steps", [3, 6])
def test_the_last_step_is_kept_wherever_in_an_epoch_it_is(steps, data, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(command(data, out, "--steps", str(steps), "--average", "0")) == 0
    record = open_checkpoint(out).training
    assert f"best validation loss {record['validations'][-1][1]:.4f} at step {steps}" in capsys.readouterr().out
    assert record["steps"] == record["validations"][-1][0] == steps
    assert main(command(data, out, "--steps", str(steps), "--average", "0")) == 0
    assert f"going on at step {steps} of {steps} " in capsys.readouterr().out
    assert main(command(data, out, "--steps", str(steps + 1), "--average", "0")) == 0
    assert f"({out}.resume); steps was {steps}, is {steps + 1}\n" in capsys.readouterr().out
