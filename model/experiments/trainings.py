"""Trainings side by side: a few arms that differ in one thing learn from the same batches, a step of each in turn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from model.data.datasets import IGNORED, Batch, Corpus
from model.data.sources import Data, Material, material_of, new_config
from model.data.tasks import find_task, task_pairs
from model.experiments.courses import VALIDATIONS, Arm, Course, Setup, Side
from model.experiments.running import Report
from model.inference.model import Inspectable
from model.runtime.random import seeded
from model.training.demonstration import fresh
from model.training.trainer import Trainer

PAIRS = 6000  # of the task, where it has so many
HELD = 5  # percent of them that no arm is trained on


class Learner:
    """One arm with one seed: its trainer, and how it has fared."""

    def __init__(self, arm: Arm, setup: Setup, material: Material, corpora: tuple[Corpus, Corpus], seed: int) -> None:
        self.arm = arm
        config = new_config(setup.kind, setup.options(arm), material.tokenizers)
        self.lens: Inspectable = fresh(arm.name, config, material, seed)
        if arm.change:
            with seeded(seed, self.lens.device):
                arm.change(self.lens.model)
        self.trainer = Trainer(self.lens.model, *corpora, setup.settings(arm, seed))
        if arm.optimizer:
            self.trainer.optimizer = arm.optimizer(self.lens.model)  # type: ignore[assignment]  # they do alike
        self._steps = self.trainer.steps()
        self._seconds: list[float] = []
        self.course = Course(arm.name, seed, self.lens.model.parameter_count())

    @property
    def last(self) -> float:
        """Seconds of the newest step."""
        return self._seconds[-1] if self._seconds else math.nan

    def step(self) -> None:
        """One more, unless it is at the end; a step that is not finite is the end."""
        if self.course.diverged:
            return
        before = self.course
        try:
            report = next(self._steps, None)
        except FloatingPointError:
            self.course = replace(before, diverged=len(before.losses) + 1)
            return
        if report is None:
            return
        self._seconds.append(report.seconds)
        measured = before.validations
        if report.validation is not None and report.accuracy is not None:
            measured = (*measured, (report.step, report.validation, report.accuracy))
        self.course = replace(
            before,
            losses=(*before.losses, report.loss),
            rates=(*before.rates, report.rate),
            validations=measured,
            first=before.first or report.gradient_norms,
            latest=report.gradient_norms,
            seconds=median(self._seconds[-50:]),
        )


def material(setup: Setup, count: int | None = None) -> Material:
    """Pairs of the task with sources of the setup's lengths.

    Raises:
        ValueError: the task has no such lengths.
    """
    room = sum(find_task(setup.task).sources(length) for length in set(setup.lengths))
    pairs = task_pairs(setup.task, max(1, min(count or PAIRS, room // 2)), setup.lengths, 1)
    return material_of(
        setup.kind, Data(f"task:{setup.task}", tuple(pairs), task=setup.task, held=HELD), "characters", 0
    )


def learners(arms: Sequence[Arm], setup: Setup, count: int | None = None) -> tuple[list[Learner], float]:
    """Each arm with each seed before its first step, and the loss of frequencies alone.

    Raises:
        ValueError: options or settings that cannot be, or a task without such lengths.
    """
    learnt = material(setup, count)
    corpora = learnt.corpora(setup.max_length, 0.0)
    made = [Learner(arm, setup, learnt, corpora, seed) for seed in setup.seeds for arm in arms]
    return made, frequencies_alone(corpora[0])


def step_seconds(arms: Sequence[Arm], setup: Setup) -> float:
    """About what a step of one arm takes: the second one of the first arm, on a few pairs.

    Raises:
        ValueError: as `learners`.
    """
    few = replace(setup, steps=max(setup.steps, 3 * VALIDATIONS), seeds=setup.seeds[:1])  # none of the two validates
    (first,), _ = learners(arms[:1], few, 400)
    first.step()
    first.step()
    return first.last


def train(arms: Sequence[Arm], setup: Setup) -> Iterator[Report[Side]]:
    """One step of each in turn, so that all curves grow together; a report after each round."""
    made, chance = learners(arms, setup)
    yield from rounds(made, setup, chance)


def rounds(made: Sequence[Learner], setup: Setup, chance: float) -> Iterator[Report[Side]]:
    longest = max(setup.lengths)
    for step in range(1, setup.steps + 1):
        for each in made:
            each.step()
        courses = tuple(each.course for each in made)
        yield Report(step / setup.steps, Side(courses, setup.steps, chance, trained=longest))


def frequencies_alone(corpus: Corpus) -> float:
    """−Σ p log p over the tokens to predict: what a model can reach that sees no context."""
    batch: Batch = corpus.batch(range(len(corpus)), None)
    counts = Counter(batch.labels[batch.labels != IGNORED].tolist())
    total = sum(counts.values())
    return -sum(count / total * math.log(count / total) for count in counts.values())
