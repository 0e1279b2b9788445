"""Trained on short texts, tested on longer ones: what a way of giving positions is worth beyond those it has seen."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from model.data.datasets import unshuffled
from model.data.pairs import Pair
from model.data.sources import SEPARATOR, Data, material_of
from model.data.tasks import exact_match, find_task
from model.experiments.courses import Answered, Arm, Setup, Side
from model.experiments.running import Report
from model.experiments.trainings import Learner, learners, material, rounds
from model.training.losses import loss_and_hits

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
    lens = learner.lens
    lens.model.eval()
    alone = setup.kind == "decoder-only"
    sources = [pair.source for pair in pairs]
    written = lens.generate_batch(
        [source + (SEPARATOR if alone else "") for source in sources], length=setup.max_length if alone else None
    )
    exact = exact_match(setup.task, sources, [each.text for each in written])
    data = Data("tested", tuple(pairs), task=setup.task, held=0)
    given = material_of(setup.kind, data, "characters", 0, (lens.source_tokenizer, lens.target_tokenizer))
    given.pairs["train"] = list(pairs)  # type: ignore[attr-defined]  # none of them is kept for anything else
    hits = count = 0
    for batch in unshuffled(given.corpora(setup.max_length, 0.0)[0], 2000):
        hits, count = hits + loss_and_hits(lens.model, batch.to(lens.device)).tokens, count + batch.predicted
    return Answered(learner.arm.name, learner.course.seed, length, exact, hits / count)
