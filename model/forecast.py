"""What a training will cost, before it begins: memory by arithmetic on its largest batch, time by a step."""

from __future__ import annotations

import random
from itertools import islice

import torch

from model.data.datasets import Batch, Corpus
from model.inference.copies import trainable
from model.inference.model import Inspectable
from model.network.config import TransformerConfig
from model.network.costs import FLOAT, Costs, costs
from model.runtime.memory import free_memory
from model.training import Trainer
from model.training_settings import TrainingSettings


def forecast(config: TransformerConfig, corpus: Corpus, settings: TrainingSettings) -> Costs:
    """Costs of the largest batch of the first epoch.

    Raises:
        ValueError: there is nothing to train on.
    """
    order = corpus.order(settings.batch_tokens, random.Random(settings.seed))
    if not order:
        raise ValueError("there is nothing to train on: all rows are kept for validation and test; give more of them")
    found = [costs_of_batch(config, corpus.batch(indices, None)) for indices in order[:: max(1, len(order) // 64)]]
    return max(found, key=lambda each: each.memory["activations"])


def timed_step(start: Inspectable, corpora: tuple[Corpus, Corpus], settings: TrainingSettings) -> float:
    """Seconds of a training step, the second one of a copy of the model: the first makes room.

    Raises:
        ValueError: the settings do not go together with the data.
        FloatingPointError: the loss is not finite.
    """
    trainer = Trainer(trainable(start.model), *corpora, settings)
    return [report.seconds for report in islice(trainer.steps(), 2)][-1]


def require_room(
    config: TransformerConfig,
    corpus: Corpus,
    settings: TrainingSettings,
    device: torch.device,
    begun: bool = False,
    freed: int = 0,
) -> None:
    """A training fits into memory. begun: it has all but the room for its batches. freed: bytes that will be before.

    Raises:
        ValueError: it does not, or there is nothing to train on.
    """
    costs = forecast(config, corpus, settings)
    require_memory(costs.memory["activations"] if begun else memory_needed(config, costs), device, freed)


def memory_needed(config: TransformerConfig, costs: Costs) -> int:
    """Bytes of a training that is watched, with batches of these costs."""
    # Twice: the model that it begins with is kept, and the page is given copies to look into. And those of `Moments`.
    return 2 * (costs.training_memory + table_memory(config)) + 3 * costs.memory["weights"]


def table_memory(config: TransformerConfig) -> int:
    """Bytes of the tables of positions that are computed, not trained."""
    stacks = bool(config.n_encoder_layers) + bool(config.n_decoder_layers)
    return FLOAT * stacks * config.max_length * config.d_model if config.position == "sinusoidal" else 0


def require_memory(needed: int, device: torch.device, freed: int = 0) -> None:
    """A process that takes more than there is is killed by the system, with all its sessions.

    Raises:
        ValueError: the CPU has less free memory than is needed.
    """
    free = free_memory() if device.type == "cpu" else None
    if free is not None and needed > (free := free + freed):
        raise ValueError(
            f"the training needs about {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free: lower d_model, "
            "d_ff, max_length, the layers or batch_tokens"
        )


def costs_of_batch(config: TransformerConfig, batch: Batch) -> Costs:
    """Of the texts of this batch, its padding included."""
    ids = [each for each in batch.inputs if each is not None and each.dtype == torch.long]
    source = ids[0].shape[1] if config.n_encoder_layers else 0
    target = ids[-1].shape[1] if config.n_decoder_layers else 0
    return costs(config, len(ids[0]), source, target, batch.predicted)
