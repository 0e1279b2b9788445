"""Attention in recommendation: the candidate item queries the purchase history (Zhou et al., 2018, section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from model.experiments.experiment import Curve, Curves, Experiment, Group, Outcome, Parameter, Request, over_seeds
from model.experiments.rule import Quantity, Rule, Verdict, clearly_above, each_of
from model.experiments.runner import Report
from model.message import InputError, Message, say
from model.runtime.random import seeded

CPU = torch.device("cpu")
CUSTOMERS = 4000  # on whom accuracy is measured, and of whom the rule's limit is taken
BATCH = 256
HIDDEN = 16
RATE = 0.02
REPORTS = 10  # in a training
CLEAR = 0.02  # lead in accuracy that counts
MOST_ITEMS, MOST_FEATURES, LARGEST = 24, 8, 1000.0

History = Float[Tensor, "customer item feature"]
Candidate = Float[Tensor, "customer feature"]
Likeness = Callable[[History, Candidate], Float[Tensor, " customer"]]


# Items, as they are typed.


@dataclass(frozen=True)
class Item:
    """Item with its features; only their direction counts."""

    name: str
    features: tuple[float, ...]


def read_items(text: str) -> list[Item]:
    """Items of a text such as "novel: 1, 0.2, 0; lamp: 0, 1, 0.3".

    Raises:
        ValueError: an item has no name or no numbers, or not as many as the first, or there are too many items.
    """
    items = [read_item(part) for part in text.split(";") if part.strip()]
    if not 1 <= len(items) <= MOST_ITEMS:
        raise InputError(
            "{count} items are given; it must be 1 to {most_items}, with ; between them: novel: 1, 0; lamp: 0, 1",
            count=len(items),
            most_items=MOST_ITEMS,
        )
    for item in items[1:]:
        require_as_many(item, items[0])
    return items


def read_item(text: str) -> Item:
    """Item of a text such as "novel: 1, 0.2, 0".

    Raises:
        ValueError: it has no name, no numbers, too few, too many or too large ones, or only zeros.
    """
    name, colon, numbers = (part.strip() for part in text.partition(":"))
    if not colon or not name:
        raise InputError("item {text!r} must be a name, a colon and numbers, as novel: 1, 0.2, 0", text=text.strip())
    try:
        features = tuple(float(number) for number in numbers.split(","))
    except ValueError:
        raise InputError(
            "the features of {name!r} are {numbers!r}; they must be numbers, as 1, 0.2, 0", name=name, numbers=numbers
        ) from None
    if not 2 <= len(features) <= MOST_FEATURES or not all(abs(feature) <= LARGEST for feature in features):
        raise InputError(
            "{name!r} must have 2 to {most_features} features, each from -{largest:g} to {largest:g}",
            name=name,
            most_features=MOST_FEATURES,
            largest=LARGEST,
        )
    if not any(features):
        raise InputError("the features of {name!r} are all 0; one at least must be another number", name=name)
    return Item(name, features)


def require_as_many(item: Item, other: Item) -> None:
    """Check that two items have as many features.

    Raises:
        ValueError: they have not.
    """
    if len(item.features) != len(other.features):
        raise InputError(
            "{name!r} has {n_features} features and {name_2!r} {n_features_2}; all items must have as many",
            name=item.name,
            n_features=len(item.features),
            name_2=other.name,
            n_features_2=len(other.features),
        )


def directions(items: Sequence[Item]) -> Float[Tensor, "item feature"]:
    """Features of items, each divided by their length."""
    return F.normalize(torch.tensor([item.features for item in items]), dim=-1)


# Customers, made up by a rule.


def nearest(history: History, candidate: Candidate) -> Float[Tensor, " customer"]:
    """Likeness, as the cosine of their angle, of the candidate and the one bought item that is most like it."""
    return (history @ candidate[..., None])[..., 0].amax(dim=-1)


def resembling(history: History, candidate: Candidate) -> Float[Tensor, " customer"]:
    """Mean likeness of the candidate and all that was bought, which is that to their average."""
    return (history @ candidate[..., None])[..., 0].mean(dim=-1)


RULES: Mapping[str, Likeness] = {"nearest": nearest, "average": resembling}


@dataclass(frozen=True)
class Customers:
    """Customers with what they bought, a candidate, and whether they buy it."""

    history: History
    candidate: Candidate
    buys: Bool[Tensor, " customer"]


class Market:
    """Generator of customers. Items are random directions of the features; a customer buys what the rule finds more
    alike than the median, so that half do.
    """

    def __init__(self, items: int, features: int, rule: Likeness, seed: int) -> None:
        self.items, self.features, self.rule = items, features, rule
        self.draw = torch.Generator().manual_seed(seed)
        self.limit = float(rule(*self._drawn(CUSTOMERS)).median())

    def customers(self, count: int) -> Customers:
        """New customers."""
        history, candidate = self._drawn(count)
        return Customers(history, candidate, self.rule(history, candidate) > self.limit)

    def _drawn(self, count: int) -> tuple[History, Candidate]:
        drawn = torch.randn(count, self.items + 1, self.features, generator=self.draw)
        items = F.normalize(drawn, dim=-1)
        return items[:, :-1], items[:, -1]


# Ways to make one vector of a history.


class Average(nn.Module):
    """Weights 1 / n, whatever the candidate is."""

    def __init__(self, features: int) -> None:
        super().__init__()

    def forward(self, history: History, candidate: Candidate) -> Float[Tensor, "customer item"]:
        return torch.full(history.shape[:2], 1 / history.shape[1])


class BareProduct(nn.Module):
    """Weights q · k with q = W_Q candidate and k = W_K item, without a softmax: they may be negative, of any sum."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.query, self.key = (nn.Linear(features, HIDDEN, bias=False) for _ in range(2))

    def forward(self, history: History, candidate: Candidate) -> Float[Tensor, "customer item"]:
        return (self.key(history) @ self.query(candidate)[..., None])[..., 0]


