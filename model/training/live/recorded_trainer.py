"""A trainer whose steps leave frames and figures, and whose run can go back and branch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from model.data.prepared import prepared
from model.data.sources import TrainingData
from model.inference.copies import alone, sharing, trainable
from model.inference.text_model import TextModel
from model.message import InputError, Message
from model.runtime.errors import AGAIN, NO_PREDICTIONS, NO_WAY_BACK, NOT_FINITE, STANDS, WENT_BACK, NotFiniteError
from model.training.cost import require_room
from model.training.gradients import first_nonfinite
from model.training.live.film import Film
from model.training.live.frame_recorder import Probe
from model.training.live.key_frames import KeyFrame
from model.training.live.pending_steps import PendingSteps
from model.training.live.runs import Curves, Mark, Run
from model.training.live.snapshot import View
from model.training.losses import counts_exactly
from model.training.settings import RunSettings, StepReport, TrainingSettings, set_dropout
from model.training.trainer import Trainer

RUNS = 6  # kept at most; then the oldest goes


class RecordedTrainer:
    """Trainer of a copy of a model, which is watched on a probe.

    Shown, validated and saved weights are the same as long as the settings ask for no average. failed: number of steps
    done when the next one failed, None if that has succeeded since.

    Raises:
        ValueError: the settings do not go together with the data, or cannot be watched.
    """

    def __init__(
        self,
        start: TextModel,
        material: TrainingData,
        settings: TrainingSettings,
        probe: Probe,
        **budgets: int,
    ) -> None:
        """budgets: see `Film`."""
        if settings.compile:
            raise InputError(
                "{name} ({value}) must be off in live training: a compiled network cannot be looked into",
                name="compile",
                value=True,
            )
        self.material, self.budgets = material, budgets
        config = start.network.config
        train, validation = prepared().corpora(material, config.max_length, settings.bpe_dropout)
        network = trainable(start.network)
        self.trainer = Trainer(network, train, validation, RunSettings.of(settings, network.config))
        self._steps = self.trainer.steps()
        self._counts_exactly = counts_exactly(material, validation)
        model = copy.copy(start)
        model.network = network
        self.model = sharing(model)
        self._pending = PendingSteps(model, self.trainer.gradients)
        film = Film(self._pending.model, probe, **budgets)
        (figures,) = film.record([0])
        norms = [f"gradient norm/{part}" for part in self.trainer.gradients.parts]
        curves = Curves(["gradient norm", *norms, "loss", "rate", *self._pending.names, *figures])
        curves.add(0, figures)
        self.run = Run(1, film, curves)
        self.runs = [self.run]
        film.record_key(self.capture())
        self.failed: int | None = None

    @property
    def steps_done(self) -> int:
        """Number of completed training steps of the run."""
        return self.trainer.progress.step

    @property
    def settings(self) -> RunSettings:
        """Settings in force."""
        settings = self.trainer.settings
        assert isinstance(settings, RunSettings)
        return settings

    @property
    def size(self) -> int:
        """Bytes of weights, gradients, moments and key frames; tensors that runs share count once."""
        parameters, states = list(self.trainer.network.parameters()), list(self.trainer.optimizer.state.values())
        moments = [moment for state in states for moment in list(state.values())]
        keys = [tensor for run in self.runs for key in run.film.key_frames for tensor in key.tensors.values()]
        gradients = [parameter.grad for parameter in parameters]
        tensors = (*parameters, *gradients, *moments, *keys, *self._pending.tensors)
        storages = [tensor.untyped_storage() for tensor in tensors if isinstance(tensor, Tensor)]
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())

    def step(self, at_once: bool = True) -> StepReport:
        """Train one step and record it. at_once: put it onto film and curves now, else perhaps together with others.

        Raises:
            FloatingPointError: the loss or a gradient is not finite; the run is then as after its last good step.
        """
        film = self.run.film
        before = self._pending.begin(self.steps_done) if film.wants(self.steps_done + 1) else None
        key = film.keys.wants(self.steps_done + 1)
        try:
            report = next(self._steps)
        except Exception as error:
            self._recover()
            if isinstance(error, NotFiniteError):
                raise FloatingPointError(explain_nonfinite(self, error)) from error
            raise
        self.failed = None
        self._pending.end(report.step, self._figures(report), before)
        if key:
            film.record_key(self.capture())
        if at_once or self._pending.due(film):
            self.develop()
        return report

    def develop(self) -> None:
        """Put all waiting steps onto film and curves."""
        self._pending.develop(self.run)

    def look(self) -> View:
        """View of the newest step, which is put onto film and curves; its frame stays until there is a newer one."""
        self.develop()
        self._pending.load()
        probe, trace = self.run.film.look(self.steps_done)
        model = alone(self._pending.model)
        return View(self.steps_done, probe, model, trace.on(model.network))

    def latest(self, name: str) -> float | None:
        """Newest value of a curve, waiting steps included; None if it was never measured."""
        waiting = self._pending.latest(name)
        return self.run.curves.latest(name) if waiting is None else waiting

    @property
    def probe(self) -> Probe:
        """Probe of the present run."""
        return self.run.film.probe

    def show(self, probe: Probe) -> None:
        """Watch another probe from now on."""
        self.develop()
        self._pending.load()
        self.run.film.show(probe, self.steps_done)

    def capture(self) -> KeyFrame:
        """State of the run as it is now, copied to the CPU."""
        tensors = self.trainer.state_dict()
        copies = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
        return KeyFrame(self.run.number, self.steps_done, self.settings, copies, self.trainer.figures())

    def change(self, changes: Mapping[str, Any]) -> None:
        """Change settings or dropout rates from the next step on, and mark it on the run; `require_room` comes before.

        Raises:
            ValueError: see `RunSettings.with_changes`.
        """
        before = self.settings
        self._use(before.with_changes(changes))
        if differences := before.differences(self.settings):
            self.run.marks += (Mark(self.steps_done, differences),)

    def rewind(self, key: KeyFrame) -> None:
        """Go on from a key frame with its run, whose later steps are forgotten.

        Raises:
            ValueError: its run is not kept any more.
        """
        run = self._run_of(key)
        self.develop()
        if run is not self.run:
            self._keep_state()
        self._restore(key)
        probe, self.run = self.probe, run
        run.go_back(key)
        self.show(probe)

    def go_to(self, key: KeyFrame) -> None:
        """Go on from a later state of this run, which another process has reached."""
        self._restore(key)
        self._steps = self.trainer.steps()
        self.run.film.keys.put([key])
        self.look()

    def branch(self, key: KeyFrame, changes: Mapping[str, Any]) -> None:
        """Begin another run at a key frame, with the same batches and other settings; the key frame's run is kept.

        Raises:
            ValueError: its run is not kept any more, or see `RunSettings.with_changes`.
        """
        parent = self._run_of(key)
        settings = key.settings.with_changes(changes)
        self.develop()
        self._keep_state()
        for run in self.runs:
            run.film.shrink(0.5)  # so all films together stay within twice the budgets
        if len(self.runs) == RUNS:
            self.runs.remove(next(run for run in self.runs if run is not parent))
        self._restore(key)
        probe = self.probe
        self.run = parent.branch(1 + max(run.number for run in self.runs), key, settings, **self.budgets)
        self._use(settings)
        self.run.film.keys.put([self.capture()])  # with the new settings
        self.runs.append(self.run)
        self.show(probe)

    def restart(self) -> None:
        """Begin another run with the first weights and the settings that are in force now."""
        first = self.run.film.keys[0]
        self.branch(first, {name: now for name, (_, now) in first.settings.differences(self.settings).items()})

    def _figures(self, report: StepReport) -> dict[str, float | None]:
        return {
            "loss": report.loss,
            "rate": report.rate,
            "gradient norm": report.gradient_norm,
            **{f"gradient norm/{part}": norm for part, norm in report.gradient_norms.items()},
            "validation": report.validation,
            "accuracy": report.accuracy,
            "exact match": report.exact if self._counts_exactly else None,
            "smoothed validation": report.smoothed,
        }

    def require_room(self, settings: RunSettings) -> int:
        """Bytes that the batches of other settings need more, checked to fit, before anything is changed.

        Raises:
            ValueError: they do not fit.
        """
        if settings.batch_tokens <= self.settings.batch_tokens:
            return 0
        network = self.trainer.network
        return require_room(network.config, self.trainer.train, settings, self.trainer.device, running=True)

    def _use(self, settings: RunSettings) -> None:
        if settings != self.settings:
            self.trainer.change(settings)
        for network in (self.trainer.network, self.model.network, self._pending.model.network):
            set_dropout(network, settings)

    def _restore(self, key: KeyFrame) -> None:
        self.failed = None
        self._pending.forget()
        self.run.film.forget_look()
        self._use(key.settings)
        self.trainer.load_state_dict(key.tensors, key.figures)

    def _run_of(self, key: KeyFrame) -> Run:
        for run in self.runs:
            if run.number == key.run:
                return run
        raise InputError("run {run} is not kept any more: choose a key frame of a newer one", run=key.run)

    def _keep_state(self) -> None:
        """Record a key frame of the newest step, so that the present run can go on from there later."""
        if self.run.film.keys[-1].step < self.steps_done:
            self.run.film.record_key(self.capture())

    def _recover(self) -> None:
        """Clear up after a step that was broken off: it moved no weight, but may have left gradients and moments."""
        self._steps = self.trainer.steps()
        self.trainer.gradients.clear()
        if not self.steps_done:
            self.trainer.optimizer.state.clear()


# The way back after a step whose loss or gradients were not finite.


def explain_nonfinite(recorded: RecordedTrainer, error: NotFiniteError) -> str:
    """Go back to the last good step, with the settings in force; return a sentence with that step and what to change.

    The step that failed has moved no weight, so the last good step is the one before it, unless the weights are broken
    or the step has failed before: then it is the last key frame before that whose tensors are finite.
    """
    what, step, settings = error.what, recorded.steps_done, recorded.settings
    rate = settings.rate
    why = AGAIN if recorded.failed == step else _defect(recorded)
    recorded.failed = None if why else step
    if not why:
        return Message(STANDS, what=what, step=step, rate=rate)
    for key in reversed(recorded.run.film.key_frames):
        if key.step < step and not first_nonfinite(key.tensors):
            recorded.rewind(key)
            recorded.change({name: there for name, (_here, there) in recorded.settings.differences(settings).items()})
            return Message(WENT_BACK, what=what, why=why, step=key.step, rate=rate)
    return Message(NO_WAY_BACK, what=what)


def _defect(recorded: RecordedTrainer) -> str:
    """Defect of the present model, in words; empty if its weights and its predictions on the probe are finite."""
    if name := first_nonfinite(dict(recorded.trainer.network.named_parameters())):
        return Message(NOT_FINITE, name=name, step=recorded.steps_done)
    logits = recorded.model.trace_tokens(recorded.probe.source, recorded.probe.target)["output.logits"]
    return "" if bool(logits.isfinite().all()) else Message(NO_PREDICTIONS, step=recorded.steps_done)
