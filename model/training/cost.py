"""Cost of a training before it begins: memory by arithmetic on its largest batch, time by a measured step."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from model.data.datasets import Batch, Dataset
from model.inference.copies import trainable
from model.inference.text_model import TextModel
from model.message import InputError
from model.network.config import TransformerConfig
from model.network.costs import FLOAT, Costs, costs
from model.network.transformer import build
from model.runtime.device import slowdown
from model.runtime.locks import Lock
from model.runtime.memory import left_memory
from model.runtime.random import fork_rng, seeded
from model.training.gradients import Gradients
from model.training.losses import summed_loss
from model.training.optimizer import FlatAdamW
from model.training.settings import TrainingSettings
from model.training.trainer import Trainer


def forecast(config: TransformerConfig, corpus: Dataset, settings: TrainingSettings) -> Costs:
    """Costs of the batch of the first epoch with the most activations, among an even sample of 64 or more.

    Raises:
        ValueError: there is nothing to train on.
    """
    order = corpus.order(settings.batch_tokens, random.Random(settings.seed))
    if not order:
        raise ValueError("there is nothing to train on: all rows are kept for validation and test; give more of them")
    sample = order[:: max(1, len(order) // 64)]
    batches = (costs_of_batch(config, corpus.batch(indices, None)) for indices in sample)
    return max(batches, key=lambda costs: costs.memory["activations"])


def timed_step(start: TextModel, corpora: tuple[Dataset, Dataset], settings: TrainingSettings) -> float:
    """Seconds of a training step: of the second one on a copy of the model, as the first one allocates memory.

    Raises:
        ValueError: the settings do not go together with the data.
        FloatingPointError: the loss is not finite.
    """
    trainer = Trainer(trainable(start.network), *corpora, settings)
    return [report.seconds for report in islice(trainer.steps(), 2)][-1]


def require_room(
    config: TransformerConfig,
    corpus: Dataset,
    settings: TrainingSettings,
    device: torch.device,
    running: bool = False,
    freed: int = 0,
) -> int:
    """Bytes that a training needs, checked to fit into memory.

    running: it has begun, and needs memory for its batches only. freed: bytes that are released before it begins.

    Raises:
        ValueError: it does not fit, or there is nothing to train on.
    """
    costs = forecast(config, corpus, settings)
    needed = costs.memory["activations"] if running else memory_needed(config, costs)
    require_memory(needed, device, freed)
    return needed


def memory_needed(config: TransformerConfig, costs: Costs) -> int:
    """Bytes of a live training whose batches have these costs."""
    # Twice: the first model is kept, and the page looks into copies. `PendingSteps` has three more sets of weights.
    return 2 * (costs.training_memory + table_memory(config)) + 3 * costs.memory["weights"]


def table_memory(config: TransformerConfig) -> int:
    """Bytes of sinusoidal position tables, which are no trained weights."""
    stacks = bool(config.n_encoder_layers) + bool(config.n_decoder_layers)
    return FLOAT * stacks * config.max_length * config.d_model if config.position == "sinusoidal" else 0


def require_memory(needed: int, device: torch.device, freed: int = 0) -> None:
    """Check that the CPU has `needed` bytes free, or will have with `freed` more; other devices are not checked.

    A process that takes more than there is would be killed by the system, with all its sessions.

    Raises:
        ValueError: there is less free memory.
    """
    free = left_memory() if device.type == "cpu" else None
    if free is not None and needed > (free := free + freed):
        raise InputError(
            "the training needs about {needed:.1f} GB, and {free:.1f} GB are free: lower d_model, d_ff, "
            "max_length, the layers or batch_tokens",
            needed=needed / 1000000000.0,
            free=free / 1000000000.0,
        )


def costs_of_batch(config: TransformerConfig, batch: Batch) -> Costs:
    """Costs of a training step on this batch, its padding included."""
    ids = [tensor for tensor in batch.inputs if tensor is not None and tensor.dtype == torch.long]
    source = ids[0].shape[1] if config.n_encoder_layers else 0
    target = ids[-1].shape[1] if config.n_decoder_layers else 0
    return costs(config, len(ids[0]), source, target, batch.predicted)


# How long a training step will take on this machine, estimated before one is done.

# Operations that take about as long, on today's CPUs, as moving a byte of activations and as optimizing a weight.
PER_BYTE, PER_WEIGHT = 80, 200
VOCABULARY, ROUNDS = 64, 3
SMALL, LARGE = (4, 8), (32, 32)  # texts and tokens of the two batches that are timed
NETWORK: dict[str, Any] = {"d_model": 128, "n_heads": 4, "d_ff": 512, "max_length": 64, "dropout": 0.1}
LAYERS = 2
_one_at_a_time = Lock("speed")
_measured: dict[torch.device, tuple[Speed, bool]] = {}  # speed, and whether nothing trained meanwhile


@dataclass(frozen=True)
class Speed:
    """Speed of a device in training.

    layer_overhead: seconds of a layer, however small. work_rate: operations a second, those included for which the
    bytes and weights of `PER_BYTE` and `PER_WEIGHT` count.
    """

    layer_overhead: float
    work_rate: float

    def seconds(self, config: TransformerConfig, costs: Costs) -> float:
        """Seconds of a forward pass, a backward pass and the optimizer's step."""
        return self.layer_overhead * _layers(config) + _work(costs) / self.work_rate