class Attention(BareProduct):
    """Weights softmax(q · k / √d)."""

    def forward(self, history: History, candidate: Candidate) -> Float[Tensor, "customer item"]:
        return (super().forward(history, candidate) / math.sqrt(HIDDEN)).softmax(dim=-1)


class Recommender(nn.Module):
    """Logit of a purchase: the weighted sum of the history's values, read beside the candidate by a small network."""

    def __init__(self, weights: type[nn.Module], features: int) -> None:
        super().__init__()
        self.weights = weights(features)
        self.value = nn.Linear(features, HIDDEN, bias=False)
        self.candidate = nn.Linear(features, HIDDEN, bias=False)
        self.judge = nn.Sequential(nn.Linear(3 * HIDDEN, 2 * HIDDEN), nn.ReLU(), nn.Linear(2 * HIDDEN, 1))

    def forward(self, history: History, candidate: Candidate) -> Float[Tensor, " customer"]:
        weights = self.weights(history, candidate)
        summary = (weights[:, None] @ self.value(history))[:, 0]
        wanted = self.candidate(candidate)
        return self.judge(torch.cat([summary, wanted, summary * wanted], dim=-1))[:, 0]


WAYS: Mapping[str, type[nn.Module]] = {"average": Average, "attention": Attention, "bare product": BareProduct}
NAMES: Mapping[str, str] = {
    "average": say("average of the history"),
    "attention": say("attention, softmax(q·k/√d)"),
    "bare product": say("attention as in the tutorial, q·k"),
}


class Pupil:
    """One way with one seed: its network, and its accuracy after each part of the training."""

    def __init__(self, way: str, features: int, seed: int) -> None:
        self.way, self.seed = way, seed
        with seeded(seed, CPU):
            self.network = Recommender(WAYS[way], features)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=RATE)
        self.accuracies: list[float] = []

    def learn(self, customers: Customers, share: float) -> None:
        """One step. share: of the training that is done, with which the rate falls to 0."""
        self.optimizer.param_groups[0]["lr"] = RATE * (1 - share)
        self.optimizer.zero_grad()
        logits = self.network(customers.history, customers.candidate)
        F.binary_cross_entropy_with_logits(logits, customers.buys.float()).backward()
        self.optimizer.step()

    @torch.inference_mode()
    def test(self, customers: Customers) -> None:
        """Append the share of customers for whom the network is right to the accuracies."""
        bought = self.network(customers.history, customers.candidate) > 0
        self.accuracies.append(float((bought == customers.buys).float().mean()))


