"""python -m model train as a process: killed and started again, it goes on as if it had not been."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from model.__main__ import main
from model.checkpoints.load import open_checkpoint
from model.cli.train import interrupts_remembered
from tests.model.examples import TINY, sentences, write_pairs

ROOT = Path(__file__).parents[3]
RUN = "--products torch --vocabulary 90 --dropout 0.2 --epochs 6 --batch-tokens 500 --warmup 20 --rate 5e-3".split()


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("data") / "pairs.tsv", sentences(400))


def start(*arguments: object) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "model", *map(str, arguments)],
        cwd=ROOT.parent,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def finish(process: subprocess.Popen) -> str:
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output
    return output


@pytest.fixture(scope="module")
def uninterrupted(data, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    output = finish(start("train", "--data", data, "--out", folder, *TINY, *RUN))
    assert "epoch 6: validation" in output
    return folder


def stopped(process: subprocess.Popen, epoch: int, number: int, wait: float) -> str:
    """The output of a training killed a moment after the end of an epoch."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith(f"epoch {epoch}:"):
            break
    time.sleep(wait)
    process.send_signal(number)
    output = "".join(lines) + process.communicate(timeout=300)[0]
    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130), output
    assert "Traceback" not in output
    return output


def assert_same_run(folder: Path, whole: Path) -> None:
    for one, other in (
        (folder / "model.safetensors", whole / "model.safetensors"),
        (folder.with_name("run.resume"), whole.with_name("run.resume")),
    ):
        ours, expected = load_file(one), load_file(other)
        assert ours.keys() == expected.keys()
        assert [name for name in ours if not torch.equal(ours[name], expected[name])] == []
    losses = [json.loads((each / "training.json").read_text())["validations"] for each in (folder, whole)]
    assert losses[0] == losses[1]
    files = [sorted(path.name for path in each.iterdir()) for each in (folder, whole)]
    assert files[0] == files[1]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(
    "kills",
    [
        [(signal.SIGKILL, 3, 0.02)],
        pytest.param([(signal.SIGINT, 1, 0.02), (signal.SIGKILL, 3, 0.02)], marks=pytest.mark.slow),
        pytest.param([(signal.SIGINT, 1, 0.02), (signal.SIGTERM, 3, 0.0)], marks=pytest.mark.slow),
        pytest.param([(signal.SIGKILL, 2, 0.0), (signal.SIGKILL, 4, 0.02)], marks=pytest.mark.slow),
    ],
    ids=["once", "both", "polite", "kill"],
)
def test_a_training_that_was_killed_goes_on_as_if_it_had_not_been(kills, data, uninterrupted, tmp_path):
    command = ["train", "--data", data, "--out", tmp_path / "run", *TINY, *RUN]
    for number, epoch, wait in kills:
        output = stopped(start(*command), epoch, number, wait)
        if number != signal.SIGKILL:
            assert "stopped at step " in output
        open_checkpoint(tmp_path / "run")
    output = finish(start(*command))
    assert "going on at step " in output
    assert "epoch 1:" not in output
    assert "epoch 6:" in output
    assert_same_run(tmp_path / "run", uninterrupted)


def test_a_first_interrupt_waits_and_a_second_does_not():
    before = signal.getsignal(signal.SIGINT)
    with interrupts_remembered() as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGTERM)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_what_a_launcher_passes_on_again_stops_no_step():
    with interrupts_remembered(insist=False) as interrupted:
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        assert interrupted()


def test_the_trained_checkpoint_says_how_it_was_made(uninterrupted):
    model = open_checkpoint(uninterrupted)
    assert model.config.d_model == 16
    assert model.training["data"] == "pairs.tsv"
    assert model.training["settings"]["batch_tokens"] == 500
    assert model.training["validation_loss"] == min(loss for _, loss in model.training["validations"])
    assert model.training["validation_loss"] < 0.8 * model.training["validations"][0][1]


def test_an_error_is_one_sentence_without_a_traceback():
    process = start("generate", "missing", "Hi.")
    output, _ = process.communicate(timeout=300)
    assert output == "error: missing is not a checkpoint: no folder or file of that name\n"
    assert process.returncode == 2


@pytest.mark.parametrize(
    ("argument", "message"), [("--seed=2", "seed was 1, is 2"), ("--dropout=0.1", "dropout was 0.2, is 0.1")]
)
def test_going_on_with_other_options_is_refused(argument, message, data, uninterrupted, capsys):
    before = (uninterrupted / "model.safetensors").read_bytes()
    command = ["train", "--data", str(data), "--out", str(uninterrupted), *TINY, *RUN, argument]
    assert main(command) == 2
    assert f"was written with other settings ({message}): use the same ones" in capsys.readouterr().err
    assert (uninterrupted / "model.safetensors").read_bytes() == before
