"""The trainer: a generator of step reports that knows no screen."""

from __future__ import annotations

import math
import random
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from model import training_state
from model.averaging import AveragedWeights, Averager, LastAverage, RunningAverage, Weights
from model.compiling import compiled
from model.corpus import IGNORED, Batch, Corpus, unshuffled
from model.device import DTYPES
from model.gradients import Gradients
from model.network import Network
from model.processes import Processes
from model.products import OWN
from model.randomness import drawing_from
from model.training_settings import Progress, StepReport, TrainingSettings, learning_rate


def summed_loss(model: Network, batch: Batch, label_smoothing: float) -> Float[Tensor, ""]:
    """Cross-entropy in nats, added up over the tokens to predict (section 5.4); the others are not computed."""
    asked = batch.labels != IGNORED
    logits = model.output(model.states(*batch.inputs)[asked])
    return F.cross_entropy(logits, batch.labels[asked], label_smoothing=label_smoothing, reduction="sum")


class Trainer:
    """Trains `model` on `train`, in place, and keeps an average of its weights.

    The same seed on the same machine gives the same losses, interrupted and resumed or not, alone or beside
    other trainers. processes: those that train together; each has a trainer of its own with the same arguments.

    Raises:
        ValueError: there is nothing to train on, or nothing to be patient with.
    """

    def __init__(
        self,
        model: Network,
        train: Corpus,
        validation: Corpus,
        settings: TrainingSettings,
        processes: Processes | None = None,
    ) -> None:
        if not len(train):
            raise ValueError("there is nothing to train on: the training split is empty")
        if settings.patience is not None and not len(validation):
            raise ValueError(f"patience ({settings.patience}) needs validation: the validation split is empty")
        self.model, self.train, self.validation, self.settings = model, train, validation, settings
        self.device = next(model.parameters()).device
        self.progress = Progress()
        self.averager: Averager = (
            LastAverage(model, settings.average_last)
            if settings.average_last
            else RunningAverage(model, settings.average)
        )
        self.gradients = Gradients(model)
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=settings.rate,
            betas=(0.9, 0.98),
            eps=1e-9,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.products = OWN.name  # the library of float32 products, kept for a resume
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=settings.precision == "float16")
        self.processes = processes or Processes()
        self._loss = self.processes.prepare(model, compiled(summed_loss) if settings.compile else summed_loss)
        self._epoch_steps: tuple[int, list[list[list[int]]]] = (-1, [])
        # The step after which each epoch ends: the number of batches varies a little with the shuffle.
        self.epoch_ends = list(accumulate(len(self._steps_of(epoch)) for epoch in range(settings.epochs)))

    @property
    def total_steps(self) -> int:
        return self.epoch_ends[-1]

    @property
    def average(self) -> Weights:
        return self.averager.weights

    @property
    def finished(self) -> bool:
        """The last step is done, or the validation loss has not fallen for too long."""
        patience = self.settings.patience
        return self.progress.step >= self.total_steps or (patience is not None and self.progress.since_best >= patience)

    def steps(self, count: int | None = None) -> Iterator[StepReport]:
        """Train `count` steps, or to the end, and yield a report after each.

        Raises:
            FloatingPointError: the loss or a gradient is not finite; the weights are those before the step.
        """
        self.model.train()
        while not self.finished and count != 0:
            yield self._step()
            count = None if count is None else count - 1

    def validate(self) -> float:
        """Cross-entropy in nats per predicted token of the validation split, with the averaged weights."""
        loss = count = 0.0
        batches = unshuffled(self.validation, 4 * self.settings.batch_tokens)
        with self.averaged_weights(), torch.inference_mode():
            for batch in islice(batches, self.processes.rank, None, self.processes.count):
                loss += float(summed_loss(self.model, batch.to(self.device), 0.0))
                count += batch.predicted
        loss, count = self.processes.sums(loss, count)
        return loss / count if count else math.nan

    def averaged_weights(self) -> AveragedWeights:
        """A context in which the model holds the averaged weights and does not drop out."""
        return AveragedWeights(self.model, self.average)

    def _step(self) -> StepReport:
        began = time.perf_counter()
        step = self.progress.step + 1
        epoch = bisect_right(self.epoch_ends, self.progress.step)
        left = self.epoch_ends[epoch] - self.progress.step
        chance = random.Random(f"{self.settings.seed} step {step}")
        batches = [self.train.batch(indices, chance) for indices in self._steps_of(epoch)[-left]]
        rate = learning_rate(step, self.total_steps, self.settings)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with drawing_from(f"{self.settings.seed} step {step} process {self.processes.rank}", self.device):
            loss = self._backward(batches)
        self.scaler.unscale_(self.optimizer)
        norms = self.gradients.norms()
        total = math.hypot(*norms.values())
        if not math.isfinite(loss) or not (math.isfinite(total) or self.scaler.is_enabled()):
            raise FloatingPointError(
                f"step {step}: loss {loss}, gradient norm {total}{self.gradients.culprit()}; the weights are still "
                f"those of step {step - 1}: lower the rate ({rate:.2g})"
            )
        self.gradients.clip(total, self.settings.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.averager.after_step(step)
        self.progress.step = step
        return StepReport(
            step=step,
            epoch=epoch,
            loss=loss,
            rate=rate,
            gradient_norm=total,
            gradient_norms=norms,
            parameter_norm=self.gradients.parameter_norm(),
            tokens=sum(batch.tokens for batch in batches),
            seconds=time.perf_counter() - began,
            validation=self._validation(left == 1),
        )

    def _backward(self, batches: Sequence[Batch]) -> float:
        """Gradients of the mean loss over all predicted tokens of the step, in all processes; gives that loss."""
        self.optimizer.zero_grad(set_to_none=True)
        predicted = max(1, sum(batch.predicted for batch in batches))
        loss = torch.zeros((), device=self.device)
        for number, batch in enumerate(batches, start=1):
            mine = self.processes.share(batch).to(self.device)
            with nullcontext() if number == len(batches) else self.processes.apart(self._loss):
                with self._autocast():
                    part = self._loss(mine, self.settings.label_smoothing) / predicted
                # The exchange averages over the processes, where the loss is a sum.
                self.scaler.scale(part * self.processes.count).backward()
            loss += part.detach()
        return self.processes.sums(float(loss))[0]

    def _autocast(self) -> Any:
        if self.settings.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, DTYPES[self.settings.precision])

    def _validation(self, epoch_ends: bool) -> float | None:
        """Validate where it is due, and note the loss."""
        every = self.settings.validate_every
        due = epoch_ends if every is None else self.progress.step % every == 0 or self.progress.step == self.total_steps
        if not due:
            return None
        self.averager.before_validation()
        loss = self.validate()
        self.progress.note(loss)
        return loss

    def _steps_of(self, epoch: int) -> list[list[list[int]]]:
        """The batches of each step of an epoch."""
        if self._epoch_steps[0] != epoch:
            shuffle = random.Random(f"{self.settings.seed} epoch {epoch}")
            order = self.train.order(self.settings.batch_tokens, shuffle)
            count = self.settings.accumulation
            self._epoch_steps = epoch, [order[first : first + count] for first in range(0, len(order), count)]
        return self._epoch_steps[1]

    @cached_property
    def data_digest(self) -> str:
        """Two trainers with the same one train and validate on the same examples."""
        return f"{self.train.digest()} {self.validation.digest()}"

    def save_state(self, path: Path) -> None:
        """Write all that an exact resume needs to one file, atomically; one of several processes writes it."""
        if self.processes.main:
            training_state.save(self, path)

    def load_state(self, path: Path) -> None:
        """Go on exactly where `save_state` was called.

        Raises:
            ValueError: the file cannot be read, or belongs to another model, other data or other settings.
        """
        training_state.load(self, path)


__all__ = ["Progress", "StepReport", "Trainer", "TrainingSettings", "learning_rate", "summed_loss"]