@dataclass(frozen=True)
class Recommendations:
    """Results so far.

    steps: after which accuracy was measured. accuracies: of each way, for each seed, at these steps. weights: of each
    way, for each seed, on the history that was typed. buys: probability that its owner buys the candidate.
    """

    history: Sequence[Item]
    candidate: Item
    seeds: Sequence[int]
    steps: Sequence[int]
    accuracies: Mapping[str, Sequence[Sequence[float]]]
    weights: Mapping[str, Sequence[Sequence[float]]]
    buys: Mapping[str, Sequence[float]]

    def last(self, way: str) -> list[float]:
        """Newest accuracy of a way with each seed."""
        return [each[-1] for each in self.accuracies[way]]


def learn(request: Request, rules: Mapping[str, Likeness] = RULES) -> Iterator[Report[Recommendations]]:
    """Train every way on the same made-up customers, and let it weigh the history that was typed.

    Raises:
        ValueError: the items cannot be read, see `read_items`, or have not as many features as the candidate.
    """
    history, candidate = read_items(request.values["history"]), read_item(request.values["candidate"])
    require_as_many(candidate, history[0])
    features, rule, steps = len(candidate.features), rules[request.values["rule"]], request.values["steps"]
    pupils = [[Pupil(way, features, seed) for way in WAYS] for seed in request.seeds]
    markets = [Market(len(history), features, rule, seed) for seed in request.seeds]
    tests = [market.customers(CUSTOMERS) for market in markets]
    measured: list[int] = []
    for step in range(1, steps + 1):
        for group, market in zip(pupils, markets, strict=True):
            customers = market.customers(BATCH)
            for pupil in group:
                pupil.learn(customers, step / (steps + 1))
        if step * REPORTS // steps > (step - 1) * REPORTS // steps:
            measured.append(step)
            for group, test in zip(pupils, tests, strict=True):
                for pupil in group:
                    pupil.test(test)
            yield Report(step / steps, collected(history, candidate, request.seeds, measured, pupils))


@torch.inference_mode()
def collected(
    history: Sequence[Item],
    candidate: Item,
    seeds: Sequence[int],
    steps: Sequence[int],
    pupils: Sequence[Sequence[Pupil]],
) -> Recommendations:
    """Results of the pupils of each seed so far."""
    bought, wanted = directions(history)[None], directions([candidate])
    by_way = {way: [group[number] for group in pupils] for number, way in enumerate(WAYS)}
    return Recommendations(
        history,
        candidate,
        seeds,
        list(steps),
        {way: [list(pupil.accuracies) for pupil in group] for way, group in by_way.items()},
        {way: [pupil.network.weights(bought, wanted)[0].tolist() for pupil in group] for way, group in by_way.items()},
        {way: [float(pupil.network(bought, wanted).sigmoid()) for pupil in group] for way, group in by_way.items()},
    )


def judge(results: Recommendations) -> tuple[Rule, Message]:
    """Rule of both forms of attention beside the average: a lead counts if it is clear beside the seeds' spread."""
    means = {way.replace(" ", "_"): sum(results.last(way)) / len(results.seeds) for way in WAYS}
    numbers = say(
        "accuracy on new customers is {attention} for attention with a softmax, {bare_product} for q·k alone and "
        "{average} for the average",
        **means,
    )
    name, average = say("lead of attention in accuracy, with a softmax and without"), results.last("average")
    leads = [
        clearly_above(
            Quantity(name, tuple(mine - other for mine, other in zip(results.last(way), average, strict=True))), CLEAR
        )
        for way in ("attention", "bare product")
    ]
    rule = each_of(leads, leads[0].text)
    return rule, {
        Verdict.OPEN: say("{numbers}: the seeds do not decide", numbers=numbers),
        Verdict.HOLDS: say("{numbers}: both forms of attention are ahead of the average", numbers=numbers),
        Verdict.IN_PART: say("{numbers}: it is ahead only with a softmax", numbers=numbers)
        if leads[0].met
        else say("{numbers}: it is ahead only without a softmax", numbers=numbers),
        Verdict.WRONG: say("{numbers}: neither is ahead of the average", numbers=numbers),
    }[rule.verdict]