def estimated_step(
    config: TransformerConfig, costs: Costs, settings: TrainingSettings, device: torch.device, alone: bool = True
) -> float:
    """Seconds of a training step whose batches have these costs: from its operations and two short measurements.

    Right to a factor of two while other work does not slow down one of the two. alone: see `speed_of`.
    """
    slower = slowdown(settings.precision, device)
    return settings.accumulation * slower * speed_of(device, alone).seconds(config, costs)


def speed_of(device: torch.device, alone: bool = True) -> Speed:
    """Speed of a device, measured once in a process with two batches of a small model, in some tenths of a second.

    alone: nothing trains meanwhile. A speed measured beside a training is measured again once nothing trains.
    """
    with _one_at_a_time:
        if device not in _measured or (alone and not _measured[device][1]):
            with fork_rng("speed", device):  # a training beside it draws the same random numbers as without it
                _measured[device] = _measure(device), alone
        return _measured[device][0]


def _measure(device: torch.device) -> Speed:
    config = TransformerConfig.one_stack("decoder-only", VOCABULARY, LAYERS, **NETWORK)
    with seeded(0, device):
        network = build(config).to(device).train()
    gradients = Gradients(network)
    optimizer = FlatAdamW(gradients, 1e-3)

    def timed(batch: Batch) -> float:
        began = time.perf_counter()
        gradients.clear()
        (summed_loss(network, batch, 0.0) / batch.predicted).backward()
        optimizer.step()
        float(next(network.parameters()).detach().sum())  # until the device is done
        return time.perf_counter() - began

    batches = [_batch(*size, device) for size in (SMALL, LARGE)]
    small, large = (min([timed(batch) for _ in range(ROUNDS + 1)][1:]) for batch in batches)
    works = [_work(costs_of_batch(config, batch)) for batch in batches]
    work = (works[1] - works[0]) / max(large - small, 1e-6)
    return Speed(max(0.0, small - works[0] / work) / LAYERS, work)


def _batch(texts: int, tokens: int, device: torch.device) -> Batch:
    ids = torch.randint(4, VOCABULARY, (texts, tokens + 1), generator=torch.Generator().manual_seed(0)).to(device)
    return Batch((ids[:, :-1], torch.ones_like(ids[:, :-1], dtype=torch.bool)), ids[:, 1:], whole=True)


def _work(costs: Costs) -> int:
    return costs.training_flops + PER_BYTE * costs.memory["activations"] + PER_WEIGHT * costs.parameter_count


def _layers(config: TransformerConfig) -> float:
    """Number of layers; a decoder layer with cross-attention counts 1.5, as it has three blocks instead of two."""
    return config.n_encoder_layers + config.n_decoder_layers * (1.5 if config.kind == "encoder-decoder" else 1.0)
