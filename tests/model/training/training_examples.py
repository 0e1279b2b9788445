"""What tests of the trainer start from."""

from model.training.trainer import Trainer
from tests.model.examples import sentences, trainer

PAIRS = sentences(60)


def make(**options) -> Trainer:
    chosen = {"epochs": 4, "batch_tokens": 100, "warmup": 5, "rate": 5e-3, "undo_merges": 0.0} | options
    return trainer(PAIRS[10:], PAIRS[:10], {}, **chosen)
