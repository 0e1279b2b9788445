"""Attention and what stands around it: equation 1 (row 14), cross-attention (21), several heads (22), the feed-forward
network (31), where linear and softmax stand (33), a worked example (44), the kinds of models (46).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from model.analysis.attention_maps import Maps
from model.analysis.feed_forward import (
    IsolatedPositions,
    off,
    path_of,
    positions_apart,
    quantities,
    shares_off,
    threshold,
)
from model.analysis.head_importance import Effect, Place, Removals, removable
from model.analysis.head_metrics import map_distance
from model.analysis.masking import future_change, without_causal_mask
from model.analysis.predictions import actual_tokens
from model.capture.interventions import Intervention
from model.capture.trace import AttentionKind, Trace, record
from model.experiments.engines.trace_inputs import (
    MOST,
    another,
    ids_of,
    kind_name,
    read,
    recurrent,
    tolerance,
    too_short,
    unanswered,
)
from model.experiments.engines.worked_example import DOCUMENT, Rows, one_head, take_steps
from model.experiments.experiment import Experiment, Figure, Grid, Group, Outcome, Parameter, Request, Table, at_once
from model.experiments.rule import Condition, Quantity, Rule, Verdict, at_least, at_most, exceeds
from model.experiments.runner import Report
from model.message import Message, say
from model.network.attention import MultiHeadAttention, for_each_head, side_by_side
from model.network.config import Kind, TransformerConfig
from model.network.layers import FeedForward
from model.network.masks import Mask
from model.network.transformer import DecoderOnly, EncoderOnly, Network, Transformer, build
from model.runtime.device import exact
from model.runtime.errors import require
from model.runtime.random import seeded

LAYER = Parameter("layer", say("layer that is drawn"), 1, 1, 200)
HEAD = Parameter("head", say("head that is drawn"), 1, 1, 200)
Row = tuple[str | float, ...]  # of a table
KIND_NAMES: dict[Kind, Message] = {
    "encoder-decoder": say("encoder-decoder"),
    "encoder-only": say("encoder-only"),
    "decoder-only": say("decoder-only"),
    "recurrent": say("recurrent"),
}
PLAIN = ("scores", "scaled", "masked", "weights")  # maps of an attention that does nothing else


def absent(maps: Maps, request: Request) -> Outcome | None:
    """Outcome where the model has no such layer or head; None where it has."""
    if int(request.values["layer"]) <= maps.layers and int(request.values["head"]) <= maps.heads:
        return None
    return unanswered(
        say(
            "this model has {layers} layers of {heads} heads: choose the layer and the head among them",
            layers=maps.layers,
            heads=maps.heads,
        )
    )


def drawn_map(title: Message, weights: Float[Tensor, "query key"], queries: Sequence[str], keys: Sequence[str]) -> Grid:
    """Weights of the first queries and keys."""
    cut = weights[:MOST, :MOST].tolist()
    return Grid(title, cut, list(queries[:MOST]), list(keys[:MOST]), say("token that looks"), say("token seen"))


# Equation 1 (row 14).

Formula = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def attention(
    query: Float[Tensor, "query channel"],
    key: Float[Tensor, "key channel"],
    value: Float[Tensor, "key value_channel"],
    visible: Bool[Tensor, "query key"],
) -> Float[Tensor, "query value_channel"]:
    """softmax(Q Kᵀ / √d_k + M) V of one head, M = −∞ where a query may not look (equation 1)."""
    scores = query @ key.mT / query.shape[-1] ** 0.5
    weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
    return weights.masked_fill(~visible.any(dim=-1, keepdim=True), 0.0) @ value


def head_errors(trace: Trace, path: str, formula: Formula) -> tuple[float, float]:
    """Largest difference of the heads at `path` from a formula on their Q, K and V, and from the weights of the pass
    times V; as shares of the largest number.
    """
    heads, visible = exact(trace[f"{path}.heads"]), trace.visible(path)
    query, value, weights = trace[f"{path}.query"], exact(trace.values(path)), trace[f"{path}.weights"]
    key, size = exact(for_each_head(trace[f"{path}.key"], len(query))), float(heads.abs().max())
    by_formula = by_weights = 0.0
    for head, output in enumerate(heads):
        seen = visible[min(head, len(visible) - 1)].to(output.device)
        expected = formula(exact(query[head]), key[head], value[head], seen)
        by_formula = max(by_formula, float((expected - output).abs().max()) / size)
        by_weights = max(by_weights, float((exact(weights[head]) @ value[head] - output).abs().max()) / size)
    return by_formula, by_weights


def find_attention(request: Request, formula: Formula = attention) -> Outcome:
    """Outputs of every head of the model beside equation 1 on its recorded queries, keys and values."""
    model = request.model
    trace, _texts = read(model, request.text)
    paths = [path for kind in trace.attention_kinds for path in trace.attention_paths(kind)]
    require(trace.network, *(f"{path}.{name}" for path in paths for name in ("query", "key", "value", "heads")))
    maps = Maps(trace, trace.attention_kinds[0])
    if (refusal := absent(maps, request)) is not None:
        return refusal
    errors = {path: head_errors(trace, path, formula) for path in paths}
    by_formula, by_weights = (max(each) for each in zip(*errors.values(), strict=True))
    more = sorted({name for path in paths for name in more_than_equation(trace, path)})
    numbers = [
        Quantity(say("largest difference from the formula, of the largest number"), (by_formula,)),
        Quantity(say("largest difference from weights · V, of the largest number"), (by_weights,)),
    ]
    by_equation, as_weighted = (at_most(each, tolerance(model)) for each in numbers)
    further = Condition(say("the model changes the scores further"), bool(more))
    rule = Rule([by_equation | (further & as_weighted)], wants=[by_equation])
    reason = say(
        "the outputs of the heads of {layers} attentions differ from the formula by at most {error} of the largest "
        "number: {end}",
        layers=len(paths),
        error=by_formula,
        end=equation_end(rule.verdict, more),
    )
    layer, head = int(request.values["layer"]) - 1, int(request.values["head"]) - 1
    return Outcome(rule, reason, numbers, steps_of(maps, layer, head))


def more_than_equation(trace: Trace, path: str) -> list[str]:
    """Names of what the attention at `path` does beside equation 1: its further maps, a sink, another factor."""
    own = trace.attention_at(path)
    names = [name for name in trace.maps_of(path) if name not in PLAIN]
    names += ["sink"] if f"{path}.sink" in trace else []
    factor, root = getattr(getattr(own, "scaled", None), "factor", None), trace[f"{path}.query"].shape[-1] ** -0.5
    return names + (["scaled"] if isinstance(factor, float) and not math.isclose(factor, root, rel_tol=1e-6) else [])


def equation_end(verdict: Verdict, more: Sequence[str]) -> Message:
    """Meaning of the difference."""
    if verdict is Verdict.HOLDS:
        return say("it is what this model computes")
    if verdict is Verdict.IN_PART:
        return say("this model changes the scores further ({steps}), and with that it agrees", steps=", ".join(more))
    return say("this model computes something else")


def steps_of(maps: Maps, layer: int, head: int) -> list[Figure]:
    """Every step of the last query of a head, a row for each key, and the map of the head."""
    trace, path = maps.trace, maps.paths[layer]
    query = maps.queries - 1
    rows = maps.row(layer, head, query)
    queries, keys = trace.tokens_of(path), trace.source_tokens if maps.kind == "cross" else trace.tokens_of(path)
    value = trace.values(path)[head].float()
    lengths = (rows["weights"][:, None] * value).norm(dim=-1)
    table: list[Row] = [
        (keys[place], *(signed(float(row[place])) for row in rows.values()), float(lengths[place]))
        for place in range(min(len(keys), MOST))
    ]
    names: dict[str, str] = {
        "scores": "q · k",
        "scaled": "q · k / √d_k",
        "masked": say("masked"),
        "weights": say("weight"),
    }
    columns: list[str] = [say("token"), *(names.get(name, name) for name in rows), "‖w v‖"]
    at = {"layer": layer + 1, "head": head + 1}
    token = queries[query] if query < len(queries) else str(query)
    return [
        Table(say("{token} looks at each token: layer {layer}, head {head}", token=token, **at), columns, table),
        drawn_map(
            say("Weights of layer {layer}, head {head}", **at),
            maps.weights(layer, slice(head, head + 1))[0],
            queries,
            keys,
        ),
    ]


def signed(number: float) -> float | str:
    """Number, with −∞ by its sign."""
    return "−∞" if number == -math.inf else number


# Cross-attention (row 21).


def find_cross(request: Request, kind: AttentionKind = "cross") -> Outcome:
    """Texts that queries, keys and values of the model follow, the target's or the source's; and their numbers."""
    model = request.model
    if model.kind == "recurrent":
        return recurrent()
    if model.kind != "encoder-decoder":
        return unanswered(
            say("this model has one stack and no cross-attention: choose one with an encoder and a decoder")
        )
    trace, texts = read(model, request.text)
    source, target = ids_of(model, texts)
    if source.shape[1] < 2:
        return too_short(2, texts)
    paths = trace.attention_paths(kind)
    maps = Maps(trace, kind)
    if (refusal := absent(maps, request)) is not None:
        return refusal
    require(trace.network, *(f"{path}.{name}" for path in paths for name in ("query", "key", "value")))
    first, last = source.clone(), target.clone()
    first[0, 0] = (int(source[0, 0]) + 1) % model.config.vocabularies[0]
    last[0, -1] = another(model, int(target[0, -1]))
    base, other_source, other_target, shorter = (
        passed(model.network, *ids)
        for ids in ((source, target), (first, target), (source, last), (source[:, 1:], target))
    )
    # Queries of the first layer: above it they follow the source too, by what cross-attention has written before.
    moved = {
        name: tuple(moved_by(base, other, paths[:1] if name == "query" else paths, name) for other in others)
        for name in ("query", "key", "value")
        for others in ((other_target, other_source),)
    }
    lengths = [shape_of(each, paths[0]) for each in (base, shorter)]
    fit = lengths == [(target.shape[1], source.shape[1]), (target.shape[1], source.shape[1] - 1)]
    expected = {"query": (True, False), "key": (False, True), "value": (False, True)}
    follows = {name: tuple(each > tolerance(model) * max(both) for each in both) for name, both in moved.items()}
    rule = Rule(
        [
            Condition(say("there is a query for each token of the target, a key for each of the source"), fit),
            Condition(say("queries follow the target alone, keys and values the source alone"), follows == expected),
        ]
    )
    reason = say(
        "with another token in the target, queries move by {query} and keys by {key}; with another one in the source, "
        "queries by {query_source} and keys by {key_source}; {queries} queries look at {keys} keys",
        query=moved["query"][0],
        key=moved["key"][0],
        query_source=moved["query"][1],
        key_source=moved["key"][1],
        queries=lengths[0][0],
        keys=lengths[0][1],
    )
    layer, head = int(request.values["layer"]) - 1, int(request.values["head"]) - 1
    names = {"query": say("queries Q, first layer"), "key": say("keys K"), "value": say("values V")}
    rows: list[Row] = [(names[name], *both) for name, both in moved.items()]
    numbers = [Quantity(say("queries"), (float(lengths[0][0]),)), Quantity(say("keys"), (float(lengths[0][1]),))]
    figures: list[Figure] = [
        Table(
            say("Largest change"), ("", say("another token in the target"), say("another token in the source")), rows
        ),
        drawn_map(
            say("Weights of layer {layer}, head {head}", layer=layer + 1, head=head + 1),
            maps.weights(layer, slice(head, head + 1))[0],
            trace.target_tokens,
            trace.source_tokens if kind == "cross" else trace.target_tokens,
        ),
    ]
    return Outcome(rule, reason, numbers, figures)


@torch.inference_mode()
def passed(network: Network, *ids: Tensor) -> Trace:
    """Trace of one pass."""
    with record(network) as trace:
        network(*ids)
    return trace


def moved_by(one: Trace, other: Trace, paths: Sequence[str], name: str) -> float:
    """Largest difference of a quantity of these attentions between two passes."""
    return max(float((one[f"{path}.{name}"] - other[f"{path}.{name}"]).abs().max()) for path in paths)


def shape_of(trace: Trace, path: str) -> tuple[int, int]:
    """Numbers of queries and keys."""
    return trace[f"{path}.query"].shape[1], trace[f"{path}.key"].shape[1]


# Several heads (row 22).

TWIN = 0.05  # √JS to the nearest other head, in bits: below it, two heads of a layer look at the same


def nearest_other(maps: Maps, layer: int) -> list[float]:
    """Distance √JS of each head's map from the most similar other head of its layer, averaged over the queries."""
    weights = exact(maps.weights(layer, slice(None)))
    nearest = []
    for head in range(maps.heads):
        distances = map_distance(weights, weights[head : head + 1]).mean(dim=-1)
        distances[head] = torch.inf
        nearest.append(float(distances.min()))
    return nearest