def outcome(results: Recommendations) -> Outcome:
    """Verdict, accuracies, and the weights on the history that was typed."""
    rule, reason = judge(results)
    quantities = [Quantity(say("accuracy: {way}", way=name), tuple(results.last(way))) for way, name in NAMES.items()]
    quantities += [
        Quantity(say("probability that {item} is bought: {way}", item=results.candidate.name, way=name), buys)
        for (way, name), buys in zip(NAMES.items(), map(tuple, results.buys.values()), strict=True)
    ]
    accuracy = [
        over_seeds(name, results.steps, zip(*results.accuracies[way], strict=True)) for way, name in NAMES.items()
    ]
    names = [item.name for item in results.history]
    places = list(range(len(names)))
    by_item = {way: list(zip(*weights, strict=True)) for way, weights in results.weights.items()}
    sure = [over_seeds(NAMES[way], places, by_item[way], "bars") for way in ("attention", "average")]
    likeness = (directions(results.history) @ directions([results.candidate])[0]).tolist()
    bare = [
        over_seeds(NAMES["bare product"], places, by_item["bare product"], "bars"),
        Curve(say("likeness: cosine of their features"), places, likeness, style="bars"),
    ]
    item = results.candidate.name
    title, share = say("Accuracy on new customers"), say("share of customers it is right about")
    figures = (
        Curves(title, say("training steps"), share, accuracy),
        Curves(say("Weight of each purchase for {item}", item=item), say("purchase"), say("weight"), sure, ticks=names),
        Curves(say("q·k of each purchase for {item}", item=item), say("purchase"), "q·k", bare, ticks=names),
    )
    return Outcome(rule, reason, quantities, figures)


def run(request: Request) -> Iterator[Report[Outcome]]:
    for report in learn(request):
        yield Report(report.share, outcome(report.result))


FEATURES = (say("item"), say("sweet"), say("warm"), say("loud"))  # columns of the items that can be changed

EXPERIMENTS = (
    Experiment(
        name="recommendation",
        row=42,
        group=Group.ARCHITECTURES,
        statement=say(
            "In recommendation the candidate is the query and the purchases are keys and values: weighed by q·k, they "
            "tell better than their average what will be bought."
        ),
        truth=say(
            "Customers are made up here: items are random directions, and a customer buys what is more like one of the "
            "purchases (rule nearest), or like their average (rule average), than is usual. With nearest, one close "
            "purchase must stand out of the others: that takes the softmax. With average there is nothing to gain."
        ),
        run=run,
        parameters=(
            Parameter(
                "history",
                say("purchases with their features"),
                "cake: 1, 0.3, 0; honey: 0.9, 0.1, 0; scarf: 0, 1, 0; stove: 0.1, 0.9, 0.2; drum: 0, 0, 1; "
                "radio: 0, 0.2, 0.9",
                columns=FEATURES,
            ),
            Parameter("candidate", say("candidate with its features"), "gloves: 0, 0.9, 0.1", columns=FEATURES),
            Parameter("rule", say("rule by which customers buy"), "nearest", choices=tuple(RULES)),
            Parameter("steps", say("training steps"), 400, 20, 5000),
        ),
        seeded=True,
        seconds=5.0,
        formulas=(
            r"w_j = \mathrm{softmax}_j\left(\frac{q \cdot k_j}{\sqrt{d}}\right),\quad u = \sum_j w_j v_j",
            r"w_j = q \cdot k_j",
        ),
        code=(Market, nearest, Attention, BareProduct, Recommender),
        source="Zhou et al., 2018, Deep Interest Network, section 4.3",
    ),
)
