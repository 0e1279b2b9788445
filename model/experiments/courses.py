"""Trainings side by side: the arms, what they have in common, and how each has fared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from model.network.config import Kind
from model.network.transformer import Network
from model.training.settings import TrainingSettings

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