def concatenation_error(trace: Trace, path: str) -> float:
    """Largest difference of Concat(head₁, …, head_h) W^O from the output of the attention at `path`."""
    output = trace.attention_at(path).output
    rows = exact(side_by_side(trace[f"{path}.heads"][None])[0]) @ exact(output.weight.detach()).mT
    rows = rows if output.bias is None else rows + exact(output.bias.detach())
    return float((rows - exact(trace[f"{path}.output"])).abs().max())


def run_heads(request: Request) -> Iterator[Report[Outcome]]:
    """Likeness of each head to the others of its layer, and what the predictions lose without it."""
    model = request.model
    trace, texts = read(model, request.text)
    if len(texts[0]) < 3:  # maps of fewer are nearly the same
        yield Report(1.0, too_short(3, texts))
        return
    kinds = trace.attention_kinds
    require(trace.network, *(removable(kind) for kind in kinds))
    every = {kind: Maps(trace, kind) for kind in kinds}
    if all(maps.heads < 2 for maps in every.values()):
        yield Report(1.0, unanswered(say("this model has one head a layer: choose a model with several")))
        return
    near = {kind: [nearest_other(maps, layer) for layer in range(maps.layers)] for kind, maps in every.items()}
    hidden = model.source_tokenizer.mask if model.fills else None
    actual = actual_tokens(model.kind, texts[-1].ids, model.target_tokenizer.end, hidden) if model.predicts else []
    removals = Removals(model, texts[0], texts[1] if len(texts) > 1 else None, actual)
    error = max(concatenation_error(trace, path) for kind in kinds for path in trace.attention_paths(kind))
    effects: dict[Place, Effect] = {}
    groups = removals.groups(kinds)
    for done, group in enumerate(groups, start=1):
        effects |= removals.without_each(group)
        yield Report(done / len(groups), heads_outcome(request, near, effects, error))


