"""The trainer: a generator of step reports that knows no screen."""

from __future__ import annotations

import json
import math
import random
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.capture.trace import record
from model.data.datasets import Batch, Dataset, unshuffled
from model.fast import install
from model.fast.compile import compiled
from model.fast.matmul import OWN
from model.message import InputError, Message
from model.network.attention import MAPS
from model.network.transformer import Network
from model.runtime.device import DTYPES
from model.runtime.errors import NotFiniteError
from model.runtime.files import write_tensors
from model.runtime.random import fork_rng
from model.training import state
from model.training.distributed import Processes
from model.training.gradients import Gradients, first_nonfinite
from model.training.losses import loss_and_hits, summed_loss
from model.training.optimizer import (
    Averager,
    FlatAdamW,
    LastAverage,
    RunningAverage,
    Weights,
    averaged_weights,
    load_weights,
)
from model.training.schedule import learning_rate
from model.training.settings import TRAINING_OPTIONS, Progress, StepReport, TrainingSettings

install()


class BrokenOffError(Exception):
    """A step was broken off: the weights are those before it, and it can be begun again."""


class Trainer:
    """Trains `network` on `train`, in place, and keeps an average of its weights.

    The same seed on the same machine gives the same losses, interrupted and resumed or not, alone or beside
    other trainers. processes: those that train together; each has a trainer of its own with the same arguments.

    accuracy, exact, smoothed: of the latest validation, see `validate`. should_break_off: asked between the batches of
    a step.

    Raises:
        ValueError: there is nothing to train on, patience is set and there is nothing to validate on, or a network that
            is recurrent or has experts is to be compiled.
    """

    def __init__(
        self,
        network: Network,
        train: Dataset,
        validation: Dataset,
        settings: TrainingSettings,
        processes: Processes | None = None,
    ) -> None:
        network.require_logits()
        if not len(train):
            raise ValueError("there is nothing to train on: the training split is empty")
        if settings.patience is not None and not len(validation):
            raise InputError(
                "patience ({patience}) needs validation: the validation split is empty", patience=settings.patience
            )
        if settings.compile and network.kind == "recurrent":
            raise ValueError(
                "compile is on and the network is recurrent: its positions wait for one another, and every length "
                "would be compiled anew for minutes; train without it"
            )
        if settings.compile and network.config.n_experts is not None:
            raise ValueError(
                "compile is on and the network has experts: how many tokens each of them gets is known only when it "
                "computes, and it would be compiled anew again and again; train without it"
            )
        self.network, self.train, self.validation, self.settings = network, train, validation, settings
        self.device, self.progress = next(network.parameters()).device, Progress()
        self.processes = processes or Processes()
        self._loss = self.processes.prepare(network, compiled(summed_loss) if settings.compile else summed_loss)
        self.gradients = Gradients(network)  # only now: preparing a network may move its weights
        self.averager: Averager = (
            LastAverage(network, settings.average_last)
            if settings.average_last
            else RunningAverage(network, settings.average, self.gradients.weights)
        )
        decay = settings.weight_decay
        self.optimizer = FlatAdamW(self.gradients, settings.rate, betas=(0.9, 0.98), eps=1e-9, weight_decay=decay)
        self.products, self.origin = OWN.name, ""  # matrix library, origin of the weights: for a resume
        self.scaler = self._new_scaler()
        self.epochs = Epochs(train, settings)
        self.accuracy = self.exact = self.smoothed = math.nan
        self.should_break_off: Callable[[], bool] = lambda: False

    @property
    def total_steps(self) -> int:
        """Number of steps of the whole run."""
        return self.epochs.total

    @property
    def average(self) -> Weights:
        """Averaged weights by name."""
        return self.averager.weights

    @property
    def finished(self) -> bool:
        """True if the last step is done, or the validation loss has not fallen for `patience` validations."""
        patience = self.settings.patience
        return self.progress.step >= self.total_steps or (patience is not None and self.progress.since_best >= patience)

    def steps(self, count: int | None = None) -> Iterator[StepReport]:
        """Train `count` steps, or to the end, and yield a report after each.

        Raises:
            FloatingPointError: the loss or a gradient is not finite; the weights are those before the step.
            BrokenOffError: `should_break_off` was true.
        """
        self.network.train()
        while not self.finished and count != 0:
            yield self._step()
            count = None if count is None else count - 1

    def change(self, settings: TrainingSettings) -> None:
        """Train with other settings from the next step on.

        The order of the data becomes that of a run that had them from the beginning.

        Raises:
            ValueError: a setting cannot be changed while a run lasts.
        """
        for name in (option.name for option in TRAINING_OPTIONS.values() if option.fixed):
            before, now = getattr(self.settings, name), getattr(settings, name)
            if before != now:
                raise InputError(
                    "{name} cannot be changed in a run from {before} to {now}: start another run with it",
                    name=name,
                    before=before,
                    now=now,
                )
        another_scaler = (settings.precision == "float16") != self.scaler.is_enabled()
        self.settings = settings
        self.epochs = Epochs(self.train, settings)
        for group in self.optimizer.param_groups:
            group["weight_decay"] = settings.weight_decay
        if another_scaler:
            self.scaler = self._new_scaler()

    def validate(self) -> float:
        """Cross-entropy in nats per predicted token of the validation split, with the averaged weights.

        `accuracy` becomes the share of these tokens to which the model gives the largest probability, `exact` the share
        of texts in which it does so everywhere, `smoothed` the cross-entropy with the label smoothing of the settings,
        as the training's own loss has it. All are NaN if there is nothing to validate on.
        """
        loss = right = exact = smoothed = count = 0.0
        batches = unshuffled(self.validation, 4 * self.settings.batch_tokens)
        with self.averaged_weights(), torch.inference_mode():
            for batch in islice(batches, self.processes.rank, None, self.processes.count):
                part = loss_and_hits(self.network, batch.to(self.device), self.settings.label_smoothing)
                loss, right, exact = loss + part.loss, right + part.tokens, exact + part.texts
                smoothed, count = smoothed + part.smoothed, count + batch.predicted
        loss, right, exact, smoothed, count = self.processes.sums(loss, right, exact, smoothed, count)
        if not count:
            self.accuracy = self.exact = self.smoothed = math.nan
            return math.nan
        self.accuracy, self.exact, self.smoothed = right / count, exact / len(self.validation), smoothed / count
        return loss / count

    def averaged_weights(self) -> AbstractContextManager[Network]:
        """Context in which the network has the averaged weights and does not drop out."""
        return averaged_weights(self.network, self.average)

    def _step(self) -> StepReport:
        began = time.perf_counter()
        step = self.progress.step + 1
        epoch, left, examples = self.epochs.after(self.progress.step)
        chance = random.Random(f"{self.settings.seed} step {step}")
        batches = [self.train.batch(indices, chance) for indices in examples]
        rate = learning_rate(step, self.total_steps, self.settings)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        seed = f"{self.settings.seed} step {step} process {self.processes.rank}"
        with fork_rng(seed, self.device, compiled=self.settings.compile):
            loss = self._backward(batches)
        self.scaler.unscale_(self.optimizer)  # type: ignore[arg-type]  # it asks for param_groups and step
        norms = self.gradients.norms()
        total = math.hypot(*norms.values())
        # A float16 step whose gradients overflow is left out, and the next one is scaled less; below 1 that is no cure.
        if not math.isfinite(loss) or not (math.isfinite(total) or self.scaler.get_scale() > 1):
            self.scaler.update(self.scaler.get_scale())  # ready for another step
            first = find_first_nonfinite(self, () if math.isfinite(loss) else batches, seed)
            what = Message(
                "step {step}: loss {loss}, gradient norm {total}{first}", step=step, loss=loss, total=total, first=first
            )
            raise NotFiniteError(what, step - 1, self.settings.rate)
        self.gradients.clip(total, self.settings.clip)
        self.scaler.step(self.optimizer)  # type: ignore[arg-type]
        self.scaler.update()
        self.averager.after_step(step)
        self.progress.trained(step, loss)
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
            validation=(validation := self._validation(left == 1)),
            accuracy=None if validation is None else self.accuracy,
            exact=None if validation is None else self.exact,
            smoothed=None if validation is None or not self.settings.label_smoothing else self.smoothed,
        )

    def _backward(self, batches: Sequence[Batch]) -> float:
        """Compute the gradients of the mean loss over all predicted tokens of the step, in all processes, and return
        that loss in nats.
        """
        self.gradients.clear()
        predicted = max(1, sum(batch.predicted for batch in batches))
        loss = torch.zeros((), device=self.device)
        for number, batch in enumerate(batches, start=1):
            if number > 1 and self.should_break_off():
                raise BrokenOffError
            rows = self.processes.share(batch).to(self.device)
            with nullcontext() if number == len(batches) else self.processes.without_exchange(self._loss):
                with self.autocast():
                    part = self._loss(rows, self.settings.label_smoothing) / predicted
                # The exchange averages over the processes, where the loss is a sum.
                self.scaler.scale(part * self.processes.count).backward()
            loss += part.detach()
        return self.processes.sums(float(loss))[0]

    def autocast(self) -> Any:
        """Context in which forward passes compute in the precision of the settings."""
        if self.settings.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, DTYPES[self.settings.precision])

    def _validation(self, epoch_ends: bool) -> float | None:
        """Validate where that is due, note the loss in nats and return it."""
        every = self.settings.validate_every
        due = epoch_ends if every is None else self.progress.step % every == 0
        if not due and self.progress.step < self.total_steps:
            return None
        self.averager.before_validation()
        loss = self.validate()
        self.progress.note(loss)
        return loss

    def _new_scaler(self) -> torch.amp.GradScaler:
        return torch.amp.GradScaler(self.device.type, enabled=self.settings.precision == "float16")

    @cached_property
    def data_digest(self) -> str:
        """Digest of the examples to train and validate on."""
        return f"{self.train.digest()} {self.validation.digest()}"

    def state_dict(self) -> dict[str, Tensor]:
        """Weights ("model.NAME"), their average ("average. …") and the optimizer's moments ("optimizer.INDEX.NAME").

        Moments and averages have the shape of their weight. No copies: the next step changes these tensors.
        """
        tensors = {f"model.{name}": tensor.detach() for name, tensor in self.network.named_parameters()}
        tensors |= self.averager.tensors()
        for index, moments in self.optimizer.moments().items():
            tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in moments.items()}
        return tensors

    def figures(self) -> dict[str, str]:
        """State of the run without its tensors, as JSON. Random numbers follow from the seed and the step."""
        return {"progress": json.dumps(asdict(self.progress)), "scaler": json.dumps(self.scaler.state_dict())}

    def load_state_dict(self, tensors: Mapping[str, Tensor], figures: Mapping[str, str]) -> None:
        """Go on from where `state_dict` and `figures` were called; the tensors are copied."""
        load_weights(self.network, tensors, "model.")
        self.averager.load(tensors)
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, index, moment = name.split(".")
                moments.setdefault(int(index), {})[moment] = tensor
        self.optimizer.load_moments(moments)
        if self.scaler.is_enabled() and (scaling := json.loads(figures["scaler"])):
            self.scaler.load_state_dict(scaling)
        progress = json.loads(figures["progress"])
        for name in ("validations", "losses"):  # older states have no training losses
            progress[name] = [(step, loss) for step, loss in progress.get(name, [])]
        progress["since"] = tuple(progress.get("since", (0, 0.0)))
        self.progress = Progress(**progress)

    def save_state(self, path: Path) -> None:
        """Write all that an exact resume needs to one file, atomically; of several processes only the main one does."""
        if not self.processes.main:
            return
        metadata = {
            "settings": json.dumps(asdict(self.settings)),
            "config": self.network.config.to_json(),
            "data": self.data_digest,
            "products": self.products,
            "begun": self.origin,
        }
        write_tensors(path, self.state_dict(), metadata | self.figures())

    def load_state(self, path: Path) -> list[str]:
        """Go on exactly from where `save_state` was called; return the settings that differ from now on, in words.

        Raises:
            ValueError: the file cannot be read, or belongs to another model, other data or other settings.
        """
        tensors, metadata = state.read(path)
        if self.origin not in ("", metadata.get("begun", "")):
            raise InputError(
                "{path} is of a run that did not begin with that checkpoint: leave out --start, or give the one "
                "that it began with",
                path=path,
            )
        self.origin = metadata.get("begun", "")
        config, shapes = json.loads(self.network.config.to_json()), self.network.named_parameters()
        changes = state.changed_settings(path, metadata, asdict(self.settings), config, self.total_steps)
        state.require_same_size(path, tensors, {f"model.{name}": parameter.shape for name, parameter in shapes})
        if metadata["data"] != self.data_digest:
            raise InputError(
                "{path} was written with other data: use the same to resume, or delete the file to start afresh",
                path=path,
            )
        self.load_state_dict(tensors, metadata)
        return changes


