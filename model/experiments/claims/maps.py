"""Attention weights of tokens against the effect of hiding them (row 48)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from model.capture.hooks import no_recording
from model.capture.interventions import Cells, Intervention, intervening
from model.capture.trace import AttentionKind
from model.data.sources import data_of_run, phrase_data
from model.experiments.experiment import (
    Curve,
    Curves,
    Experiment,
    Figure,
    Grid,
    Group,
    Outcome,
    Parameter,
    Request,
    Table,
)
from model.experiments.rule import Condition, Quantity, Rule, clearly_above, clearly_within
from model.experiments.runner import Report
from model.inference.models import Translator
from model.inference.text_model import TextModel
from model.message import Message, say

AGREES = 0.5  # rank correlation above which weights and effects are said to agree; below it, and above 0, weakly
LEAST = 8  # tokens, below which nothing is decided
DRAWS = 1000  # of the bootstrap
DISAGREEING = 5  # tokens in the table
LONGEST_SENTENCE = 60  # characters of a sentence in the table

Planted = Sequence[Intervention]


@dataclass(frozen=True)
class TokenEffects:
    """Tokens of one text. weights: mean over the queries that look at each; effects: fall of the mean ln p of what the
    model writes at these queries when the token is hidden from all of them, in every layer and head.
    """

    text: str
    labels: Sequence[str]
    weights: Float[ndarray, "layer head token"]
    effects: Float[ndarray, " token"]


def token_effects(model: TextModel, text: str, most: int, changes: Planted = ()) -> Iterator[TokenEffects | None]:
    """Weights and effects of at most `most` tokens of a text, evenly spaced; None after each token before the last.

    Raises:
        MissingQuantityError: the model's weights cannot be seen.
        ValueError: its masks cannot be changed.
    """
    source = model.source_tokens(text)
    kind: AttentionKind = {"encoder-decoder": "cross", "decoder-only": "decoder"}.get(model.kind, "encoder")  # type: ignore[assignment]
    with intervening(model.network, changes):
        target = model.trace_generated(source)[1] if isinstance(model, Translator) else None
        trace = model.trace_tokens(source, target)
    maps = trace.attention(kind).double().cpu()  # (layer, head, query, key)
    ids = [torch.tensor([tokens.ids], device=model.device) for tokens in (source, target) if tokens is not None]
    plain = predictions(model, ids, changes)
    written = plain.argmax(dim=-1)
    weights, effects, labels = [], [], []
    places = spaced(len(source.ids), most)
    for place in places:
        queries = seeing(kind, maps.shape[-2], place)
        if queries:
            hidden = predictions(model, ids, (*changes, *hiding(kind, place)))
            rows = torch.tensor(queries)
            fall = (plain - hidden)[rows, written[rows]]
            weights.append(maps[:, :, rows, place].mean(dim=-1).numpy())
            effects.append(float(fall.mean()))
            labels.append(source.labels[place])
        if place != places[-1]:
            yield None
    yield TokenEffects(
        text, labels, np.stack(weights, -1) if weights else np.zeros((*maps.shape[:2], 0)), np.array(effects)
    )


def predictions(
    model: TextModel, ids: Sequence[Tensor], changes: Sequence[Intervention]
) -> Float[Tensor, "position vocabulary"]:
    """ln p of every token at every position, with these changes."""
    with torch.inference_mode(), no_recording(), intervening(model.network, changes):
        return model.network(*ids)[0].double().log_softmax(dim=-1).cpu()


def hiding(kind: AttentionKind, place: int) -> list[Cells]:
    """Changes that hide a token from every query; of a source also in the encoder, or its neighbours would tell it."""
    kinds: tuple[AttentionKind, ...] = ("encoder", "cross") if kind == "cross" else (kind,)
    return [Cells(each, False, key=place) for each in kinds]


def seeing(kind: AttentionKind, queries: int, place: int) -> list[int]:
    """Queries that look at a token from elsewhere: all of a target, later ones of a text, others of an encoder's."""
    if kind == "cross":
        return list(range(queries))
    return [query for query in range(queries) if (query > place if kind == "decoder" else query != place)]


