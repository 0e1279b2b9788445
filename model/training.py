"""The trainer: a generator of step reports that knows no screen."""

from __future__ import annotations

import math
import random
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from model import training_state
from model.averaging import AveragedWeights
from model.data import Batch, Example, batch_order, batches, collate, undo_merges
from model.masks import real_tokens
from model.text import Tokenizer
from model.training_settings import Progress, StepReport, TrainingSettings, learning_rate
from model.transformer import Transformer


def token_loss(model: Transformer, batch: Batch, padding: tuple[int, int], label_smoothing: float) -> Float[Tensor, ""]:
    """Mean cross-entropy in nats over the real target tokens (section 5.4); padding is not computed."""
    source_real, target_real = (
        real_tokens(batch.source, padding[0]),
        real_tokens(batch.target[:, :-1], padding[1]),
    )
    memory = model.encode(batch.source, source_real)
    states = model.decode(batch.target[:, :-1], memory, source_real, target_real)
    labels: Int[Tensor, "batch target"] = batch.target[:, 1:]
    real = labels != padding[1]
    return F.cross_entropy(model.output(states[real]), labels[real], label_smoothing=label_smoothing)


class Trainer:
    """Trains `model` on `train`, in place, and keeps a running average of its weights.

    The same seed on the same machine gives the same losses, interrupted and resumed or not.
    """

    def __init__(
        self,
        model: Transformer,
        tokenizers: tuple[Tokenizer, Tokenizer],
        train: Sequence[Example],
        validation: Sequence[Example],
        settings: TrainingSettings,
    ) -> None:
        if not train:
            raise ValueError("there is nothing to train on: the training split is empty")
        self.model, self.train, self.validation, self.settings = model, train, validation, settings
        self.padding = (tokenizers[0].padding, tokenizers[1].padding)
        self.parents = tokenizers[0].parents() if settings.undo_merges else {}
        self.device = next(model.parameters()).device
        self.progress = Progress()
        self.average = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=settings.rate,
            betas=(0.9, 0.98),
            eps=1e-9,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        torch.manual_seed(settings.seed)
        self._epoch_order: tuple[int, list[list[int]]] = (-1, [])
        # The step after which each epoch ends: the number of batches varies a little with the shuffle.
        self.epoch_ends = list(accumulate(len(self._order(epoch)) for epoch in range(settings.epochs)))

    @property
    def total_steps(self) -> int:
        return self.epoch_ends[-1]

    def steps(self, count: int | None = None) -> Iterator[StepReport]:
        """Train `count` steps, or to the end, and yield a report after each.

        Raises:
            FloatingPointError: the loss or the gradient is not finite; the weights are those before the step.
        """
        self.model.train()
        while self.progress.step < self.total_steps and count != 0:
            yield self._step()
            count = None if count is None else count - 1

    def validate(self) -> float:
        """Cross-entropy in nats per target token on the validation split, with the averaged weights."""
        if not self.validation:
            return math.nan
        loss = count = 0.0
        with self.averaged_weights(), torch.inference_mode():
            for batch in batches(self.validation, 4 * self.settings.batch_tokens, *self.padding):
                batch = Batch(batch.source.to(self.device), batch.target.to(self.device))
                tokens = int((batch.target[:, 1:] != self.padding[1]).sum())
                loss += float(token_loss(self.model, batch, self.padding, 0.0)) * tokens
                count += tokens
        return loss / count

    def averaged_weights(self) -> AveragedWeights:
        """A context in which the model holds the averaged weights and does not drop out."""
        return AveragedWeights(self.model, self.average)

    def _step(self) -> StepReport:
        began = time.perf_counter()
        step = self.progress.step + 1
        epoch = bisect_right(self.epoch_ends, self.progress.step)
        left = self.epoch_ends[epoch] - self.progress.step
        batch = self._batch(self._order(epoch)[-left], step)
        rate = learning_rate(step, self.total_steps, self.settings)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        loss = token_loss(self.model, batch, self.padding, self.settings.label_smoothing)
        loss.backward()
        loss = loss.detach()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        if not math.isfinite(float(loss)) or not math.isfinite(float(norm)):
            raise FloatingPointError(
                f"step {step}: loss {float(loss)}, gradient norm {float(norm)}; lower the rate ({rate:.2g})"
            )
        self.optimizer.step()
        self._update_average(step)
        self.progress.step = step
        validation = None
        if left == 1:
            validation = self.validate()
            self.model.train()
            self.progress.validations.append((step, validation))
            if validation < self.progress.best_validation:
                self.progress.best_validation, self.progress.best_step = validation, step
        tokens = batch.source.numel() + batch.target.numel()
        seconds = time.perf_counter() - began
        return StepReport(step, epoch, float(loss), rate, float(norm), tokens, seconds, validation)

    def _order(self, epoch: int) -> list[list[int]]:
        if self._epoch_order[0] != epoch:
            shuffle = random.Random(f"{self.settings.seed} epoch {epoch}")
            order = batch_order(self.train, self.settings.batch_tokens, shuffle)
            self._epoch_order = (epoch, order)
        return self._epoch_order[1]

    def _batch(self, indices: list[int], step: int) -> Batch:
        examples = [self.train[index] for index in indices]
        if self.parents:
            cut = random.Random(f"{self.settings.seed} step {step}")
            examples = [
                Example(self._fitting(undo_merges(source, self.parents, self.settings.undo_merges, cut)), target)
                for source, target in examples
            ]
        batch = collate(examples, *self.padding)
        return Batch(batch.source.to(self.device), batch.target.to(self.device))

    def _fitting(self, source: list[int]) -> list[int]:
        """`source` with its `</s>`, cut where undone merges made it longer than the positions reach."""
        longest = self.model.config.max_length
        return source if len(source) <= longest else [*source[: longest - 1], source[-1]]

    @torch.no_grad()
    def _update_average(self, step: int) -> None:
        decay = min(self.settings.average, step / (step + 9))  # a short memory at first
        parameters = dict(self.model.named_parameters())
        torch._foreach_lerp_(list(self.average.values()), [parameters[n] for n in self.average], 1 - decay)

    def save_state(self, path: Path) -> None:
        """Write all that an exact resume needs to one file, atomically."""
        training_state.save(self, path)

    def load_state(self, path: Path) -> None:
        """Go on exactly where `save_state` was called.

        Raises:
            ValueError: the file cannot be read, or belongs to another model or other settings.
        """
        training_state.load(self, path)


__all__ = ["Progress", "StepReport", "Trainer", "TrainingSettings", "learning_rate", "token_loss"]