__all__ = ["Progress", "StepReport", "Trainer", "TrainingSettings", "learning_rate", "summed_loss"]


# The first quantity that was not finite in a training step that failed.


def find_first_nonfinite(trainer: Trainer, batches: Sequence[Batch], seed: str) -> str:
    """First tensor that is not finite, as the end of a sentence; empty if all are.

    A weight, which was so before the step; else the first quantity of the forward pass on `batches`, repeated with the
    same `seed`; else a gradient.
    """
    weights = dict(trainer.network.named_parameters())
    gradients = {name: weight.grad for name, weight in weights.items() if weight.grad is not None}
    name = first_nonfinite(weights) or _in_forward_pass(trainer, batches, seed) or first_nonfinite(gradients)
    return Message(", not finite first in {name}", name=name) if name else ""


def _in_forward_pass(trainer: Trainer, batches: Sequence[Batch], seed: str) -> str:
    """First quantity that is not finite, in order of computation, without attention maps: their results show it too."""
    network, device = trainer.network, trainer.device
    with fork_rng(seed, device, compiled=trainer.settings.compile), torch.inference_mode(), trainer.autocast():
        for batch in batches:
            rows = trainer.processes.share(batch).to(device)
            with record(network) as trace:
                network(*rows.inputs)
            examples = [trace.example(row) for row in range(len(rows.labels))]
            for name in trace.names():
                if name.rpartition(".")[2] in (*MAPS, "visible"):
                    continue
                if not all(bool(example[name].isfinite().all()) for example in examples):
                    return name
    return ""


