"""Trainings side by side: arms that differ in one thing learn from the same batches, a step of each in turn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Any

import torch

from model.data.datasets import IGNORED, Batch, Dataset
from model.data.sources import Data, Source, TrainingData, material_of, new_config
from model.data.tasks import CODE_LICENCE, find_task, task_pairs
from model.experiments.runner import Report
from model.inference.text_model import TextModel
from model.network.config import Kind
from model.network.transformer import Network
from model.runtime.random import seeded
from model.training.demonstration import fresh
from model.training.live.saving import training_record
from model.training.settings import TrainingSettings
from model.training.trainer import Trainer

PAIRS = 6000  # of the task, where it has so many
VALIDATION_PERCENT = 5  # of the pairs


class Learner:
    """One arm with one seed: its trainer, and its course so far."""

    def __init__(
        self, arm: Arm, setup: Setup, material: TrainingData, corpora: tuple[Dataset, Dataset], seed: int
    ) -> None:
        self.arm, self._material, self._lengths = arm, material, setup.lengths
        config = new_config(setup.kind, setup.options(arm), material.tokenizers)
        self.model: TextModel = fresh(arm.name, config, material, seed)
        if arm.change:
            with seeded(seed, self.model.device):
                arm.change(self.model.network)
        self.trainer = Trainer(self.model.network, *corpora, setup.settings(arm, seed))
        if arm.optimizer:
            self.trainer.optimizer = arm.optimizer(self.model.network)  # type: ignore[assignment]  # they do alike
        self._steps = self.trainer.steps()
        self._seconds: list[float] = []
        self.course = Course(arm.name, seed, self.model.network.parameter_count())

    @property
    def last(self) -> float:
        """Seconds of the newest step."""
        return self._seconds[-1] if self._seconds else math.nan

    def finished(self) -> TextModel | None:
        """Model with the record of its training; None where it diverged, or no checkpoint could say what it is."""
        if self.course.diverged or not self.arm.ordinary:
            return None
        data = f"{self._material.data.task}, lengths {min(self._lengths)} to {max(self._lengths)}"  # type: ignore[union-attr]  # see `material`
        example = self._material.example
        record = training_record(self.trainer, self._material, Source(data, CODE_LICENCE), example, "last")
        curves = {
            "losses": [[step, loss] for step, loss in enumerate(self.course.losses, start=1)],
            "validations": [[step, loss] for step, loss, _right in self.course.validations],
        }
        note = f"Arm {self.arm.name!r} of trainings side by side in the Lab."
        self.model.training = {**record, **curves, "note": note}
        self.model.network.eval()
        return self.model

    def step(self) -> None:
        """Train one more step, unless the course is at its end; a step that is not finite is the end."""
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


def material(setup: Setup, count: int | None = None) -> TrainingData:
    """Pairs of the task with sources of the setup's lengths. count: number of pairs, `PAIRS` unless there are fewer.

    Raises:
        ValueError: the task has no such lengths.
    """
    room = sum(find_task(setup.task).sources(length) for length in set(setup.lengths))
    pairs = task_pairs(setup.task, max(1, min(count or PAIRS, room // 2)), setup.lengths, 1)
    data = Data(f"task:{setup.task}", tuple(pairs), task=setup.task, validation_percent=VALIDATION_PERCENT)
    return material_of(setup.kind, data, "characters", 0)


def learners(arms: Sequence[Arm], setup: Setup, count: int | None = None) -> tuple[list[Learner], float]:
    """Learners of each arm with each seed, before their first step, and the loss of frequencies alone.

    Raises:
        ValueError: options or settings are invalid, or the task has no such lengths.
    """
    data = material(setup, count)
    corpora = data.corpora(setup.max_length, 0.0)
    learners = [Learner(arm, setup, data, corpora, seed) for seed in setup.seeds for arm in arms]
    return learners, frequencies_alone(corpora[0])


def step_seconds(arm: Arm, setup: Setup) -> float:
    """Estimated seconds of a step of an arm: of its second step, on a few pairs.

    Raises:
        ValueError: see `learners`.
    """
    few = replace(setup, steps=max(setup.steps, 3 * VALIDATIONS), seeds=setup.seeds[:1])  # none of the two validates
    (learner,), _ = learners([arm], few, 400)
    learner.step()
    learner.step()
    return learner.last


def train(arms: Sequence[Arm], setup: Setup) -> Iterator[Report[Side]]:
    """Train all arms with all seeds, see `rounds`.

    Raises:
        ValueError: see `learners`.
    """
    trained, chance = learners(arms, setup)
    yield from rounds(trained, setup, chance)


def rounds(learners: Sequence[Learner], setup: Setup, chance: float) -> Iterator[Report[Side]]:
    """Train one step of each learner in turn, so that all curves grow together; yield a report after each round."""
    longest = max(setup.lengths)
    for step in range(1, setup.steps + 1):
        for learner in learners:
            learner.step()
        courses = tuple(learner.course for learner in learners)
        models = [learner.finished() for learner in learners] if step == setup.steps else []
        complete_models = tuple(model for model in models if model is not None)
        yield Report(step / setup.steps, Side(courses, setup.steps, chance, trained=longest, models=complete_models))


def frequencies_alone(corpus: Dataset) -> float:
    """Entropy −Σ p ln p of the tokens to predict, in nats: the best loss of a model that sees no context."""
    batch: Batch = corpus.batch(range(len(corpus)), None)
    counts = Counter(batch.labels[batch.labels != IGNORED].tolist())
    total = sum(counts.values())
    return -sum(count / total * math.log(count / total) for count in counts.values())


# Numbers for the verdicts on trainings side by side.

UNLEARNT = 0.9  # times the loss of frequencies alone: an arm that is not clearly below it has learnt next to nothing


def ends(courses: Sequence[Course]) -> list[float]:
    """Final losses of courses in nats; infinite for one that diverged."""
    return [math.inf if math.isnan(course.final) else course.final for course in courses]


def growth(side: Side, arm: str, stack: str) -> float:
    """Mean of `growths`; NaN where there are none."""
    ratios = growths(side, arm, stack)
    return fmean(ratios) if ratios else math.nan


def growths(side: Side, arm: str, stack: str) -> list[float]:
    """Ratio of the first step's gradient norm at the input end of a stack to that at its output end, for each seed that
    has both; none where float32 has lost one of them, which is then 0.
    """
    ratios = []
    for course in side.of(arm):
        norms = [norm for name, norm in course.first.items() if name.startswith(f"{stack}.layers.")]
        if len(norms) > 1 and min(norms[0], norms[-1]) > 0:
            ratios.append(norms[0] / norms[-1])
    return ratios


def stacks(side: Side) -> list[str]:
    """Stacks of the networks, "encoder" and "decoder" or one of them."""
    parts = [part for course in side.courses for part in course.first]
    return [stack for stack in ("encoder", "decoder") if any(part.startswith(f"{stack}.layers.") for part in parts)]


def shares_of_fall(side: Side, arm: str, other: str) -> list[float]:
    """Fall of an arm's loss below that of frequencies alone, as a share of the other arm's fall, for each seed.

    NaN where the other arm's loss has not fallen.
    """
    falls = ([max(0.0, side.chance - end) for end in ends(side.of(each))] for each in (arm, other))
    return [fall / whole if whole else math.nan for fall, whole in zip(*falls, strict=True)]


def perplexity(side: Side, arm: str) -> float:
    """Mean of `perplexities`; NaN without a validation."""
    values = perplexities(side, arm)
    return fmean(values) if values else math.nan


def perplexities(side: Side, arm: str) -> list[float]:
    """Perplexity of the newest validation, without smoothing, for each seed."""
    return [math.exp(min(loss, 700)) for loss in _newest_validations(side, arm, 1)]


def rightly(side: Side, arm: str) -> float:
    """Mean of `shares_of_right`; NaN without a validation."""
    values = shares_of_right(side, arm)
    return fmean(values) if values else math.nan


def shares_of_right(side: Side, arm: str) -> list[float]:
    """Share of right tokens in the newest validation, for each seed."""
    return _newest_validations(side, arm, 2)


def _newest_validations(side: Side, arm: str, column: int) -> list[float]:
    return [course.validations[-1][column] for course in side.of(arm) if course.validations]


# Arms, their common setup, and their courses.

VALIDATIONS = 8  # over a training
END = 0.1  # share of the steps whose mean loss is the final one


@dataclass(frozen=True)
class Arm:
    """One of the compared trainings: its differences in options of the network and settings.

    change: applied to the new network, where no option does it. optimizer: in AdamW's place. ordinary: whether its
    config says all of its network, so that a checkpoint can hold it.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    change: Callable[[Network], None] | None = None
    optimizer: Callable[[Network], torch.optim.Optimizer] | None = None
    ordinary: bool = True


