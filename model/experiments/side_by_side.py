"""Trainings side by side: a few arms that differ in one thing learn from the same batches, a step of each in turn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Any

import torch

from model.data.datasets import IGNORED, Batch, Dataset
from model.data.sources import Data, TrainingData, material_of, new_config
from model.data.tasks import find_task, task_pairs
from model.experiments.runner import Report
from model.inference.text_model import TextModel
from model.network.config import Kind
from model.network.transformer import Network
from model.runtime.random import seeded
from model.training.demonstration import fresh
from model.training.settings import TrainingSettings
from model.training.trainer import Trainer

PAIRS = 6000  # of the task, where it has so many
HELD = 5  # percent of them that no arm is trained on


class Learner:
    """One arm with one seed: its trainer, and how it has fared."""

    def __init__(
        self, arm: Arm, setup: Setup, material: TrainingData, corpora: tuple[Dataset, Dataset], seed: int
    ) -> None:
        self.arm = arm
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


def material(setup: Setup, count: int | None = None) -> TrainingData:
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


def frequencies_alone(corpus: Dataset) -> float:
    """−Σ p log p over the tokens to predict: what a model can reach that sees no context."""
    batch: Batch = corpus.batch(range(len(corpus)), None)
    counts = Counter(batch.labels[batch.labels != IGNORED].tolist())
    total = sum(counts.values())
    return -sum(count / total * math.log(count / total) for count in counts.values())


# Numbers that trainings side by side are judged by.

CLEAR = 0.9  # a loss below this times another is clearly lower, if that holds with every seed
UNLEARNT = 0.9  # of the loss of frequencies alone: what stays above has learnt next to nothing


def ends(courses: Sequence[Course]) -> list[float]:
    """Their losses at the end; without bound where one diverged."""
    return [math.inf if math.isnan(course.final) else course.final for course in courses]


def clearly_below(these: Sequence[float], those: Sequence[float]) -> bool:
    return max(these) < min(those) and fmean(these) < CLEAR * fmean(those)


def growth(side: Side, arm: str, gradients: str = "first") -> float:
    """By how much a gradient at the input end of the last stack exceeds that at its output end, over all seeds."""
    ratios = []
    for course in side.of(arm):
        norms = last_stack(getattr(course, gradients))
        if len(norms) > 1 and norms[-1] > 0:
            ratios.append(norms[0] / norms[-1])
    return fmean(ratios) if ratios else math.nan


def last_stack(norms: Mapping[str, float]) -> list[float]:
    """The gradient norms of the layers next to the output, from the input on."""
    stack = "decoder" if any(name.startswith("decoder.layers.") for name in norms) else "encoder"
    return [norm for name, norm in norms.items() if name.startswith(f"{stack}.layers.")]


def learnt(side: Side, arm: str) -> bool:
    """More than how frequent each token is; not where a seed diverged."""
    return fmean(ends(side.of(arm))) < UNLEARNT * side.chance


def share_of_fall(side: Side, arm: str, other: str) -> float:
    """How far the loss has fallen below that of frequencies alone, as a share of how far the other arm's has."""
    fallen, whole = (side.chance - fmean(ends(side.of(each))) for each in (arm, other))
    return max(0.0, fallen / whole)


def perplexity(side: Side, arm: str) -> float:
    """exp of the newest loss without smoothing on what was kept for validation, over all seeds."""
    losses = [each.validations[-1][1] for each in side.of(arm) if each.validations]
    return math.exp(min(fmean(losses), 700)) if losses else math.nan


def rightly(side: Side, arm: str) -> float:
    """The share of tokens kept for validation that are predicted rightly, over all seeds."""
    shares = [each.validations[-1][2] for each in side.of(arm) if each.validations]
    return fmean(shares) if shares else math.nan


# Trainings side by side: the arms, what they have in common, and how each has fared.

VALIDATIONS = 8  # over a training
END = 0.1  # of the steps, over which the loss at the end is taken


@dataclass(frozen=True)
class Arm:
    """One of those compared: what is different of its config and its settings.

    change: what no option does, done to the new network. optimizer: in AdamW's place.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    change: Callable[[Network], None] | None = None
    optimizer: Callable[[Network], torch.optim.Optimizer] | None = None


@dataclass(frozen=True)
class Setup:
    """What all arms have in common. depth: layers of each stack. lengths: of the task's sources."""

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
        """Of the network; dropout is off, so that the arms differ in nothing that is drawn by chance."""
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
        usual: dict[str, Any] = {
            "steps": self.steps,
            "batch_tokens": self.batch_tokens,
            "rate": self.rate,
            "warmup": self.warmup,
            "label_smoothing": 0.0,
            "weight_decay": 0.0,
            "undo_merges": 0.0,
            "average": 0.0,
            "validate_every": max(1, self.steps // VALIDATIONS),
            "seed": seed,
        }
        return TrainingSettings(**(usual | dict(arm.settings)))


@dataclass(frozen=True)
class Course:
    """How one arm has fared with one seed so far.

    losses: nats per token of each step, as it was trained, with its label smoothing. validations: step, nats per token
    without smoothing, share of tokens predicted rightly. first, latest: gradient norms of each layer at these steps.
    diverged: the step at which loss or gradient was not finite.
    """

    arm: str
    seed: int
    parameters: int
    losses: tuple[float, ...] = ()
    rates: tuple[float, ...] = ()
    validations: tuple[tuple[int, float, float], ...] = ()
    first: Mapping[str, float] = field(default_factory=dict)
    latest: Mapping[str, float] = field(default_factory=dict)
    seconds: float = math.nan  # of a step, the middle one
    diverged: int | None = None

    @property
    def final(self) -> float:
        """The loss at the end, over some steps; not a number where it diverged or has not begun."""
        last = self.losses[-max(1, round(END * len(self.losses))) :]
        return math.nan if self.diverged or not last else sum(last) / len(last)


@dataclass(frozen=True)
class Answered:
    """Of texts of one length: the share answered to the character, and the share of tokens predicted rightly."""

    arm: str
    seed: int
    length: int
    exact: float
    tokens: float


@dataclass(frozen=True)
class Side:
    """All courses. chance: the loss of a model that knows how frequent each token is, and nothing else.

    tests: on longer texts, once the trainings have ended; due: how many there will be.
    """

    courses: tuple[Course, ...]
    steps: int
    chance: float
    tests: tuple[Answered, ...] = ()
    due: int = 0
    trained: int = 0  # the longest length that is trained on

    @property
    def done(self) -> bool:
        trained = all(len(each.losses) == self.steps or each.diverged for each in self.courses)
        return trained and len(self.tests) == self.due

    @property
    def step(self) -> int:
        return max(len(each.losses) for each in self.courses)

    def of(self, arm: str) -> tuple[Course, ...]:
        """The courses of an arm, one for each seed."""
        return tuple(each for each in self.courses if each.arm == arm)
