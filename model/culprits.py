"""Where in a training step that failed a number first was not finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from model.capture.trace import record
from model.data.datasets import Batch
from model.gradients import first_not_finite
from model.network.attention import MAPS
from model.runtime.random import drawing_from

if TYPE_CHECKING:
    from model.training import Trainer


def culprit(trainer: Trainer, batches: Sequence[Batch], seed: str) -> str:
    """The first tensor that is not finite, as the end of a sentence; nothing if all are.

    A weight, which was so before the step; else what the forward pass on `batches`, made once more with the same
    `seed`, comes to first; else a gradient.
    """
    weights = dict(trainer.model.named_parameters())
    gradients = {name: weight.grad for name, weight in weights.items() if weight.grad is not None}
    name = first_not_finite(weights) or _in_forward_pass(trainer, batches, seed) or first_not_finite(gradients)
    return f", not finite first in {name}" if name else ""


def _in_forward_pass(trainer: Trainer, batches: Sequence[Batch], seed: str) -> str:
    """The first quantity of it in order of computation. Maps are left out: what is made of them tells as much."""
    model, device = trainer.model, trainer.device
    with drawing_from(seed, device, compiled=trainer.settings.compile), torch.inference_mode(), trainer.autocast():
        for batch in batches:
            mine = trainer.processes.share(batch).to(device)
            with record(model) as trace:
                model(*mine.inputs)
            examples = [trace.example(row) for row in range(len(mine.labels))]
            for name in (each for each in trace.names() if each.rpartition(".")[2] not in (*MAPS, "visible")):
                if not all(bool(each[name].isfinite().all()) for each in examples):
                    return name
    return ""