def heads_outcome(
    request: Request, near: Mapping[AttentionKind, list[list[float]]], effects: Mapping[Place, Effect], error: float
) -> Outcome:
    """Outcome on heads: those that look elsewhere than others, and those that the predictions need."""
    least = float(request.values["least"])
    apart = [each for layers in near.values() for layer in layers for each in layer]
    twins = sum(each < TWIN for each in apart)
    needed = sum(effect.moved >= least for effect in effects.values())
    elsewhere = Quantity(
        say("heads that look elsewhere than the most similar one"), (100 * (1 - twins / len(apart)),), "%"
    )
    reason = say(
        "{different} of {all} heads look elsewhere than the most similar head of their layer, by {distance} on average "
        "(0 is the same, 1 nothing in common); of {removed} heads removed in turn, {needed} change a prediction by "
        "{least} nats or more",
        different=len(apart) - twins,
        all=len(apart),
        distance=fmean(apart),
        removed=len(effects),
        needed=needed,
        least=least,
    )
    growth = [effect.loss for effect in effects.values()]
    numbers = [
        Quantity(say("distance from the most similar head of the layer"), (fmean(apart),)),
        Quantity(say("heads that a prediction needs"), (100 * needed / len(effects),), "%"),
        Quantity(say("largest difference of Concat · Wᴼ from the output"), (error,)),
    ]
    rule = Rule([exceeds(elsewhere, 50.0)], wants=[at_least(numbers[1], 100.0)])
    if not any(map(math.isnan, growth)):
        numbers.append(Quantity(say("largest growth of the loss without a head"), (max(growth),), "nats"))
    figures: list[Figure] = []
    for kind, layers in near.items():
        name = kind_name(kind)
        figures.append(by_head(say("Distance from the most similar head of the layer, {kind}", kind=name), layers))
        moved = [
            [effects[kind, layer, head].moved for head in range(len(row)) if (kind, layer, head) in effects]
            for layer, row in enumerate(layers)
        ]
        if all(len(row) == len(layers[0]) for row in moved):
            figures.append(
                by_head(say("Largest change of a prediction without the head, nats, {kind}", kind=name), moved)
            )
    return Outcome(rule, reason, numbers, figures)