def spaced(count: int, most: int) -> list[int]:
    """Evenly spaced places among `count`, at most `most` of them."""
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, most))})


# Rank correlation.


def ranks(values: Float[ndarray, "*rows token"]) -> Float[ndarray, "*rows token"]:
    """Ranks from 1 on along the last axis; equal values share the mean of theirs."""
    below = (values[..., None, :] < values[..., :, None]).sum(-1)
    equal = (values[..., None, :] == values[..., :, None]).sum(-1)
    ranking: ndarray = below + (equal + 1) / 2
    return ranking


def correlation(x: Float[ndarray, "*rows token"], y: Float[ndarray, "*rows token"]) -> Float[ndarray, "*rows"]:
    """Pearson's correlation along the last axis, of ranks Spearman's; 0 where one side is constant."""
    x, y = (each - each.mean(-1, keepdims=True) for each in (x, y))
    size = np.sqrt((x**2).sum(-1) * (y**2).sum(-1))
    r: ndarray = np.divide((x * y).sum(-1), size, out=np.zeros_like(size), where=size > 0)
    return r


def centred(values: Float[ndarray, "*rows token"]) -> Float[ndarray, "*rows token"]:
    """Ranks within one text, from -1/2 to 1/2, so that texts of different lengths can be put together."""
    count = values.shape[-1]
    centred_ranks: ndarray = (ranks(values) - (count + 1) / 2) / count
    return centred_ranks


@dataclass(frozen=True)
class Agreement:
    """Rank correlation of weights and effects, with the standard error of its bootstrap over the tokens."""

    r: float
    error: float

    def interval(self, comparisons: int = 1) -> tuple[float, float]:
        """95 % interval; wider where it is one of several comparisons (Bonferroni)."""
        reach = NormalDist().inv_cdf(1 - 0.025 / comparisons) * self.error
        return max(-1.0, self.r - reach), min(1.0, self.r + reach)


def agreement(weights: Float[ndarray, " token"], effects: Float[ndarray, " token"], seed: int) -> Agreement:
    """Agreement of centred ranks."""
    draws = np.random.default_rng(seed).integers(0, len(weights), (DRAWS, len(weights)))
    return Agreement(
        float(correlation(weights, effects)), float(correlation(weights[draws], effects[draws]).std(ddof=1))
    )


# The experiment.


def texts_of(model: TextModel, text: str, more: int, file: str = "") -> list[str]:
    """Lines of the text, and so many lines of the file, or of the data that the model's run learnt from, or sentences
    made by rule, evenly spaced.
    """
    own, others = lines_of(text), lines_of(file)
    if not others:
        data = data_of_run(model.kind, model.training) or phrase_data(model.kind)
        others = [pair.source for pair in data.pairs] or lines_of(data.text)
    return list(dict.fromkeys([*own, *(others[place] for place in spaced(len(others), more))]))


def lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def run_of(changes: Planted = ()) -> Callable[[Request], Iterator[Report[Outcome]]]:
    """Run on the text and some others. changes: made to the network in every pass."""

    def run(request: Request) -> Iterator[Report[Outcome]]:
        if not request.model.predicts:
            yield Report(1.0, Outcome(None, say("this model predicts nothing: choose one that does")))
            return
        texts = texts_of(request.model, request.text, request.values["sentences"], request.values["file"])
        text_effects: list[TokenEffects] = []
        for number, text in enumerate(texts):
            for each in token_effects(request.model, text, request.values["tokens"], changes):
                if each is not None and each.labels:
                    text_effects.append(each)
                last = each is not None and number == len(texts) - 1
                if not last:
                    yield Report((number + (each is not None)) / len(texts), so_far(number, len(texts)))
        yield Report(1.0, outcome_of(text_effects, request.seeds[0]))

    return run


