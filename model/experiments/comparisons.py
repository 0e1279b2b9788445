"""Which trainings are set side by side for each claim, and the settings to begin with: small, and yet to be seen."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from model.data.datasets import unshuffled
from model.data.pairs import Pair
from model.data.sources import SEPARATOR, Data, material_of
from model.data.tasks import exact_match, find_task
from model.experiments.runner import Report
from model.experiments.side_by_side import Answered, Arm, Learner, Setup, Side, learners, material, rounds, train
from model.network.config import Kind
from model.network.layers import PreNorm
from model.network.transformer import Network
from model.training.losses import loss_and_hits

SHORT = 8  # letters: what is trained on, where the task has such lengths
SGD_RATE = 25  # times the rate of Adam, whose steps are of the rate's size whatever the gradient's
MOMENTUM = 0.9


def as_torch_begins(network: Network) -> None:
    """Matrices and biases as `torch.nn.Linear` draws them: uniform up to ±1/√(inputs)."""
    for module in network.modules():
        if isinstance(module, nn.Linear) and module is not network.output.logits:
            module.reset_parameters()


def plain_descent(network: Network) -> torch.optim.Optimizer:
    """Stochastic gradient descent with momentum."""
    return torch.optim.SGD(network.parameters(), lr=1.0, momentum=MOMENTUM)


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


# Trained on short texts, tested on longer ones: what a way of giving positions is worth beyond those it has seen.

SOURCES = 48  # of each length
AT_MOST = 14  # lengths that are tested
TRAINING = 0.85  # of the time, about


def tested_lengths(trained: Sequence[int], longest: int) -> list[int]:
    """From the shortest that is trained on to the longest that is asked for, evenly, with the last one trained on."""
    least, most = min(trained), max(trained)
    stride = max(1, -(-(longest - least) // (AT_MOST - 1)))
    return sorted({*range(most, least - 1, -stride), *range(most, longest + 1, stride)})


def room(setup: Setup, longest: int) -> int:
    """The max_length that texts of this length need, with all that stands around and between them."""
    return 2 * longest + 4 if setup.kind == "decoder-only" else longest + 2


def unseen(task: str, length: int, known: set[str], seed: int) -> list[Pair]:
    """Pairs of a length whose sources are not among the known ones: fewer than `SOURCES` where there are few."""
    chance, found = random.Random(f"{task} {length} {seed}"), dict[str, str]()
    for _ in range(20 * SOURCES):
        source, target = find_task(task).draw(length, chance)
        if source not in known:
            found[source] = target
        if len(found) == SOURCES:
            break
    return [Pair(source, target) for source, target in found.items()]


def train_short_test_long(arms: Sequence[Arm], setup: Setup, longest: int) -> Iterator[Report[Side]]:
    """Train, then let each arm write the answers to sources of every length; a report after each of them.

    Raises:
        ValueError: the task has no sources of a length, or the longest is not above those trained on.
    """
    if longest <= max(setup.lengths):
        raise ValueError(f"the longest tested ({longest}) must be above the longest trained on ({max(setup.lengths)})")
    setup = replace(setup, max_length=room(setup, longest))
    made, chance = learners(arms, setup)
    lengths = tested_lengths(setup.lengths, longest)
    due = len(lengths) * len(made)
    side: Side | None = None
    for report in rounds(made, setup, chance):
        side = replace(report.result, due=due)
        yield Report(report.share * TRAINING, side)
    assert side is not None
    learnt = material(setup)
    known = {pair.source for pair in learnt.pairs["train"]}  # type: ignore[attr-defined]  # pairs of a task
    for length in lengths:
        pairs = unseen(setup.task, length, known, 2)
        for each in made:
            side = replace(side, tests=(*side.tests, answered_at(each, setup, pairs, length)))
            yield Report(TRAINING + (1 - TRAINING) * len(side.tests) / due, side)


@torch.inference_mode()
def answered_at(learner: Learner, setup: Setup, pairs: Sequence[Pair], length: int) -> Answered:
    """How many answers are right to the character; of the tokens, how many, each after the right ones before it."""
    if not pairs or learner.course.diverged:
        return Answered(learner.arm.name, learner.course.seed, length, float("nan"), float("nan"))
    model = learner.model
    model.network.eval()
    alone = setup.kind == "decoder-only"
    sources = [pair.source for pair in pairs]
    written = model.generate_batch(
        [source + (SEPARATOR if alone else "") for source in sources], length=setup.max_length if alone else None
    )
    exact = exact_match(setup.task, sources, [each.text for each in written])
    data = Data("tested", tuple(pairs), task=setup.task, held=0)
    given = material_of(setup.kind, data, "characters", 0, (model.source_tokenizer, model.target_tokenizer))
    given.pairs["train"] = list(pairs)  # type: ignore[attr-defined]  # none of them is kept for anything else
    hits = count = 0
    for batch in unshuffled(given.corpora(setup.max_length, 0.0)[0], 2000):
        hits, count = hits + loss_and_hits(model.network, batch.to(model.device)).tokens, count + batch.predicted
    return Answered(learner.arm.name, learner.course.seed, length, exact, hits / count)


# The pre-norm block as a tutorial writes it, with the norm on the short cut: to be measured, not to be used.


class NormOnTheShortCut(PreNorm):
    """Sublayer(x) + LayerNorm(x): the sublayer reads the bare stream, and the stream is normalised at every block.

    Right is x + Sublayer(LayerNorm(x)) (Xiong et al., 2020).
    """

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], read: Tensor | None = None) -> Tensor:
        return self.residual(self.norm(x), sublayer(x if read is None else read))


def put_norm_on_the_short_cut(network: Network) -> None:
    """Every pre-norm block of a network becomes the wrong one, with the same weights."""
    found = [(name, block) for name, block in network.named_modules() if type(block) is PreNorm]
    for name, block in found:
        wrong = NormOnTheShortCut(network.config)
        wrong.norm, wrong.residual = block.norm, block.residual
        path, _, own = name.rpartition(".")
        setattr(network.get_submodule(path), own, wrong.train(block.training))