def by_head(title: Message, values: Sequence[Sequence[float]]) -> Grid:
    """Number of each head of each layer."""
    rows, columns = ([str(number + 1) for number in range(size)] for size in (len(values), len(values[0])))
    return Grid(title, values, rows, columns, say("layer"), say("head"))


# The feed-forward network (row 31).


def find_feed_forward(request: Request) -> Outcome:
    """Every feed-forward network on its recorded input, in another order and position by position."""
    model = request.model
    trace, texts = read(model, request.text)
    by_layer: dict[str, tuple[IsolatedPositions, float, float, float]] = {}
    for stack in model.config.stacks:
        for layer in range(model.config.depth(stack)):
            path = path_of(stack, layer)
            positions = len(trace.tokens_of(path))
            if positions < 2:
                return too_short(2, texts)
            apart = positions_apart(trace, path, list(reversed(range(positions))))
            units = trace[f"{path}.{quantities(trace.network, path)[0]}"]
            largest = threshold(model.config.units_of(stack, layer).activation)
            never = off(units, largest).all(dim=0).float().mean()
            size = float(trace[f"{path}.output"].abs().max())
            by_layer[f"{stack} {layer + 1}"] = apart, size, float(shares_off(units, largest).mean()), float(never)
    permuted = max(apart.permuted / size for apart, size, _off, _never in by_layer.values())
    alone = max(apart.alone / size for apart, size, _off, _never in by_layer.values())
    others = [each.attention_alone for each, *_rest in by_layer.values() if each.attention_alone is not None]
    reason = say(
        "in another order of the positions the outputs differ from the same in that order by at most {permuted} of the "
        "largest number, and computed position by position by {alone}{contrast}",
        permuted=permuted,
        alone=alone,
        contrast=say("; self-attention computed so moves by up to {others}", others=max(others)) if others else "",
    )
    numbers = [
        Quantity(say("largest difference, positions in another order"), (permuted,)),
        Quantity(say("largest difference, position by position"), (alone,)),
        Quantity(say("units that are off, mean"), (100 * fmean(each[2] for each in by_layer.values()),), "%"),
        Quantity(
            say("units that are off at every position"), (100 * fmean(each[3] for each in by_layer.values()),), "%"
        ),
    ]
    rule = Rule([at_most(each, tolerance(model)) for each in numbers[:2]])
    rows = [
        (name, apart.permuted, apart.alone, unknown(apart.attention_alone), 100 * share, 100 * never)
        for name, (apart, _size, share, never) in by_layer.items()
    ]
    columns = (
        say("layer"),
        say("in another order"),
        say("position by position"),
        say("self-attention, position by position"),
        say("units off, %"),
        say("off everywhere, %"),
    )
    return Outcome(rule, reason, numbers, [Table(say("Largest differences of each layer"), columns, rows)])


