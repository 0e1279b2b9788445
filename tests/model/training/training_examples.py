"""What tests of the trainer start from and compare."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch.testing import assert_close

from model.training.trainer import Trainer
from tests.model.examples import sentences, trainer

PAIRS = sentences(60)


def make(**options) -> Trainer:
    chosen = {"epochs": 4, "batch_tokens": 100, "warmup": 5, "rate": 5e-3, "bpe_dropout": 0.0} | options
    return trainer(PAIRS[10:], PAIRS[:10], {}, **chosen)


def assert_equal(one: Any, other: Any) -> None:
    """Tensors and numbers, in mappings and sequences too: the same to the last bit."""
    assert_close(one, other, rtol=0, atol=0)


@contextmanager
def unchanged(*holders: Any) -> Iterator[None]:
    """What the `state_dict` of each says is the same after the block."""
    before = [copy.deepcopy(holder.state_dict()) for holder in holders]
    yield
    for holder, state in zip(holders, before, strict=True):
        assert_equal(holder.state_dict(), state)


def batches_taken(trainer: Trainer) -> list[list[int]]:
    """The examples of each batch that is taken from now on."""
    batches: list[list[int]] = []
    batch_of = trainer.train.batch
    trainer.train.batch = lambda indices, chance: batches.append(list(indices)) or batch_of(indices, chance)
    return batches


def read_curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Steps and values by name, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder)).Reload()
    return {tag: [(each.step, each.value) for each in found.Scalars(tag)] for tag in found.Tags()["scalars"]}
