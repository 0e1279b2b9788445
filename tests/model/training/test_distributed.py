"""Training in several processes: the shares of each, errors in one sentence, and the same run as in one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

from model.__main__ import main
from model.checkpoints.load import open_checkpoint
from model.data.datasets import IGNORED, Batch, PairDataset
from model.training.distributed import LaunchedProcesses, Processes, launched
from model.training.losses import summed_loss
from tests.model.examples import TINY, network, sentences, tokenizers, write_pairs
from tests.model.training.training_examples import PAIRS, read_curves

ROOT = Path(__file__).parents[3]


class Rank(LaunchedProcesses):
    """One of several processes, without the others."""

    def __init__(self, rank: int, count: int) -> None:
        self.rank, self.count = rank, count


def batch_of(rows: int):
    both = tokenizers(PAIRS)
    model = network(source_vocabulary=len(both[0]), target_vocabulary=len(both[1]))
    return model, PairDataset(PAIRS[:rows], both, 32).batch(range(rows), None)


@pytest.mark.parametrize(("rows", "count"), [(7, 2), (7, 3), (2, 2), (1, 3)])
def test_the_shares_of_all_processes_are_the_batch(rows, count):
    """Also where there are fewer rows than processes: those without any still have a gradient, of zeros."""
    model, batch = batch_of(rows)
    whole = summed_loss(model, batch, 0.1)
    expected = torch.autograd.grad(whole, list(model.parameters()))
    shares = [Rank(rank, count).share(batch) for rank in range(count)]
    assert sum(share.predicted for share in shares) == batch.predicted
    losses = [summed_loss(model, share, 0.1) for share in shares]
    assert_close(sum(losses), whole)
    gradients = [torch.autograd.grad(loss, list(model.parameters())) for loss in losses]
    for place, gradient in enumerate(expected):
        assert_close(sum(each[place] for each in gradients), gradient, rtol=1e-4, atol=1e-5)
    assert not any(share.whole for share in shares)
    filled = Batch(batch.inputs, batch.labels.clamp(min=0), whole=True)
    assert [Rank(rank, count).share(filled).whole for rank in range(count)] == [rank < rows for rank in range(count)]
    for share, own in zip(shares, gradients, strict=True):
        if (share.labels == IGNORED).all():
            assert all(not gradient.any() for gradient in own)


@pytest.mark.parametrize("environment", [{}, {"ACCELERATE_USE_CPU": "True"}], ids=["ours", "accelerate's"])
def test_one_process_has_all_of_the_work(environment, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    alone = launched()
    assert type(alone) is Processes
    assert (alone.main, alone.count, alone.device) == (True, 1, torch.device("cpu"))
    _, batch = batch_of(3)
    assert alone.share(batch) is batch
    assert alone.sums(2.0, 3.5) == [2.0, 3.5]
    assert [alone.any(True), alone.any(False)] == [True, False]


@pytest.mark.parametrize("rank", [0, 1])
def test_without_accelerate_one_process_says_what_to_install(rank, tmp_path, monkeypatch, capsys):
    for name, value in {"WORLD_SIZE": 2, "RANK": rank, "LOCAL_RANK": rank}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setitem(sys.modules, "accelerate", None)
    data = write_pairs(tmp_path / "pairs.tsv", PAIRS)
    assert main(["train", "--data", str(data), "--out", str(tmp_path / "run"), *TINY, "--vocabulary", "90"]) == 2
    sentence = "error: training in several processes needs accelerate: pip install accelerate"
    errors = capsys.readouterr().err.splitlines()
    assert [error.startswith(sentence) for error in errors] == ([True] if rank == 0 else [])


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        # What `accelerate launch --cpu --num_processes 2` gives its one process.
        (
            {"ACCELERATE_USE_CPU": "True", "MASTER_ADDR": "127.0.0.1"},
            r"has started one process only.*: use accelerate launch --multi_gpu",
        ),
        (
            {"WORLD_SIZE": "2", "ACCELERATE_USE_FSDP": "true"},
            r"^accelerate was launched for FSDP: .*leave out --use_fsdp",
        ),
        ({"WORLD_SIZE": "x"}, r"^WORLD_SIZE \('x'\) in the environment must be a number of processes: unset"),
    ],
    ids=["one process where several were asked for", "spread weights", "a number that is none"],
)
def test_a_launch_that_cannot_be_followed_is_refused(environment, sentence, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=sentence):
        launched()


# A schedule that does not ask how many epochs there will be. Without biases: those of keys have gradients that are zero
# but for rounding, which AdamW blows up to full steps.
RUN = "--vocabulary 90 --dropout 0 --batch-tokens 200 --accumulation 2 --warmup 5 --rate 5e-3 --clip 0.5".split()
RUN += "--schedule constant --average 0.9 --no-bias".split()


@pytest.mark.slow
def test_two_processes_of_accelerate_launch_train_as_one_does(tmp_path, monkeypatch, capfd):
    from accelerate.commands.launch import launch_command, launch_command_parser

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    shared = ["train", "--data", "task:sort:60", "--epochs", "2", "--products", "torch", *TINY, *RUN[2:]]
    places = "--num_machines 1 --mixed_precision no --dynamo_backend no --main_process_port 0".split()
    command = ["--multi_gpu", "--num_processes", "2", *places, "-m", "model", *shared, "--out", str(tmp_path / "two")]
    launch_command(launch_command_parser().parse_args(command))
    said = capfd.readouterr().out
    assert said.count("steps, 2 processes") == said.count("epoch 2") == 1
    assert main([*shared, "--out", str(tmp_path / "one")]) == 0
    one, two = (open_checkpoint(tmp_path / name).training["validations"] for name in ("one", "two"))
    assert two == [[step, pytest.approx(loss, abs=1e-5)] for step, loss in one]
    assert one[-1][1] < one[0][1]


@pytest.mark.slow
def test_two_processes_train_as_one_does_and_go_on(tmp_path):
    """One resumes what two have begun, and two what one has."""
    data = write_pairs(tmp_path / "pairs.tsv", sentences(150))

    def train(name: str, epochs: int, processes: int) -> str:
        launch = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
        command = [sys.executable, *(launch if processes > 1 else []), "-m", "model", "train"]
        command += ["--data", str(data), "--out", str(tmp_path / name), "--epochs", str(epochs), *TINY, *RUN]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*command, "--log-dir", str(tmp_path / f"{name}-curves")],
            cwd=tmp_path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    train("one", 4, 1)
    train("two", 2, 1)
    assert train("two", 4, 2).count("going on at step") == 1
    three = train("three", 2, 2) + train("three", 4, 2)
    assert three.count("steps, 2 processes") == three.count("parameters,") == 2
    assert three.count("epoch 1") == three.count("epoch 2") >= 1
    expected = load_file(tmp_path / "one.resume")
    losses = [loss for _, loss in open_checkpoint(tmp_path / "one").training["validations"]]
    assert losses[-1] < losses[0] - 0.1
    curve = read_curves(tmp_path / "one-curves")
    for name in ("two", "three"):
        found = load_file(tmp_path / f"{name}.resume")
        assert found.keys() == expected.keys()
        for key, tensor in expected.items():
            if key.startswith(("model.", "average.")):
                assert_close(found[key], tensor, rtol=0, atol=1e-5)
        other = read_curves(tmp_path / f"{name}-curves")
        for tag in ("loss/training", "loss/validation", "gradient_norm/all", "parameter_norm", "rate"):
            assert dict(other[tag]) == pytest.approx(dict(curve[tag]), abs=1e-5, rel=1e-5), tag
        told = [loss for _, loss in open_checkpoint(tmp_path / name).training["validations"]]
        assert told == pytest.approx(losses, abs=1e-5)