def unknown(number: float | None) -> float | str:
    """Number, or ? where it is not known."""
    return "?" if number is None else number


# Linear and softmax (row 33).

Encode = Callable[[Network, Tensor], Tensor]


@torch.inference_mode()
def encoder_states(network: Network, ids: Tensor) -> Float[Tensor, "position d_model"]:
    """States that leave the encoder, of a text of ids (1, length)."""
    states: Tensor = network.encode(ids)[0] if network.kind == "encoder-decoder" else network.states(ids)[0]  # type: ignore[operator]
    return states


def is_distribution(rows: Float[Tensor, "position outcome"]) -> bool:
    """True where every row is a probability distribution."""
    return float(rows.min()) >= 0 and float((exact(rows).sum(dim=-1) - 1).abs().max()) < 1e-2


def find_encoder_end(request: Request, encode: Encode = encoder_states) -> Outcome:
    """States that leave the encoder, beside the same after a linear map and a softmax."""
    model = request.model
    if model.kind == "recurrent":
        return recurrent()
    if model.kind == "decoder-only":
        return unanswered(say("this model has no encoder: choose one that has"))
    trace, texts = read(model, request.text)
    states = encode(model.network, ids_of(model, texts)[0]).float()
    rows = [row_of(say("what leaves the encoder"), states)]
    if model.predicts:
        with torch.inference_mode():
            after = model.network.output(states.to(model.dtype)).float().softmax(dim=-1)
        rows.append(row_of(say("the same after a linear map and softmax, as in the figure"), after))
    if model.predicts and model.kind == "encoder-decoder":
        rows.append(row_of(say("what leaves the decoder after them"), trace["output.logits"].float().softmax(dim=-1)))
    own = Condition(say("what leaves the encoder is a probability distribution"), is_distribution(states))
    headed = Condition(say("linear and softmax follow it"), model.kind == "encoder-only" and model.predicts)
    rule = Rule([own | headed], wants=[own])
    reason = say(
        "what leaves the encoder has {columns} numbers a token, the least {least}, and sums from {low} to {high}: "
        "{end}",
        columns=states.shape[-1],
        least=float(states.min()),
        low=float(states.sum(dim=-1).min()),
        high=float(states.sum(dim=-1).max()),
        end=encoder_end(rule.verdict),
    )
    numbers = [
        Quantity(say("numbers a token, behind the encoder"), (float(states.shape[-1]),)),
        Quantity(say("least number, behind the encoder"), (float(states.min()),)),
    ]
    columns = ("", say("numbers a token"), say("least number"), say("least sum"), say("largest sum"))
    return Outcome(rule, reason, numbers, [Table(say("What stands behind"), columns, rows)])


