"""python -m model train --dry-run: what it prints is what the training then does, and it leaves nothing behind."""

import re

import pytest
from torch.utils.flop_counter import FlopCounterMode

from model.__main__ import main
from model.cli import train
from model.network.kernels import plain_kernels
from model.training.distributed import Processes
from model.training.trainer import Trainer
from tests.model.examples import TINY

RUN = ["train", "--data", "task:copy:150", *TINY, "--epochs", "2", "--accumulation", "2", "--batch-tokens", "400"]
KINDS = {
    "encoder-decoder": [],
    "decoder-only": ["--kind", "decoder-only", "--n-encoder-layers", "0"],
    "encoder-only": ["--kind", "encoder-only", "--n-decoder-layers", "0"],
}
PREFIXES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}


def number(text: str) -> float:
    """12.3 M as 12,300,000."""
    digits, _, unit = text.replace(",", "").partition(" ")
    return float(digits) * PREFIXES[unit.removesuffix("FLOP").removesuffix("B")]


def trained(arguments: list[str], monkeypatch) -> tuple[Trainer, int, int]:
    """The trainer of the real command after its last step, the tokens it computed, and operations as torch counts."""
    found = []

    def run(trainer: Trainer, *others: object) -> None:
        with plain_kernels(), FlopCounterMode(display=False) as counter:  # it does not know every fused kernel
            tokens = sum(report.tokens for report in trainer.steps())
        found.append((trainer, tokens, counter.get_total_flops()))
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "follow", run)
    monkeypatch.setattr(Trainer, "validate", lambda trainer: 1.0)
    assert main(arguments) == 130
    return found[0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_is_that_of_the_training(kind, tmp_path, capsys, monkeypatch):
    arguments = [*RUN, *KINDS[kind], "--out", str(tmp_path / "c")]
    assert main([*arguments, "--dry-run"]) == 0
    assert list(tmp_path.iterdir()) == []
    printed = capsys.readouterr().out
    rows = {cells[0]: cells[1:] for cells in (re.split(r" {2,}", line) for line in printed.splitlines())}
    trainer, tokens, operations = trained(arguments, monkeypatch)
    said = capsys.readouterr().out.splitlines()[-1]
    parameters, examples, steps = (number(each) for each in re.findall(r"\d[\d,]*", said))
    assert (parameters, steps) == (trainer.network.parameter_count(), trainer.total_steps)

    parts = {part: rows[part] for part in ("embeddings", "attention", "feed-forward", "norms", "scores")}
    assert sum(number(row[0]) for row in parts.values()) == parameters
    assert rows["output"][0] == "tied"
    counted = sum(number(row[1]) for row in (*parts.values(), rows["output"]))
    assert counted == pytest.approx(operations / steps, rel=0.05)  # batches of one epoch stand for all
    assert f"{examples:,.0f} examples, " in printed
    about = re.search(r"([\d,]+) steps of about ([\d,]+) tokens", printed)
    assert number(about[1]) == steps
    assert number(about[2]) == pytest.approx(tokens / steps, rel=0.05)
    assert number(re.search(r"(.*FLOP) in all", printed)[1]) == pytest.approx(operations, rel=0.05)

    for name, times in (("weights", 1), ("gradients", 1), ("AdamW's moments", 2), ("averages of the weights", 1)):
        assert number(rows[name][0]) == pytest.approx(4 * times * parameters, rel=0.01)
    assert ("keys and values while 64 tokens are written" in rows) == (kind != "encoder-only")


def test_sizes_beyond_any_machine_are_answered(tmp_path, capsys):
    size = "--d-model 65536 --n-heads 512 --d-ff 262144 --n-decoder-layers 20 --average-last 3".split()
    assert main([*RUN, *KINDS["decoder-only"], *size, "--out", str(tmp_path / "c"), "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"in all +1,030,8\d\d,\d{3},\d{3} ", printed)  # 12 × 65,536² × 20 and some more
    assert re.search(r"averages of the weights +12\.4 TB", printed)
    assert re.search(r"in all +29\.0 TB|in all +28\.9 TB", printed)


@pytest.mark.parametrize("rank", [0, 1])
def test_one_of_several_processes_prints_the_table(rank, tmp_path, capsys, monkeypatch):
    several = Processes()
    several.count, several.rank = 2, rank
    monkeypatch.setattr(train, "launched", lambda: several)
    assert main([*RUN, "--out", str(tmp_path / "c"), "--dry-run"]) == 0
    assert capsys.readouterr().out.count("dry run: nothing was trained") == (rank == 0)
