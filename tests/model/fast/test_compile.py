"""torch.compile: the same losses, and its failures as one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from model.checkpoints.load import open_checkpoint
from model.fast import compile as compiling
from model.fast.compile import compiled
from tests.model.examples import TINY, sentences, write_pairs

ROOT = Path(__file__).parents[3]


def test_a_failure_of_the_compiler_is_one_sentence(monkeypatch):
    def failing(*_inputs):
        raise torch._dynamo.exc.TorchDynamoException("No working C++ compiler found in (None, 'g++')\nmore\n")

    monkeypatch.setattr(compiling.torch, "compile", lambda compute, **options: failing)
    quick = compiled(torch.sin)
    message = r"torch\.compile failed: No working C\+\+ compiler found in .*; train without it"
    with pytest.raises(ValueError, match=message):
        quick(torch.ones(1))


PAIRS = sentences(100)
TEXT = "".join(f"{pair.source}\n" for pair in PAIRS)
RUN = "--units characters --epochs 1 --batch-tokens 600 --max-length 32 --warmup 2".split()
LOGGED = {"TORCH_LOGS": "graph_breaks"}
ONE_STACK = "--data text.txt --kind decoder-only --n-encoder-layers 0".split()
TWO_STACKS = "--data pairs.tsv".split()


def train(folder: Path, *more: str, **environment: str) -> subprocess.CompletedProcess:
    """In a process of its own: what checks the shapes here cannot be compiled."""
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    write_pairs(folder / "pairs.tsv", PAIRS)
    command = [sys.executable, "-m", "model", "train", *TINY, *RUN, *more]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | environment
    return subprocess.run(
        command, cwd=folder, env=environment, text=True, capture_output=True, timeout=600, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("data", [ONE_STACK, TWO_STACKS], ids=["text", "pairs with padding"])
def test_compiled_training_has_the_same_losses(data, tmp_path):
    """Nothing in a network ends the compiled graph, and nothing is said about it."""
    cache = str(tmp_path / "cache")
    for name, options in {"plain": [], "compiled": ["--compile"]}.items():
        done = train(
            tmp_path, *data, "--dropout", "0", "--out", name, *options, TORCHINDUCTOR_CACHE_DIR=cache, **LOGGED
        )
        assert done.returncode == 0, done.stderr
        assert "Graph break" not in done.stderr
    assert any(path.suffix == ".so" for path in Path(cache).rglob("*"))
    plain, quick = (open_checkpoint(tmp_path / name).training["validations"] for name in ("plain", "compiled"))
    assert quick == [[step, pytest.approx(loss, abs=1e-5)] for step, loss in plain]


@pytest.mark.slow
def test_without_a_compiler_one_sentence_says_so(tmp_path):
    done = train(
        tmp_path, *ONE_STACK, "--out", "run", "--compile", TORCHINDUCTOR_CACHE_DIR=str(tmp_path), CXX="/nonexistent"
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    (sentence,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert sentence.startswith(
        "error: compile is on and torch.compile failed: InvalidCxxCompiler: No working C++ compiler"
    )