def row_of(name: Message, rows: Float[Tensor, "position outcome"]) -> tuple[Message, int, float, float, float]:
    """Width, least number and sums of what leaves a stack."""
    sums = exact(rows).sum(dim=-1)
    return name, rows.shape[-1], float(rows.min()), float(sums.min()), float(sums.max())


def encoder_end(verdict: Verdict) -> Message:
    """Meaning of the rows."""
    return {
        Verdict.HOLDS: say("they are probabilities"),
        Verdict.IN_PART: say("they are states; linear and softmax follow, as this model has no decoder"),
        Verdict.WRONG: say("they are states, which no softmax has made"),
    }[verdict]


# The worked example (row 44).

DOCUMENT_WEIGHTS, DOCUMENT_OUTPUT = (0.0, 0.5, 0.5), (2.0, 7.0, 1.5)
ROUNDED = 0.005  # largest difference of a number that is written with two digits


def find_worked_example(request: Request, matrices: Mapping[str, Rows] = DOCUMENT) -> Outcome:
    """The first output of the example, with the true weights and with rounded ones, scaled and not."""
    factor = float(request.values["factor"])
    sharper = dict(matrices) | {"W_Q": tuple(tuple(factor * cell for cell in row) for row in matrices["W_Q"])}
    bare, scaled = (take_steps(sharper, on) for on in (False, True))
    weights, output = bare.weights[0].tolist(), bare.outputs[0].tolist()
    differences = [abs(a - b) for a, b in zip((*weights, *output), (*DOCUMENT_WEIGHTS, *DOCUMENT_OUTPUT), strict=True)]
    reason = say(
        "softmax of {scores} is {weights}, and the output {output}; with 1/√d_k it is {scaled}",
        scores=listed(bare.scores[0]),
        weights=listed(bare.weights[0]),
        output=listed(bare.outputs[0]),
        scaled=listed(scaled.outputs[0]),
    )
    numbers = [Quantity(say("largest difference from the document"), (max(differences),))]
    rows = [
        (say("the document, rounded"), listed(DOCUMENT_WEIGHTS), listed(DOCUMENT_OUTPUT)),
        (say("without 1/√d_k"), listed(bare.weights[0]), listed(bare.outputs[0])),
        (say("with 1/√d_k"), listed(scaled.weights[0]), listed(scaled.outputs[0])),
    ]
    outputs = [
        (str(number + 1), listed(bare.outputs[number]), listed(scaled.outputs[number]))
        for number in range(len(bare.outputs))
    ]
    figures = [
        Table(say("The first input"), ("", say("weights"), say("output")), rows),
        Table(say("All outputs"), (say("input"), say("without 1/√d_k"), say("with 1/√d_k")), outputs),
    ]
    return Outcome(Rule([at_most(numbers[0], ROUNDED)]), reason, numbers, figures)


def listed(numbers: Sequence[float] | Tensor) -> str:
    """Numbers with three digits."""
    return ", ".join(f"{float(number):.3g}" for number in numbers)


# Kinds of models (row 46).

SIZES = {"d_model": 32, "n_heads": 4, "d_ff": 64, "dropout": 0.0}
VOCABULARY, LENGTH, PLACE = 50, 10, 5  # of the new models, their text, and the token that is changed

Changes = Callable[[Network], Sequence[Intervention]]


def new_network(kind: Kind, seed: int) -> Network:
    """Small untrained network of a kind, of the network's own classes."""
    if kind == "encoder-decoder":
        stacks = {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY}
        config = TransformerConfig(**stacks, n_encoder_layers=2, n_decoder_layers=2, **SIZES)  # type: ignore[arg-type]
    else:
        config = TransformerConfig.one_stack(kind, VOCABULARY, 2, **SIZES)
    with seeded(seed, torch.device("cpu")):
        return build(config).eval().requires_grad_(False)


