"""Which trainings are set side by side for each claim, and the settings to begin with: small, and yet to be seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from model.data.tasks import find_task
from model.experiments.courses import Arm, Setup, Side
from model.experiments.lengths import train_short_test_long
from model.experiments.running import Report
from model.experiments.trainings import train
from model.experiments.wrong_norm import put_norm_on_the_short_cut
from model.network.config import Kind
from model.network.transformer import Network

SHORT = 8  # letters: what is trained on, where the task has such lengths
SGD_RATE = 25  # times the rate of Adam, whose steps are of the rate's size whatever the gradient's
MOMENTUM = 0.9


def as_torch_begins(model: Network) -> None:
    """Matrices and biases as `torch.nn.Linear` draws them: uniform up to ±1/√(inputs)."""
    for module in model.modules():
        if isinstance(module, nn.Linear) and module is not model.output.logits:
            module.reset_parameters()


def plain_descent(model: Network) -> torch.optim.Optimizer:
    """Stochastic gradient descent with momentum."""
    return torch.optim.SGD(model.parameters(), lr=1.0, momentum=MOMENTUM)


@dataclass(frozen=True)
class Comparison:
    """The arms that speak for a claim, and what is usual for it. kinds: where it can be tried."""

    arms: Callable[[Setup], Sequence[Arm]]
    task: str = "reverse"
    steps: int = 200
    d_model: int = 32
    depth: int = 2
    rate: float = 4e-3
    warmup: int = 20
    longest: int = 0  # that is tested, if that is tested
    fields: Mapping[str, Any] = field(default_factory=dict)


def _norms(setup: Setup) -> Sequence[Arm]:
    return (
        Arm("post", {"norm_placement": "post"}),
        Arm("pre"),
        Arm("wrong", change=put_norm_on_the_short_cut),
    )


def _depth(setup: Setup) -> Sequence[Arm]:
    cold = {"warmup": 0}
    return (
        Arm("post", {"norm_placement": "post"}),
        Arm("post cold", {"norm_placement": "post"}, cold),
        Arm("pre"),
        Arm("pre cold", {}, cold),
    )


def _residual(setup: Setup) -> Sequence[Arm]:
    return (Arm("on"), Arm("off", {"residual": False}))


def _tying(setup: Setup) -> Sequence[Arm]:
    """All three matrices can only be one where both sides have the same alphabet."""
    every = (Arm("all", {"tied_embeddings": "all"}),) if setup.kind == "encoder-decoder" else ()
    one = find_task(setup.task).one_alphabet
    return (Arm("untied"), Arm("output", {"tied_embeddings": "output"}), *(every if one else ()))


def _heads(setup: Setup) -> Sequence[Arm]:
    return (Arm("split"), Arm("full", {"heads": "full"}))


def _positions(setup: Setup) -> Sequence[Arm]:
    return tuple(Arm(each, {"position": each}) for each in ("sinusoidal", "learned", "rotary", "alibi", "none"))


def _smoothing(setup: Setup) -> Sequence[Arm]:
    return (Arm("sharp"), Arm("smooth", settings={"label_smoothing": 0.1}))


def _recipe(setup: Setup) -> Sequence[Arm]:
    return (
        Arm("whole"),
        Arm("no warm-up", settings={"warmup": 0}),
        Arm("no Xavier", change=as_torch_begins),
        Arm("no clipping", settings={"clip": math.inf}),
        Arm("no Adam", settings={"rate": SGD_RATE * setup.rate}, optimizer=plain_descent),
    )


COMPARISONS = {
    "norms": Comparison(_norms, task="copy", steps=150, depth=4),
    "depth": Comparison(_depth, task="copy", steps=120, depth=6, warmup=40),
    "residual": Comparison(_residual, task="copy", depth=4),
    "tying": Comparison(_tying),
    "heads": Comparison(_heads),
    "positions": Comparison(_positions, task="copy", steps=300, longest=20),
    "smoothing": Comparison(_smoothing),
    "recipe": Comparison(_recipe),
}


def lengths_of(task: str, longest: int = SHORT) -> tuple[int, ...]:
    """The task's lengths up to `longest`, or the shortest that it has."""
    usual = find_task(task).lengths
    return tuple(length for length in usual if 2 < length <= longest) or usual[:1]


def setup_of(name: str, kind: Kind, **chosen: Any) -> Setup:
    """The setup of a comparison with what is chosen on top; models that only read take part as two stacks."""
    usual = COMPARISONS[name]
    given = {part: getattr(usual, part) for part in ("task", "steps", "d_model", "depth", "rate", "warmup")} | chosen
    given = {"lengths": lengths_of(given["task"])} | given
    return Setup(kind="encoder-decoder" if kind == "encoder-only" else kind, **given)


def begin(name: str, setup: Setup, longest: int = 0) -> Iterator[Report[Side]]:
    """The trainings of a comparison, and its tests on longer texts if there are any."""
    arms = COMPARISONS[name].arms(setup)
    return train_short_test_long(arms, setup, longest) if longest else train(arms, setup)