# The batches of each training step.

StepBatches = list[list[int]]  # the examples of each batch of a step


class Epochs:
    """The steps of each epoch. With a number of steps in the settings, an epoch is shuffled only when it is reached.

    ends: the last step of each epoch that was reached; the number of batches varies a little with the shuffle.
    """

    def __init__(self, corpus: Dataset, settings: TrainingSettings) -> None:
        self.corpus, self.settings = corpus, settings
        self.ends: list[int] = []
        self._ordered: tuple[int, list[StepBatches]] = (-1, [])
        for _ in range(settings.epochs if settings.steps is None else 1):
            self._reach_another()

    @property
    def total(self) -> int:
        """Number of steps of the whole run."""
        return self.settings.steps or self.ends[-1]

    def after(self, step: int) -> tuple[int, int, StepBatches]:
        """Epoch of the step after `step`, number of steps left in it, and that step's batches."""
        while self.ends[-1] <= step:
            self._reach_another()
        epoch = bisect_right(self.ends, step)
        left = self.ends[epoch] - step
        return epoch, left, self._steps_of(epoch)[-left]

    def _reach_another(self) -> None:
        end = self.ends[-1] if self.ends else 0
        self.ends.append(end + len(self._steps_of(len(self.ends))))

    def _steps_of(self, epoch: int) -> list[StepBatches]:
        if self._ordered[0] != epoch:
            shuffle = random.Random(f"{self.settings.seed} epoch {epoch}")
            order = self.corpus.order(self.settings.batch_tokens, shuffle)
            count = self.settings.accumulation
            self._ordered = epoch, [order[first : first + count] for first in range(0, len(order), count)]
        return self._ordered[1]