def unchanged(network: Network) -> Sequence[Intervention]:
    """No changes."""
    return ()


def find_kinds(request: Request, changes: Changes = unchanged) -> Outcome:
    """Stacks of new models of the three kinds and of the loaded one, and what a changed token moves."""
    model = request.model
    if model.kind == "recurrent":
        return recurrent()
    _trace, texts = read(model, request.text)
    if len(texts[-1]) < 3:
        return too_short(3, texts)
    place = len(texts[-1]) // 2
    token = another(model, texts[-1].ids[place])
    named: list[tuple[str, Kind, Network, list[float]]] = []
    for kind in (each for each in get_args(Kind) if each != "recurrent"):
        network = new_network(kind, request.seeds[0])
        generator = torch.Generator().manual_seed(request.seeds[0])
        ids = [torch.randint(3, VOCABULARY, (1, LENGTH), generator=generator) for _stack in network.config.stacks]
        other = (int(ids[-1][0, PLACE]) + 1) % VOCABULARY
        named.append((say("new"), kind, network, sides(network, ids, PLACE, other, changes(network))))
    own = sides(model.network, ids_of(model, texts), place, token, changes(model.network))
    named.append((model.name, model.kind, model.network, own))
    rows, right = [], []
    for name, kind, network, (before, after) in named:
        crosses = any(path.endswith("cross_attention") for path, _module in network.named_modules())
        sees_ahead = before > tolerance(model) * after
        fits = sees_ahead == (kind == "encoder-only") and crosses == (kind == "encoder-decoder")
        right.append(fits and after > 0)
        stacks = ", ".join(network.config.stacks)
        rows.append((name, KIND_NAMES[kind], stacks, say("yes") if crosses else say("no"), before, after))
    rule = Rule([Condition(say("each model sees ahead, and has cross-attention, where its kind does"), all(right))])
    by_kind = {kind: numbers for _name, kind, _network, numbers in named[:3]}
    reason = say(
        "another token in the middle moves what stands before it by {encoder} in an encoder alone and by {decoder} in "
        "a decoder alone; {name}, {kind}, moves it by {own}",
        encoder=by_kind["encoder-only"][0],
        decoder=by_kind["decoder-only"][0],
        name=model.name,
        kind=KIND_NAMES[model.kind],
        own=own[0],
    )
    columns = (
        say("model"),
        say("kind"),
        say("stacks"),
        say("cross-attention"),
        say("change before the token"),
        say("change from it on"),
    )
    numbers = [
        Quantity(say("change before the token, {kind}", kind=KIND_NAMES[kind]), (both[0],))
        for kind, both in by_kind.items()
    ]
    return Outcome(rule, reason, numbers, [Table(say("Another token in the middle"), columns, rows)])


def sides(
    network: Network, ids: Sequence[Tensor], place: int, token: int, changes: Sequence[Intervention]
) -> list[float]:
    """Largest change of a logit before the changed token, and from it on."""
    moved = future_change(network, ids, place, token, changes)
    return [float(moved[:place].max()), float(moved[place:].max())]


