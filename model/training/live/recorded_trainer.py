"""A trainer that is watched: each step leaves a frame and figures, and a run can go back and take another course."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from model.data.sources import TrainingData
from model.inference.copies import alone, sharing, trainable
from model.inference.text_model import TextModel
from model.runtime.errors import AGAIN, NO_PREDICTIONS, NO_WAY_BACK, NOT_FINITE, STANDS, WENT_BACK
from model.training.cost import require_room
from model.training.gradients import first_not_finite
from model.training.live.camera import Probe
from model.training.live.film import Film
from model.training.live.key_frames import KeyFrame
from model.training.live.pending_steps import Moments
from model.training.live.runs import Curves, Mark, Run
from model.training.live.snapshot import View
from model.training.losses import counts_exactly
from model.training.settings import RunSettings, StepReport, TrainingSettings, drop_out
from model.training.trainer import Trainer

RUNS = 6  # kept; then the oldest goes


class RecordedTrainer:
    """Trains a copy of a model of ours and watches it on a probe.

    What is shown, validated and saved are the same weights as long as the settings ask for no average of them.

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
            raise ValueError("compile (True) must be off in live training: a compiled network cannot be looked into")
        self.material, self.budgets = material, budgets
        config = start.network.config
        train, validation = material.corpora(config.max_length, settings.undo_merges)
        network = trainable(start.network)
        self.trainer = Trainer(network, train, validation, settings)
        self._steps = self.trainer.steps()
        self._counts_exactly = counts_exactly(material, validation)
        own = copy.copy(start)
        own.network = network
        self.model = sharing(own)
        self._moments = Moments(own, self.trainer.gradients)
        film = Film(self._moments.model, probe, **budgets)
        (figures,) = film.record([0])
        norms = [f"gradient norm/{part}" for part in self.trainer.gradients.parts]
        curves = Curves(["gradient norm", *norms, "loss", "rate", *self._moments.names, *figures])
        curves.add(0, figures)
        self.choices = RunSettings.of(settings, network.config)
        self.run = Run(1, film, curves, self.choices)
        self.runs = [self.run]
        film.record_key(self.capture())
        self.failed: int | None = None  # the step after which the next one has just failed

    @property
    def stands(self) -> int:
        """The step after which the run stands."""
        return self.trainer.progress.step

    @property
    def size(self) -> int:
        """Bytes of weights, gradients, moments and key frames; runs share these, which count once."""
        parameters, states = list(self.trainer.network.parameters()), list(self.trainer.optimizer.state.values())
        moments = [moment for state in states for moment in list(state.values())]
        keys = [tensor for run in self.runs for key in run.film.key_frames for tensor in key.tensors.values()]
        found = (*parameters, *(each.grad for each in parameters), *moments, *keys, *self._moments.tensors)
        storages = [each.untyped_storage() for each in found if isinstance(each, Tensor)]
        return sum({each.data_ptr(): each.nbytes() for each in storages}.values())

    def step(self, at_once: bool = True) -> StepReport:
        """Train one step and watch it. at_once: else it may wait for others before it is on film and curves.

        Raises:
            FloatingPointError: the loss or a gradient is not finite; the run stands where all was well.
        """
        film = self.run.film
        before = self._moments.begin(self.stands) if film.wants(self.stands + 1) else None
        key = film.keys.wants(self.stands + 1)
        try:
            report = next(self._steps)
        except Exception as error:
            self._recover()
            if isinstance(error, FloatingPointError):
                raise FloatingPointError(explain_nonfinite(self, error)) from error
            raise
        self.failed = None
        self._moments.end(report.step, self._figures(report), before)
        if key:
            film.record_key(self.capture())
        if at_once or self._moments.many(film):
            self.develop()
        return report

    def develop(self) -> None:
        """Put all steps so far onto film and curves."""
        self._moments.develop(self.run)

    def look(self) -> View:
        """The newest step, on film and curves by then; its frame stays until there is a newer one."""
        self.develop()
        self._moments.load()
        probe, trace = self.run.film.look(self.stands)
        model = alone(self._moments.model)
        return View(self.stands, probe, model, trace.on(model.network))

    def latest(self, name: str) -> float | None:
        """The newest value of a curve, on it or not yet."""
        waiting = self._moments.latest(name)
        return self.run.curves.latest(name) if waiting is None else waiting

    @property
    def probe(self) -> Probe:
        return self.run.film.probe

    def show(self, probe: Probe) -> None:
        """Watch another probe from now on."""
        self.develop()
        self._moments.load()
        self.run.film.show(probe, self.stands)

    def capture(self) -> KeyFrame:
        """The state of the run as it is now."""
        tensors = self.trainer.state_dict()
        kept = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
        return KeyFrame(self.run.number, self.stands, self.choices, kept, self.trainer.figures())

    def change(self, changes: Mapping[str, Any]) -> None:
        """Settings or dropouts from the next step on; marked on the run. Whoever calls asks `require_room` first.

        Raises:
            ValueError: see `RunSettings.with_changes`.
        """
        before = self.choices
        self._use(before.with_changes(changes, self.trainer.network.config))
        if found := before.differences(self.choices):
            self.run.marks += (Mark(self.stands, found),)

    def rewind(self, key: KeyFrame) -> None:
        """Go back to a key frame; what its run did later is forgotten. One of another run: go on with that one.

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

    def branch(self, key: KeyFrame, changes: Mapping[str, Any]) -> None:
        """Take another course from a key frame, with the same batches; the run that went on from there is kept.

        Raises:
            ValueError: its run is not kept any more, or see `RunSettings.with_changes`.
        """
        parent = self._run_of(key)
        choices = key.choices.with_changes(changes, self.trainer.network.config)
        self.develop()
        self._keep_state()
        for run in self.runs:
            run.film.shrink(0.5)  # so all films together stay within twice the budgets
        if len(self.runs) == RUNS:
            self.runs.remove(next(run for run in self.runs if run is not parent))
        self._restore(key)
        probe = self.probe
        self.run = parent.branch(1 + max(run.number for run in self.runs), key, choices, **self.budgets)
        self.runs.append(self.run)
        self._use(choices)
        self.run.film.keys.put([self.capture()])  # with the new choices
        self.show(probe)

    def restart(self) -> None:
        """Begin another run with the first weights and the settings that are in force now."""
        first, now = self.run.film.keys[0], self.choices
        self.branch(first, {name: mine for name, (mine, _) in now.differences(first.choices).items()})

    def _figures(self, report: StepReport) -> dict[str, float | None]:
        return {
            "loss": report.loss,
            "rate": report.rate,
            "gradient norm": report.gradient_norm,
            **{f"gradient norm/{part}": norm for part, norm in report.gradient_norms.items()},
            "validation": report.validation,
            "accuracy": report.accuracy,
            "exact match": report.exact if self._counts_exactly else None,
        }

    def require_room(self, choices: RunSettings) -> None:
        """Larger batches fit into memory: to be asked before anything is changed.

        Raises:
            ValueError: they do not.
        """
        if choices.settings.batch_tokens > self.choices.settings.batch_tokens:
            network = self.trainer.network
            require_room(network.config, self.trainer.train, choices.settings, self.trainer.device, begun=True)

    def _use(self, choices: RunSettings) -> None:
        if choices.settings != self.trainer.settings:
            self.trainer.change(choices.settings)
        for network in (self.trainer.network, self.model.network, self._moments.model.network):
            drop_out(network, choices.rates)
        self.choices = choices

    def _restore(self, key: KeyFrame) -> None:
        self.failed = None
        self._moments.forget()
        self.run.film.forget_look()
        self._use(key.choices)
        self.trainer.load_state_dict(key.tensors, key.figures)

    def _run_of(self, key: KeyFrame) -> Run:
        for run in self.runs:
            if run.number == key.run:
                return run
        raise ValueError(f"run {key.run} is not kept any more: choose a key frame of a newer one")

    def _keep_state(self) -> None:
        """So that the present run can be gone on with from where it is left."""
        if self.run.film.keys[-1].step < self.stands:
            self.run.film.record_key(self.capture())

    def _recover(self) -> None:
        """After a step that was broken off: no weight has moved, but a first step may have left half an optimizer."""
        self._steps = self.trainer.steps()
        self.trainer.gradients.clear()
        if not self.stands:
            self.trainer.optimizer.state.clear()


# Where a training stands after a step whose loss or gradients were not finite.


def explain_nonfinite(own: RecordedTrainer, error: FloatingPointError) -> str:
    """Stand on the last good step, with the settings in force; says which, and what to change, in a sentence.

    The step that failed has moved no weight: that is the one before it, unless its weights are broken or it has
    failed before. Then it is the last key frame that was gone on from.
    """
    what, stood, choices = str(error).partition(";")[0], own.stands, own.choices
    rate = own.trainer.settings.rate
    why = AGAIN if own.failed == stood else _broken(own)
    own.failed = None if why else stood
    if not why:
        return STANDS.format(what=what, step=stood, rate=rate)
    for key in reversed(own.run.film.key_frames):
        if key.step < stood and not first_not_finite(key.tensors):
            own.rewind(key)
            own.change({name: there for name, (_here, there) in own.choices.differences(choices).items()})
            return WENT_BACK.format(what=what, why=why, step=key.step, rate=rate)
    return NO_WAY_BACK.format(what=what)


def _broken(own: RecordedTrainer) -> str:
    """What is wrong with the model as it is now; nothing if its weights and its predictions are finite."""
    if name := first_not_finite(dict(own.trainer.network.named_parameters())):
        return NOT_FINITE.format(name=name, step=own.stands)
    trace = own.model.trace_tokens(own.probe.source, own.probe.target)
    return "" if bool(trace["output.logits"].isfinite().all()) else NO_PREDICTIONS.format(step=own.stands)