def so_far(number: int, count: int) -> Outcome:
    return Outcome(None, say("text {number} of {count}", number=number + 1, count=count))


def outcome_of(text_effects: Sequence[TokenEffects], seed: int) -> Outcome:
    """Verdict on the tokens of all texts, their correlations by head, and the tokens that disagree most."""
    tokens = sum(len(each.labels) for each in text_effects)
    if tokens < LEAST:
        reason = say("{count} tokens decide nothing: {least} are the least", count=tokens, least=LEAST)
        return Outcome(None, reason)
    mean = np.concatenate([centred(each.weights.mean((0, 1))) for each in text_effects])
    effects = np.concatenate([centred(each.effects) for each in text_effects])
    heads = np.concatenate([centred(each.weights) for each in text_effects], axis=-1)
    whole = agreement(mean, effects, seed)
    by_head = [[agreement(ranked, effects, seed) for ranked in layer] for layer in heads]
    low, high = whole.interval()
    count = heads.shape[0] * heads.shape[1]
    agreeing = [
        (layer, head)
        for layer, row in enumerate(by_head)
        for head, each in enumerate(row)
        if each.interval(count)[0] > AGREES
    ]
    best = max(((each.r, layer, head) for layer, row in enumerate(by_head) for head, each in enumerate(row)))
    reason = say(
        "the rank correlation of the mean weight of a token and the effect of hiding it is {r} (95 %\xa0interval {low} "
        "to {high}; {tokens} tokens of {texts} texts): {strength}; {agreeing} of {count} heads are surely above "
        "{limit}, the best is head {layer}.{head} with {best}; {example}",
        r=whole.r,
        strength=strength(low, high),
        low=low,
        high=high,
        tokens=tokens,
        texts=len(text_effects),
        agreeing=len(agreeing),
        count=count,
        limit=AGREES,
        layer=best[1] + 1,
        head=best[2] + 1,
        best=best[0],
        example=counterexample(text_effects),
    )
    quantities = [
        Quantity(say("rank correlation, mean over the heads"), (whole.r,)),
        Quantity(say("lower end of its 95 %\xa0interval"), (low,)),
        Quantity(say("upper end of its 95 %\xa0interval"), (high,)),
    ]
    return Outcome(rule_of(low, high, bool(agreeing)), reason, quantities, figures(text_effects, by_head))


def rule_of(low: float, high: float, some_heads: bool) -> Rule:
    """Rule by the interval of the correlation, and by whether some heads surely agree; weak agreement is some."""
    mean = Quantity(say("rank correlation, mean over the heads"), ((low + high) / 2,), interval=(low, high))
    strong, weak = clearly_above(mean, AGREES), clearly_within(mean, 0.0, AGREES)
    heads = Condition(say("that of some heads is surely above {limit}", limit=AGREES), some_heads)
    return Rule([strong | weak.surely | heads], wants=[strong.surely])


def strength(low: float, high: float) -> Message:
    """Strength of an agreement in words, by its interval."""
    if low > AGREES:
        return say("they agree")
    if high < 0:
        return say("they run against each other")
    if low > 0:
        return say("they agree weakly") if high < AGREES else say("they agree, weakly or more")
    return say("no agreement is sure")


def disagreements(text_effects: Sequence[TokenEffects]) -> list[tuple[float, TokenEffects, int]]:
    """Tokens by the distance of their two ranks, the largest first."""
    rows = []
    for each in text_effects:
        apart = np.abs(centred(each.weights.mean((0, 1))) - centred(each.effects))
        rows += [(float(distance), each, place) for place, distance in enumerate(apart)]
    return sorted(rows, key=lambda row: -row[0])


def places_of(each: TokenEffects, place: int) -> tuple[int, int]:
    """Rank of a token of a text by weight and by effect, 1 for the largest."""
    return tuple(int(ranks(-values)[place]) for values in (each.weights.mean((0, 1)), each.effects))  # type: ignore[return-value]


