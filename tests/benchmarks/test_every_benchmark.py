"""Every benchmark runs as a command with small numbers: it finds its page, measures, and prints its lines."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.benchmarks.results import RESULTS
from tests.browser.server import CHROMIUM, ROOT
from tests.deploy.replicas import NGINX

HERE = Path(__file__).parent
# What it is called with, and what of its lines must be there: each number's place, in their order.
RUNS: dict[str, tuple[str, list[str]]] = {
    "forward": ("--runs 1 --lengths 16", [r"Vitrine, tiny \| 16 \| [\d.]+ ms", r"Vitrine, small \| 16 \| [\d.]+ ms"]),
    "training": ("--rounds 1", [r"nanoGPT on the CPU.*float32", r"encoder-decoder.*bfloat16.*[\d.]+ \| ≥"]),
    "gpu_training": ("--rounds 1", [r"this benchmark needs a GPU with CUDA, and torch finds none"]),
    "multi30k": (
        "DATA OUT --cycles 2 --steps 2",
        [r"test_2016_flickr, beam 5, .* [\d.]+ BLEU \(nrefs"],
    ),
    "decoding": ("--rounds 1 --tokens 4", [r"\| 1 \| greedy \| \d+ \| \d+ \| [\d.]+", r"\| 16 \| greedy \|"]),
    "keystroke": ("1", [r"1 keystrokes each", r"echo +\d+ ms", r"figure +\d+ ms", r"all +\d+ ms", r"server +\d+ ms"]),
    "keystroke map": ("1 --page map", [r"1 keystrokes each", r"echo +\d+ ms", r"map +\d+ ms", r"browser +-?\d+ ms"]),
    "head_grid": ("1 --long 384", [r"128 tokens: grid", r"512 tokens: map", r"384 tokens, 2 × 2 heads: server \d+ MB"]),
    "long_text": ("1 --tokens 256", [r"server alone", r"1 pastes of 256 tokens.*: the chosen head after", r"one more"]),
    "watching": ("1", [r"bare trainer +[\d.]+ steps a second", r"watched +[\d.]+ steps", r"by processor time +[\d.]+"]),
    "first_step": ("reverse 1", [r"the first step seen +[\d.]+ s after the click", r"of 10 steps \d+ were seen"]),
    "film": ("1 --steps 100", [r"100 steps after \d+ s", r"film of \d+ frames", r"at 30/s: +[\d.]+ frames"]),
    "typing_while_training": ("reverse 1", [r"paused +\d+ ms", r"running +\d+ ms"]),
    "full_class": ("--classes 1 --seconds 2", [r" 1 visitors +half within +[\d.]+ s.* 0 faults"]),
    "class_session": (
        "--seconds 2 --followers 2",
        [r"a teacher alone +[\d.]+%.* 0 faults", r"2 who follow .* 0 faults", r"2 who follow cost"],
    ),
    "two_replicas": (
        "--visitors 2 --seconds 2",
        [r"1 replica: .* 0 faults", r"2 replicas: .* 0 faults", r"two draw"],
    ),
    "soak": (
        "--minutes 1 --visitors 1 --stay 20 --first 1 --rest 1",
        [r"\d+ sessions", r" 0 faults", r"MB resident:"],
    ),
    "tensors": (
        "--rounds 1 --spectra 1 --layers 1",
        [r"\| listing .pt \|", r"\| singular values \| svdvals \| \d"],
    ),
}
NEEDS_CHROMIUM = {"keystroke", "head_grid", "long_text", "watching", "first_step", "film", "typing_while_training"}


def test_every_benchmark_is_run_here_and_named_in_the_documentation() -> None:
    commands = {path.stem for path in HERE.glob("*.py") if '__name__ == "__main__"' in path.read_text("utf-8")}
    commands = {name for name in commands if not name.startswith("test_")}
    listed = re.findall(r"-m tests\.benchmarks\.(\w+)", (ROOT / "docs" / "testing.md").read_text("utf-8"))
    assert {name.split()[0] for name in RUNS} == commands - {"long_page"} == {*listed}


def made_up(folder: Path) -> Path:
    """Files like those of Multi30k, of a few sentences."""
    english = [f"a man sees {number} dogs in the {place} ." for number in range(20) for place in ("house", "garden")]
    german = [line.replace("dogs in the", "hunde im").replace("a man sees", "ein mann sieht") for line in english]
    for part in ("train", "val", "test_2016_flickr"):
        for language, lines in (("en", english), ("de", german)):
            (folder / f"{part}.{language}.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_benchmark_prints_its_lines(name: str, tmp_path: Path) -> None:
    module, (options, lines) = name.split()[0], RUNS[name]
    if module in NEEDS_CHROMIUM and not CHROMIUM:
        pytest.skip("needs Chromium")
    if module == "gpu_training" and torch.cuda.is_available():
        pytest.skip("there is a GPU, on which it takes minutes")
    expected = 0 if module != "gpu_training" else 1
    if module == "two_replicas" and NGINX is None:
        expected, lines = 1, [r"this benchmark needs nginx, and there is none"]
    if module == "multi30k":
        options = options.replace("DATA", str(made_up(tmp_path))).replace("OUT", str(tmp_path / "out"))
    before = RESULTS.read_bytes()
    command = [sys.executable, "-m", f"tests.benchmarks.{module}", *options.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == expected, said[-3000:]
    assert "Traceback" not in said
    for line in lines:
        assert re.search(line, said), (line, said[-3000:])
    assert RESULTS.read_bytes() == before