@dataclass(frozen=True)
class Setup:
    """Common setup of all arms. depth: layers of each stack. lengths: of the task's sources."""

    kind: Kind
    task: str
    lengths: tuple[int, ...]
    steps: int
    d_model: int
    depth: int
    rate: float
    warmup: int
    seeds: tuple[int, ...] = (1,)
    batch_tokens: int = 600
    n_heads: int = 4
    max_length: int = 64

    def options(self, arm: Arm) -> dict[str, Any]:
        """Options of an arm's network; dropout is off, so that no chance makes the arms differ."""
        return {
            "d_model": self.d_model,
            "n_heads": self.n_heads,
            "n_encoder_layers": self.depth,
            "n_decoder_layers": self.depth,
            "d_ff": 4 * self.d_model,
            "dropout": 0.0,
            "max_length": self.max_length,
            "norm_placement": "pre",
            **arm.options,
        }

    def settings(self, arm: Arm, seed: int) -> TrainingSettings:
        """Settings of an arm's training."""
        usual: dict[str, Any] = {
            "steps": self.steps,
            "batch_tokens": self.batch_tokens,
            "rate": self.rate,
            "warmup": self.warmup,
            "label_smoothing": 0.0,
            "weight_decay": 0.0,
            "bpe_dropout": 0.0,
            "average": 0.0,
            "validate_every": max(1, self.steps // VALIDATIONS),
            "seed": seed,
        }
        return TrainingSettings(**(usual | dict(arm.settings)))


@dataclass(frozen=True)
class Course:
    """Course of one arm with one seed so far.

    losses: nats per token of each step, with the arm's label smoothing. validations: step, nats per token without
    smoothing, and share of right tokens of each. first, latest: gradient norms of each layer at these steps. seconds:
    median of the latest steps. diverged: step at which the loss or a gradient was not finite.
    """

    arm: str
    seed: int
    parameters: int
    losses: tuple[float, ...] = ()
    rates: tuple[float, ...] = ()
    validations: tuple[tuple[int, float, float], ...] = ()
    first: Mapping[str, float] = field(default_factory=dict)
    latest: Mapping[str, float] = field(default_factory=dict)
    seconds: float = math.nan
    diverged: int | None = None

    @property
    def final(self) -> float:
        """Mean loss of the last steps, in nats; NaN for a course that diverged or has not begun."""
        last = self.losses[-max(1, round(END * len(self.losses))) :]
        return math.nan if self.diverged or not last else sum(last) / len(last)


@dataclass(frozen=True)
class ExactMatch:
    """Test on texts of one length: share of answers right to the character, and share of right tokens."""

    arm: str
    seed: int
    length: int
    exact: float
    tokens: float


@dataclass(frozen=True)
class Side:
    """Courses of all arms. chance: loss of a model that knows the frequency of each token, and nothing else.

    tests: on longer texts, once the trainings have ended; due: their number in the end. trained: longest length that is
    trained on. models: of the arms with each seed, after the last step, named as their arms.
    """

    courses: tuple[Course, ...]
    steps: int
    chance: float
    tests: tuple[ExactMatch, ...] = ()
    due: int = 0
    trained: int = 0
    models: tuple[TextModel, ...] = ()

    @property
    def done(self) -> bool:
        """True once all trainings and tests have ended."""
        trained = all(len(course.losses) == self.steps or course.diverged for course in self.courses)
        return trained and len(self.tests) == self.due

    @property
    def step(self) -> int:
        """Number of steps of the longest course so far."""
        return max(len(course.losses) for course in self.courses)

    def of(self, arm: str) -> tuple[Course, ...]:
        """Courses of an arm, one for each seed."""
        return tuple(course for course in self.courses if course.arm == arm)