EXPERIMENTS = (
    Experiment(
        name="attention-formula",
        row=14,
        group=Group.ATTENTION,
        statement=say("Attention is softmax(Q Kᵀ / √d_k) V."),
        truth=say(
            "Each head of the paper is that, with a mask before the softmax. Some models add to it: a bias for the "
            "distance, another factor, a cap on the scores, a sink."
        ),
        run=at_once(find_attention),
        of_model=True,
        parameters=(LAYER, HEAD),
        formulas=(r"\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}} + M\right) V",),
        code=(attention, MultiHeadAttention.attend),
        source="Vaswani et al., 2017, section 3.2.1",
    ),
    Experiment(
        name="cross-attention",
        row=21,
        group=Group.ATTENTION,
        statement=say(
            "Cross-attention takes its queries from the decoder, its keys and values from the encoder; the two texts "
            "may differ in length."
        ),
        truth=say(
            "Keys and values are made of the encoder's output and do not follow the target. Queries are made of the "
            "decoder's states; above the first layer these follow the source too, since cross-attention has already "
            "written to them. The map is target × source."
        ),
        run=at_once(find_cross),
        of_model=True,
        parameters=(LAYER, HEAD),
        formulas=(
            r"Q = X_{dec} W^Q, \quad K = X_{enc} W^K, \quad V = X_{enc} W^V",
            r"QK^\top \in \mathbb{R}^{n_{target} \times n_{source}}",
        ),
        code=(find_cross, MultiHeadAttention.project),
        source="Vaswani et al., 2017, section 3.2.3",
    ),
    Experiment(
        name="several-heads",
        row=22,
        group=Group.ATTENTION,
        statement=say(
            "Several heads see several relations side by side, each of them of use to the model; Wᴼ joins them."
        ),
        truth=say(
            "Heads of a trained model do look at different places. But many can be removed one at a time with hardly "
            "any effect: how many depends on model and text."
        ),
        run=run_heads,
        of_model=True,
        parameters=(Parameter("least", say("least change, nats"), 0.01, 0, 10),),
        seconds=3.0,
        formulas=(
            r"\mathrm{MultiHead} = \mathrm{Concat}(head_1, \ldots, head_h)\, W^O",
            r"\max_t \mathrm{KL}(p_t \,\|\, p_t \text{ without head } h)",
        ),
        code=(nearest_other, map_distance, Removals),
        source="Vaswani et al., 2017, section 3.2.2; Michel et al., 2019, section 3.2",
    ),
    Experiment(
        name="feed-forward",
        row=31,
        group=Group.ATTENTION,
        statement=say("The feed-forward network is applied to each position separately."),
        truth=say(
            "The same weights, and nothing passes between positions: only attention does that. Many of its units are "
            "off at any one token where the activation is ReLU."
        ),
        run=at_once(find_feed_forward),
        of_model=True,
        formulas=(r"\mathrm{FFN}(x_i) = \max(0,\, x_i W_1 + b_1) W_2 + b_2 \quad \text{for each position } i",),
        code=(positions_apart, FeedForward),
        source="Vaswani et al., 2017, section 3.3",
    ),
    Experiment(
        name="encoder-softmax",
        row=33,
        group=Group.ATTENTION,
        statement=say("The encoder ends in a linear layer and a softmax."),
        truth=say(
            "Its output is states of d_model numbers, which the decoder's cross-attention reads; linear and softmax "
            "stand behind the decoder alone. A model without a decoder, as BERT, has them behind its encoder."
        ),
        run=at_once(find_encoder_end),
        of_model=True,
        formulas=(r"p = \mathrm{softmax}(X_{dec} W), \qquad K, V = X_{enc} W^K,\ X_{enc} W^V",),
        code=(encoder_states, Transformer.states),
        source="Vaswani et al., 2017, figure 1",
    ),
    Experiment(
        name="worked-example",
        row=44,
        group=Group.ATTENTION,
        statement=say(
            "By hand: the scores 2, 4, 4 of the first of three inputs become the weights 0, 0.5, 0.5, and its output "
            "is (2, 7, 1.5)."
        ),
        truth=say(
            "softmax(2, 4, 4) is (0.063, 0.468, 0.468), which the document rounds, and the output (1.94, 6.68, 1.60). "
            "It leaves out 1/√d_k too. The rounded weights are right where scores are several times as large."
        ),
        run=at_once(find_worked_example),
        parameters=(Parameter("factor", say("factor on W_Q"), 1.0, 0, 100),),
        formulas=(r"\mathrm{softmax}(XW^Q (XW^K)^\top)\, XW^V, \qquad \text{paper: } QK^\top / \sqrt{d_k}",),
        code=(take_steps, one_head),
        source="Vaswani et al., 2017, section 3.2.1; Karim, 2019",
    ),
    Experiment(
        name="kinds-of-models",
        row=46,
        group=Group.ATTENTION,
        statement=say("BERT is an encoder alone, GPT a decoder alone."),
        truth=say(
            "What tells them apart is the mask: an encoder's token sees both sides, a decoder's only what stands "
            "before it. A decoder alone has no cross-attention: its layers are those of an encoder with a causal mask."
        ),
        run=at_once(find_kinds),
        of_model=True,
        formulas=(r"\text{decoder: } M_{ij} = -\infty \text{ for } j > i, \qquad \text{encoder: } M = 0",),
        code=(EncoderOnly, DecoderOnly, Mask, future_change, without_causal_mask),
        source="Devlin et al., 2019, section 3; Radford et al., 2018, section 3.1",
    ),
)
