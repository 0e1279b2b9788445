"""Accuracy against the number of training pairs: a Transformer beside a recurrent network of as many weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from operator import or_
from statistics import fmean

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from model.data.datasets import AnswerDataset
from model.data.sources import SEPARATOR
from model.data.tasks import find_task, task_pairs
from model.experiments.engines.training_comparisons import lengths_of
from model.experiments.experiment import (
    Curve,
    Curves,
    Experiment,
    Figure,
    Group,
    Outcome,
    Parameter,
    Request,
    Table,
    over_seeds,
)
from model.experiments.rule import Quantity, Rule, Verdict, clearly_above, clearly_below
from model.experiments.runner import Report
from model.message import Message, say
from model.network.config import Kind, TransformerConfig
from model.network.lm_head import output
from model.network.recurrent import GRU
from model.network.transformer import Network, build
from model.runtime.device import choose_device
from model.runtime.random import seeded
from model.text.tokenizer_training import train_text_characters
from model.training.settings import TrainingSettings
from model.training.trainer import Trainer

LONGEST = 6  # characters of a source, where the task has such
SIZES = 3  # numbers of training pairs, each four times the one before
TESTED = 200  # pairs that no training sees
VALIDATIONS = 4  # of a training; the best one counts, so that learning by heart at its end does not
REPORTED = 10  # steps between two reports
MARGIN = 0.03  # mean lead in accuracy that counts
LEVEL = 0.75  # accuracy for which the pairs that are needed are told
NAMES: Mapping[str, str] = {"transformer": "Transformer", "recurrent": say("recurrent network (GRU)")}


class RecurrentNetwork(Network):
    """Language model: an embedding, one GRU layer of d_model channels, and the logits of its states."""

    kind: Kind = "decoder-only"

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.target_vocabulary, config.d_model)
        self.recurrent = GRU(config.d_model, config.d_model)
        self.output = output(config)

    def states(  # type: ignore[override]
        self, ids: Int[Tensor, "batch length"], real: Bool[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "batch length d_model"]:
        """States after each token; padding comes behind the text, so that none of them reads it."""
        states: Tensor = self.recurrent(self.embedding(ids))
        return states


def transformer(vocabulary: int, width: int, depth: int, length: int) -> Network:
    """Decoder-only Transformer that is trained here."""
    return build(
        TransformerConfig.one_stack(
            *("decoder-only", vocabulary, depth),
            d_model=width,
            n_heads=4,
            d_ff=4 * width,
            dropout=0.0,
            max_length=length,
            norm_placement="pre",
        )
    )


def recurrent(vocabulary: int, width: int, depth: int, length: int) -> Network:
    """Recurrent network with about as many weights as the Transformer of these sizes."""
    wanted = transformer(vocabulary, width, depth, length).parameter_count()
    channels = min(range(2, 16 * width, 2), key=lambda each: abs(weights(vocabulary, each) - wanted))
    config = TransformerConfig.one_stack(
        "decoder-only", vocabulary, 1, d_model=channels, n_heads=1, max_length=length, position="none"
    )
    return RecurrentNetwork(config)


def weights(vocabulary: int, width: int) -> int:
    """Number of weights of a recurrent network: embedding, two matrices of three gates with biases, and logits."""
    return 2 * vocabulary * width + 6 * width * (width + 1)


Make = Callable[[int, int, int, int], Network]
NETWORKS: Mapping[str, Make] = {"transformer": transformer, "recurrent": recurrent}


@dataclass(frozen=True)
class Accuracies:
    """Accuracies so far. accuracies: by task, network, number of pairs and seed: share of right tokens in pairs that
    were not trained on. parameters: weights of each network, on the first task.
    """

    tasks: Sequence[str]
    sizes: Sequence[int]
    seeds: Sequence[int]
    accuracies: Mapping[tuple[str, str, int, int], float]
    parameters: Mapping[str, int]

    def of(self, task: str, network: str, size: int) -> list[float]:
        """Accuracies of the seeds that are done."""
        values = (self.accuracies.get((task, network, size, seed)) for seed in self.seeds)
        return [accuracy for accuracy in values if accuracy is not None]

    def leads(self, task: str) -> list[float]:
        """Accuracy of the recurrent network less that of the Transformer for each seed, mean over the sizes that both
        have learnt.
        """
        means = []
        for seed in self.seeds:
            pairs = [[self.accuracies.get((task, name, size, seed)) for name in NAMES] for size in self.sizes]
            both = [theirs - ours for ours, theirs in pairs if ours is not None and theirs is not None]
            if both:
                means.append(fmean(both))
        return means


def train(request: Request, networks: Mapping[str, Make] = NETWORKS) -> Iterator[Report[Accuracies]]:
    """Train every network with every seed on ever more pairs of each task, as many steps with all of them.

    Raises:
        ValueError: there is no such task, or it has fewer pairs.
    """
    tasks = [find_task(name.strip()).name for name in request.values["tasks"].split(",")]
    sizes = [request.values["largest"] // 4**power for power in reversed(range(SIZES))]
    results, steps = Accuracies(tasks, sizes, request.seeds, {}, {}), request.values["steps"]
    runs = [(task, name, size, seed) for task in tasks for seed in request.seeds for size in sizes for name in networks]
    for number, (task, name, size, seed) in enumerate(runs):
        rate = request.values["rate" if name == "transformer" else "recurrent_rate"]
        trainer = trainer_of(task, networks[name], size, seed, rate, request)
        results = replace(results, parameters={name: trainer.network.parameter_count(), **results.parameters})
        accuracies = [0.0]
        for step in trainer.steps():
            accuracies += [] if step.accuracy is None else [step.accuracy]
            if step.step % REPORTED == 0 and step.step < steps:
                yield Report((number + step.step / steps) / len(runs), results)
        results = replace(results, accuracies={**results.accuracies, (task, name, size, seed): max(accuracies)})
        yield Report((number + 1) / len(runs), results)


def trainer_of(task: str, make: Make, size: int, seed: int, rate: float, request: Request) -> Trainer:
    """Trainer of a new network on `size` pairs; a seed has the same pairs, tests and batches for every network."""
    lengths, steps = lengths_of(task, LONGEST), request.values["steps"]
    pairs = task_pairs(task, request.values["largest"] + TESTED, lengths, seed)
    tokenizer = train_text_characters([f"{pair.source}{SEPARATOR}{pair.target}" for pair in pairs])
    longest = max(len(pair.source) + len(pair.target) for pair in pairs) + 3
    with seeded(seed, device := choose_device()):
        network = make(len(tokenizer), request.values["width"], request.values["depth"], longest).to(device)
    train, test = (
        AnswerDataset(part, tokenizer, longest, SEPARATOR) for part in (pairs[TESTED : TESTED + size], pairs[:TESTED])
    )
    settings = TrainingSettings(
        steps=steps,
        batch_tokens=600,
        rate=rate,
        warmup=min(20, steps // 4),
        label_smoothing=0.0,
        weight_decay=0.0,
        bpe_dropout=0.0,
        average=0.0,
        validate_every=max(1, steps // VALIDATIONS),
        seed=seed,
    )
    return Trainer(network, train, test, settings)


def pairs_needed(sizes: Sequence[int], accuracies: Sequence[float]) -> float | None:
    """Number of pairs for an accuracy, between two sizes on a logarithmic axis; None: not even the most are enough.

    Where the fewest are enough, it is their number.
    """
    points = list(zip(sizes, accuracies, strict=True))
    if points and points[0][1] >= LEVEL:
        return float(points[0][0])
    for (fewer, below), (more, beyond) in pairwise(points):
        if below < LEVEL <= beyond:
            return float(fewer * (more / fewer) ** ((LEVEL - below) / (beyond - below)))
    return None


def judge(results: Accuracies) -> tuple[Rule | None, Message]:
    """Rule: at equal pairs, a network that needs more of them is less accurate, in the mean over the sizes, beside
    the spread of the seeds.
    """
    leads = {task: results.leads(task) for task in results.tasks}
    leads = {task: each for task, each in leads.items() if each}
    if not leads:
        return None, say("nothing is measured yet")
    ahead = {
        task: Quantity(say("lead of the recurrent network, {task}", task=task), tuple(leads[task])) for task in leads
    }
    needs_more = {task: clearly_above(each, MARGIN) for task, each in ahead.items()}
    rule = Rule([reduce(or_, needs_more.values())], wants=list(needs_more.values()))
    more = [task for task, condition in needs_more.items() if condition.met]
    less = [task for task, each in ahead.items() if clearly_below(each, -MARGIN).met]
    lowest, highest = (end(leads, key=lambda task: fmean(leads[task])) for end in (min, max))
    numbers = say(
        "at equal pairs the recurrent network is ahead by {low} in accuracy ({lowest}) to {high} ({highest})",
        low=fmean(leads[lowest]),
        lowest=lowest,
        high=fmean(leads[highest]),
        highest=highest,
    )
    tasks = ", ".join(more or less)
    nowhere = say("{numbers}: the Transformer needs more data on no task", numbers=numbers)
    if less:
        nowhere = say(
            "{numbers}: the Transformer needs more data on no task, and less on: {tasks}", numbers=numbers, tasks=tasks
        )
    return rule, {
        Verdict.HOLDS: say("{numbers}: the Transformer needs more data on every task", numbers=numbers),
        Verdict.IN_PART: say(
            "{numbers}: the Transformer needs more data on some tasks only: {tasks}", numbers=numbers, tasks=tasks
        ),
        Verdict.OPEN: say("{numbers}: the seeds do not decide", numbers=numbers),
        Verdict.WRONG: nowhere,
    }[rule.verdict]


def outcome(results: Accuracies) -> Outcome:
    """Verdict, and the accuracy over the number of pairs for each task."""
    rule, reason = judge(results)
    quantities = [
        Quantity(say("lead of the recurrent network, {task}", task=task), tuple(results.leads(task)))
        for task in results.tasks
        if results.leads(task)
    ]
    quantities += [
        Quantity(say("weights: {network}", network=NAMES[name]), (float(count),))
        for name, count in results.parameters.items()
    ]
    figures: list[Figure] = [
        Curves(
            say("Accuracy on new pairs, {task}", task=task),
            say("training pairs"),
            say("share of right tokens"),
            [curve(results, task, name) for name in NAMES],
            log_x=True,
        )
        for task in results.tasks
    ]
    return Outcome(rule, reason, quantities, [*figures, needed(results)])


def curve(results: Accuracies, task: str, name: str) -> Curve:
    """Mean accuracy of a network over the number of pairs, with the range over the seeds."""
    sizes = [size for size in results.sizes if results.of(task, name, size)]
    return over_seeds(NAMES[name], sizes, [results.of(task, name, size) for size in sizes])


def needed(results: Accuracies) -> Table:
    """Pairs that each network needs for an accuracy, by the mean over the seeds."""
    rows: list[list[str | float | int]] = []
    for task in results.tasks:
        row: list[str | float | int] = [task]
        for name in NAMES:
            drawn = curve(results, task, name)
            pairs = pairs_needed([int(size) for size in drawn.xs], [float(value) for value in drawn.ys])
            row.append(f"> {max(drawn.xs, default=0):,}" if pairs is None else round(pairs))
        rows.append(row)
    title = say("Training pairs for an accuracy of {level} %", level=round(100 * LEVEL))
    return Table(title, (say("task"), *NAMES.values()), rows)


def run(request: Request) -> Iterator[Report[Outcome]]:
    for report in train(request):
        yield Report(report.share, outcome(report.result))


EXPERIMENTS = (
    Experiment(
        name="data-needed",
        row=47,
        group=Group.TRAINING,
        statement=say("Attention assumes less of its input than recurrence does, and so needs more data."),
        truth=say(
            "It assumes less: no order and no distance. Whether that costs data depends on the task: where an answer "
            "must reach back to a certain token, attention finds it in one step, and a recurrent state has to learn to "
            "carry it."
        ),
        run=run,
        parameters=(
            Parameter("tasks", say("tasks, with , between them"), "sort, addition"),
            Parameter("largest", say("largest training set"), 1600, 64, 100_000),
            Parameter("steps", say("training steps"), 200, 8, 5000),
            Parameter("width", say("d_model of the Transformer"), 32, 8, 256),
            Parameter("depth", say("layers of the Transformer"), 2, 1, 8),
            Parameter("rate", say("rate of the Transformer"), 4e-3, 1e-5, 0.1),
            Parameter("recurrent_rate", say("rate of the recurrent net"), 1e-2, 1e-5, 0.1),
        ),
        seeded=True,
        seconds=40.0,
        code=(RecurrentNetwork, trainer_of),
        source="Vaswani et al., 2017; Cho et al., 2014",
    ),
)