def counterexample(text_effects: Sequence[TokenEffects]) -> Message:
    """Token whose two ranks are furthest apart."""
    _distance, each, place = disagreements(text_effects)[0]
    weight, effect = places_of(each, place)
    return say(
        "they disagree most on “{token}” in “{sentence}”: of {count} tokens it is number {weight} by weight and number "
        "{effect} by effect",
        token=each.labels[place],
        sentence=each.text[:LONGEST_SENTENCE],
        count=len(each.labels),
        weight=weight,
        effect=effect,
    )


def figures(text_effects: Sequence[TokenEffects], by_head: Sequence[Sequence[Agreement]]) -> list[Figure]:
    """Correlation by head, all tokens as points, the first text token by token, and the tokens that disagree most."""
    layers, heads = [str(1 + each) for each in range(len(by_head))], [str(1 + each) for each in range(len(by_head[0]))]
    values = [[each.r for each in row] for row in by_head]
    grid = Grid(say("Rank correlation by head"), values, layers, heads, say("layer"), say("head"))
    weights = [each.weights.mean((0, 1)) for each in text_effects]
    points = Curve(say("tokens"), np.concatenate(weights).tolist(), effects_of(text_effects), style="dots")
    scatter = Curves(say("Every token"), say("mean weight"), say("fall of ln p, nats"), [points])
    first, places = text_effects[0], [float(place) for place in range(len(text_effects[0].labels))]
    shares = (
        Curve(say("mean weight"), places, relative(weights[0]), style="bars"),
        Curve(say("effect of hiding it"), places, relative(first.effects), style="dots"),
    )
    title = say("Weight and effect of each token of “{sentence}”", sentence=first.text[:LONGEST_SENTENCE])
    tokens = Curves(title, say("token"), say("share of the largest"), shares, ticks=list(first.labels))
    rows: list[list[str | float | int]] = []
    for _distance, each, place in disagreements(text_effects)[:DISAGREEING]:
        by_weight, by_effect = places_of(each, place)
        mean, effect = float(each.weights.mean((0, 1))[place]), float(each.effects[place])
        rows.append([each.labels[place], each.text[:LONGEST_SENTENCE], mean, by_weight, effect, by_effect])
    columns = (
        say("token"),
        say("text"),
        say("mean weight"),
        say("number by weight"),
        say("fall of ln p, nats"),
        say("number by effect"),
    )
    return [grid, tokens, scatter, Table(say("Where they disagree most"), columns, rows)]


def effects_of(text_effects: Sequence[TokenEffects]) -> list[float]:
    return [float(effect) for each in text_effects for effect in each.effects]


def relative(values: Float[ndarray, " token"]) -> list[float]:
    """Values as shares of the one that is largest in size."""
    largest = float(np.abs(values).max()) or 1.0
    return [float(value) / largest for value in values]


EXPERIMENTS = (
    Experiment(
        name="maps-and-effects",
        row=48,
        group=Group.ATTENTION,
        statement=say("Attention maps show what the model looks at."),
        truth=say(
            "A weight says how much of a token's value one head mixes in, not whether that changes what is written: "
            "the value may be small, and other heads may carry the same. Hiding the token measures its effect."
        ),
        run=run_of(),
        parameters=(
            Parameter("sentences", say("more sentences"), 16, 0, 200),
            Parameter("tokens", say("tokens of a text, at most"), 32, 4, 256),
            Parameter("file", say("file, a sentence a line"), "", long=True),
        ),
        of_model=True,
        seconds=10.0,
        formulas=(
            r"e_j = \frac1{|I|}\sum_{i \in I} \left(\ln p_i(y_i) - \ln p_i^{\setminus j}(y_i)\right)",
            r"r = \mathrm{corr}\left(\mathrm{rank}\ \bar A_{\cdot j},\ \mathrm{rank}\ e_j\right)",
        ),
        code=(token_effects, hiding, ranks, correlation, agreement, rule_of),
        source="Jain & Wallace, 2019; Wiegreffe & Pinter, 2019",
    ),
)
