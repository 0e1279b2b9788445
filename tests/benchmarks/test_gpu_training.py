"""What the benchmark on a GPU does without one: it counts, finds the batch, and measures a tiny model on the CPU."""

from __future__ import annotations

import dataclasses
import sys

import pytest
import torch

from tests.benchmarks import gpu_training
from tests.benchmarks.gpu_training import COLUMNS, GPT2_SMALL, Speed, largest_batch, measure, rows, step_flops

TINY = dataclasses.replace(
    GPT2_SMALL,
    d_model=16,
    n_heads=2,
    n_decoder_layers=1,
    d_ff=32,
    max_length=8,
    source_vocabulary=0,
    target_vocabulary=11,
)


def test_the_operations_of_a_step_are_those_of_gpt2() -> None:
    layers, width, length, batch = 12, 768, 1024, 4
    weights = layers * 12 * width**2 + 50257 * width  # of the matrices; each is used once a token
    scores = layers * 2 * length * width  # once a token: queries with keys, weights with values
    assert step_flops(GPT2_SMALL, batch) == 3 * 2 * batch * length * (weights + scores)


@pytest.mark.parametrize(("room", "expected"), [(1, 1), (7, 4), (8, 8), (1000, 64)])
def test_the_batch_is_doubled_until_memory_is_short(room: int, expected: int) -> None:
    tried = []

    def step(batch: int) -> None:
        tried.append(batch)
        if batch > room:
            raise torch.OutOfMemoryError("CUDA out of memory")

    assert largest_batch(step, largest=64) == expected
    assert tried == [2**power for power in range(len(tried))]


def test_too_little_memory_for_one_text_is_said() -> None:
    def step(batch: int) -> None:
        raise torch.OutOfMemoryError

    with pytest.raises(ValueError, match="no memory for a step on one text"):
        largest_batch(step)


def test_the_share_is_what_a_step_reaches_of_the_rate() -> None:
    speed = Speed(GPT2_SMALL, 2, step=0.5, rate=4 * step_flops(GPT2_SMALL, 2))
    assert (speed.tokens, speed.share) == (4096.0, 0.5)
    assert rows(speed)[2][0:3] + rows(speed)[2][-1:] == ["2", "4,096", "500.0", "50%"]


def test_a_tiny_model_is_measured_on_the_cpu() -> None:
    found = measure(TINY, 2, torch.device("cpu"), compile=False, largest=2)
    assert found.batch == 2
    assert found.tokens > 0 < found.share
    assert {len(row) for row in rows(found)} == {len(COLUMNS)}


def test_without_a_gpu_one_sentence_says_so(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu_training"])
    with pytest.raises(SystemExit, match=r"^this benchmark needs a GPU with CUDA, and torch finds none$"):
        gpu_training.main()
