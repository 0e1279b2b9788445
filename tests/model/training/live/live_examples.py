"""Tiny models and data to train live on."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from model.data.pairs import Pair
from model.data.sources import Answers, Sentences, TrainingData, Translations
from model.data.tasks import task_pairs
from model.inference.models import MODEL_CLASSES
from model.inference.text_model import TextModel
from model.network.config import TWO_STACKS, Kind, RecurrentConfig, TransformerConfig
from model.network.transformer import build
from model.training.live.frame_recorder import Probe, probe_of
from model.training.live.live_training import LiveTraining
from model.training.live.recorded_trainer import RecordedTrainer
from model.training.settings import TrainingSettings

PAIRS: list[Pair] = task_pairs("reverse", 120, [2, 3, 4], seed=1)
KEY_EVERY = 4
SMALL = {"d_model": 8, "n_heads": 2, "d_ff": 8, "max_length": 16, "dropout": 0.2, "norm_placement": "pre"}
SETTINGS = TrainingSettings(
    steps=40, batch_tokens=60, rate=5e-3, warmup=3, label_smoothing=0.0, average=0.0, validate_every=5, bpe_dropout=0.0
)


def material(kind: Kind = "encoder-decoder") -> TrainingData:
    if kind == "encoder-only":
        return Sentences([f"{pair.source}{pair.target}" for pair in PAIRS], "characters", 0)
    made = Translations if kind in TWO_STACKS else Answers
    return made(PAIRS, "reverse", "characters", 0)


def start(learned: TrainingData, kind: Kind = "encoder-decoder", **options: Any) -> TextModel:
    """A new model with the tokenizers of what it will learn from."""
    sizes = [len(tokenizer) for tokenizer in learned.tokenizers]
    torch.manual_seed(3)
    if kind == "encoder-decoder":
        layers = {"n_encoder_layers": 1, "n_decoder_layers": 2}
        config = TransformerConfig(source_vocabulary=sizes[0], target_vocabulary=sizes[1], **(SMALL | layers | options))
    elif kind == "recurrent":
        config = RecurrentConfig(
            source_vocabulary=sizes[0], target_vocabulary=sizes[1], d_model=8, dropout=0.2, max_length=16, **options
        )
    else:
        config = TransformerConfig.one_stack(kind, sizes[0], 2, **(SMALL | options))
    return MODEL_CLASSES[kind]("new", build(config).eval(), learned.tokenizers, {})


def watched(
    settings: TrainingSettings = SETTINGS, kind: Kind = "encoder-decoder", steps: int = 0, **options: Any
) -> RecordedTrainer:
    """After so many steps."""
    learned = material(kind)
    model = start(learned, kind, **options)
    given = RecordedTrainer(model, learned, settings, probe(model), key_every=KEY_EVERY)
    for _ in range(steps):
        given.step()
    return given


def live(
    settings: TrainingSettings = SETTINGS, kind: Kind = "encoder-decoder", steps: int = 0, **options: Any
) -> LiveTraining:
    """On its way, or settled after so many steps."""
    learned = material(kind)
    model = start(learned, kind)
    given = LiveTraining(model, learned, settings, probe(model), key_every=KEY_EVERY, **options)
    if steps:
        advanced(given, steps)
    return given


def probe(model: TextModel, text: str = "abcd") -> Probe:
    return probe_of(model, text, task="reverse")


LONG = 240.0  # seconds; nothing here takes so long


class Gate:
    """Holds a training in front of its next batch, until told to let it go."""

    def __init__(self, training: LiveTraining) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        corpus = training.recorded.trainer.train
        batch_of = corpus.batch

        def batch(indices, chance):
            self.reached.set()
            assert self.open.wait(LONG)
            return batch_of(indices, chance)

        corpus.batch = batch


@contextmanager
def before_a_batch(training: LiveTraining, command: Callable[[], None]) -> Iterator[None]:
    """The training that this command has set going waits in front of its next batch; after the block it settles."""
    gate = Gate(training)
    command()
    try:
        assert gate.reached.wait(LONG)
        yield
    finally:
        gate.open.set()
    settled(training)


def settled(training: LiveTraining) -> LiveTraining:
    assert training.settled(LONG)
    return training


def advanced(training: LiveTraining, count: int = 1) -> LiveTraining:
    training.advance(count)
    return settled(training)


def spoil_gradients(training: LiveTraining) -> RemovableHandle:
    """From now on they are not finite, until what this gives is removed."""
    weights = training.recorded.trainer.network.output.logits.weight
    return weights.register_hook(lambda gradient: gradient * math.nan)


def status(training: LiveTraining) -> str:
    return settled(training).snapshot.status


def losses(training: LiveTraining) -> list[float]:
    return training.current.curves.get("loss")[1].tolist()


def expected_losses(count: int, **options) -> list[float]:
    given = watched(replace(SETTINGS, **options))
    return [given.step().loss for _ in range(count)]


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "training"]
