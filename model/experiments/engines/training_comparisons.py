"""Comparisons of trainings, one for each claim, with small default settings with which the effect still shows."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from model.data.datasets import unshuffled
from model.data.pairs import Pair
from model.data.sources import SEPARATOR, Data, material_of
from model.data.tasks import exact_match, find_task
from model.experiments.engines.ab_training import Arm, ExactMatch, Learner, Setup, Side, learners, material, rounds
from model.experiments.runner import Report
from model.message import InputError
from model.network.config import Kind
from model.network.layers import PreNorm
from model.network.transformer import Network
from model.training.losses import loss_and_hits

SHORT = 8  # letters of the longest training source, where the task has such lengths
SGD_RATE = 25  # times the rate of Adam, whose steps are of the rate's size, whatever the gradient's
MOMENTUM = 0.9


def as_torch_begins(network: Network) -> None:
    """Draw matrices and biases anew as `torch.nn.Linear` does: uniform up to ±1/√(inputs)."""
    for module in network.modules():
        if isinstance(module, nn.Linear) and module is not network.output.logits:
            module.reset_parameters()


def plain_descent(network: Network) -> torch.optim.Optimizer:
    """Optimizer with stochastic gradient descent and momentum."""
    return torch.optim.SGD(network.parameters(), lr=1.0, momentum=MOMENTUM)


@dataclass(frozen=True)
class Comparison:
    """Arms of a comparison and its default settings. longest: length of the longest test, 0 without tests."""

    arms: Callable[[Setup], Sequence[Arm]]
    task: str = "reverse"
    steps: int = 200
    d_model: int = 32
    depth: int = 2
    rate: float = 4e-3
    warmup: int = 20
    longest: int = 0


def _norms(setup: Setup) -> Sequence[Arm]:
    return (
        Arm("post", {"norm_placement": "post"}),
        Arm("pre"),
        Arm("wrong", change=put_norm_on_the_short_cut, ordinary=False),
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
    kinds = ("sinusoidal", "learned", "rotary", "alibi", "none")
    return tuple(Arm(position, {"position": position}) for position in kinds)


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
    """Lengths of the task up to `longest`, or its shortest one."""
    usual = find_task(task).lengths
    return tuple(length for length in usual if 2 < length <= longest) or usual[:1]


def setup_of(name: str, kind: Kind, **chosen: Any) -> Setup:
    """Setup of a comparison: its defaults, with chosen settings on top; encoder-only models get a decoder too."""
    defaults = COMPARISONS[name]
    fields = ("task", "steps", "d_model", "depth", "rate", "warmup")
    options = {field: getattr(defaults, field) for field in fields} | chosen
    options = {"lengths": lengths_of(options["task"])} | options
    return Setup(kind="encoder-decoder" if kind == "encoder-only" else kind, **options)


# Training on short texts, test on longer ones: the quality of position encodings beyond the trained lengths.

SOURCES = 48  # of each length
AT_MOST = 14  # tested lengths
TRAINING = 0.85  # share of the time, about


def tested_lengths(trained: Sequence[int], longest: int) -> list[int]:
    """Lengths, evenly spaced, from the shortest trained one to `longest`, with the longest trained one among them."""
    least, most = min(trained), max(trained)
    stride = max(1, -(-(longest - least) // (AT_MOST - 1)))
    return sorted({*range(most, least - 1, -stride), *range(most, longest + 1, stride)})


def room(setup: Setup, longest: int) -> int:
    """max_length that texts of this length need, with the special tokens around and between them."""
    return 2 * longest + 4 if setup.kind == "decoder-only" else longest + 2


def unseen(task: str, length: int, known: set[str], seed: int) -> list[Pair]:
    """Pairs of a length with other sources than the known ones: `SOURCES`, or fewer where there are few."""
    chance, targets = random.Random(f"{task} {length} {seed}"), dict[str, str]()
    for _ in range(20 * SOURCES):
        source, target = find_task(task).draw(length, chance)
        if source not in known:
            targets[source] = target
        if len(targets) == SOURCES:
            break
    return [Pair(source, target) for source, target in targets.items()]


def require_longer(setup: Setup, longest: int) -> None:
    """Check that a test goes beyond the lengths trained on.

    Raises:
        ValueError: it does not.
    """
    if longest <= max(setup.lengths):
        raise InputError(
            "the longest tested ({longest}) must be above the longest trained on ({lengths})",
            longest=longest,
            lengths=max(setup.lengths),
        )


def train_short_test_long(arms: Sequence[Arm], setup: Setup, longest: int) -> Iterator[Report[Side]]:
    """Train, then let each arm answer sources of every length; a report after each training step and test.

    Raises:
        ValueError: the task has no sources of a length, or the longest is not above those trained on.
    """
    require_longer(setup, longest)
    setup = replace(setup, max_length=room(setup, longest))
    trained, chance = learners(arms, setup)
    lengths = tested_lengths(setup.lengths, longest)
    due = len(lengths) * len(trained)
    side: Side | None = None
    for report in rounds(trained, setup, chance):
        side = replace(report.result, due=due)
        yield Report(report.share * TRAINING, side)
    assert side is not None
    known = {pair.source for pair in material(setup).pairs["train"]}  # type: ignore[attr-defined]  # pairs of a task
    for length in lengths:
        pairs = unseen(setup.task, length, known, 2)
        for learner in trained:
            side = replace(side, tests=(*side.tests, answered_at(learner, setup, pairs, length)))
            yield Report(TRAINING + (1 - TRAINING) * len(side.tests) / due, side)


@torch.inference_mode()
def answered_at(learner: Learner, setup: Setup, pairs: Sequence[Pair], length: int) -> ExactMatch:
    """Share of answers that are right to the character, and share of right tokens, each after the right ones before."""
    if not pairs or learner.course.diverged:
        return ExactMatch(learner.arm.name, learner.course.seed, length, float("nan"), float("nan"))
    model = learner.model
    model.network.eval()
    alone = setup.kind == "decoder-only"
    sources = [pair.source for pair in pairs]
    written = model.generate_batch(
        [source + (SEPARATOR if alone else "") for source in sources], length=setup.max_length if alone else None
    )
    exact = exact_match(setup.task, sources, [generation.text for generation in written])
    data = Data("tested", tuple(pairs), task=setup.task, validation_percent=0)
    tested = material_of(setup.kind, data, "characters", 0, (model.source_tokenizer, model.target_tokenizer))
    tested.pairs["train"] = list(pairs)  # type: ignore[attr-defined]  # also those that `material_of` splits off
    hits = count = 0
    for batch in unshuffled(tested.corpora(setup.max_length, 0.0)[0], 2000):
        hits, count = hits + loss_and_hits(model.network, batch.to(model.device)).tokens, count + batch.predicted
    return ExactMatch(learner.arm.name, learner.course.seed, length, exact, hits / count)


# The pre-norm block as a tutorial has it, with the norm on the short cut: to be measured, not to be used.


class NormOnTheShortCut(PreNorm):
    """Sublayer(x) + LayerNorm(x): the sublayer reads the bare stream, and the stream is normalised at every block.

    Right is x + Sublayer(LayerNorm(x)) (Xiong et al., 2020).
    """

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], read: Tensor | None = None) -> Tensor:
        return self.residual(self.norm(x), sublayer(x if read is None else read))


def put_norm_on_the_short_cut(network: Network) -> None:
    """Replace every pre-norm block of a network by the wrong one, with the same weights."""
    blocks = [(name, block) for name, block in network.named_modules() if type(block) is PreNorm]
    for name, block in blocks:
        wrong = NormOnTheShortCut(network.config)
        wrong.norm, wrong.residual = block.norm, block.residual
        path, _, attribute = name.rpartition(".")
        setattr(network.get_submodule(path), attribute, wrong.train(block.training))
