"""Attention variants on the loaded model's own queries, keys and values: pattern and error of each (row 45)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from model.capture.trace import ATTENTION_PATHS, Trace
from model.experiments.engines.trace_inputs import recurrent
from model.experiments.experiment import Experiment, Grid, Group, Outcome, Parameter, Request, Table, at_once
from model.experiments.rule import Quantity, Rule, clearly_below, each_of
from model.experiments.variants.index import variants
from model.experiments.variants.variant import AttentionOutput, Shape, Sizes, Variant
from model.message import InputError, Message, say
from model.network.attention import for_each_head

CLOSE = 0.1  # of the norm of full attention's output: a variant with a smaller error comes near


@dataclass(frozen=True)
class HeadInputs:
    """Queries, keys and values (head, token, channel) of one self-attention on a text, in float64, and its mask.

    own: heads that the model itself made of them; None: of more tokens than these.
    """

    query: Float[Tensor, "head token channel"]
    key: Float[Tensor, "head token channel"]
    value: Float[Tensor, "head token value"]
    visible: Bool[Tensor, "token token"]
    own: Tensor | None
    labels: Sequence[str]


def loaded(trace: Trace, stack: str, layer: int, most: int) -> HeadInputs:
    """Queries, keys and values of the first `most` tokens of a text, in a layer counted from 1.

    stack: of a model that has both. Queries are scaled so that every variant divides by √d_k, whatever the model does.

    Raises:
        ValueError: the model has no such layer.
        MissingQuantityError: the model does not show them.
    """
    config = trace.network.config
    stack = stack if stack in config.stacks else config.stacks[0]
    if layer > config.depth(stack):
        raise InputError(
            "layer is {layer}, and this model has {depth}: choose one of these", layer=layer, depth=config.depth(stack)
        )
    path = ATTENTION_PATHS[stack].format(layer - 1)
    query, key, scaled, scores = (trace[f"{path}.{name}"] for name in ("query", "key", "scaled", "scores"))
    ratio = float((scaled.double() * scores.double()).sum() / scores.double().square().sum())
    whole = query.shape[1] <= most
    query, key, value = (
        for_each_head(x.double().cpu(), len(query))[:, :most] for x in (query, key, trace.values(path))
    )
    visible = torch.ones(query.shape[1], query.shape[1], dtype=torch.bool)
    own = trace[f"{path}.heads"].double().cpu() if whole else None
    labels = trace.tokens_of(path)[:most]
    root = query.shape[-1] ** 0.5
    return HeadInputs(query * ratio * root, key, value, visible.tril() if stack == "decoder" else visible, own, labels)


def error(heads: Tensor, reference: Tensor) -> float:
    """Relative error ‖heads − reference‖ / ‖reference‖."""
    return float((heads - reference).norm() / reference.norm())


def is_cheaper(variant: Variant) -> bool:
    """True of a variant that promises less than full attention takes: time, or numbers that are kept."""
    whole = Shape(8, 64, 64)
    numbers = variant.cached(whole) if variant.cached else 0
    return variant.exponents[0] < 2 or numbers < 2 * whole.heads * whole.length * whole.width


def compare(given: HeadInputs, head: int, draws: Sequence[Sequence[Variant]]) -> Outcome:
    """Errors and patterns of a head, counted from 1, of all variants but the first, which is full attention. draws: the
    variants with each seed of what is random in them; patterns are drawn with the first.

    Raises:
        ValueError: there is no such head.
    """
    count, length, width = given.query.shape
    if head > count:
        raise InputError("head is {head}, and this layer has {count}: choose one of these", head=head, count=count)
    by_draw: list[dict[str, AttentionOutput]] = [
        {each.key: each.attend(given.query, given.key, given.value, given.visible) for each in drawn} for drawn in draws
    ]
    compared = draws[0]
    full = by_draw[0][compared[0].key].heads[head - 1]
    figures: list[Any] = []
    quantities, rows, errors = [], [], {}
    for each in compared:
        weights = by_draw[0][each.key].weights[head - 1]
        errors[each.key] = [error(drawn[each.key].heads[head - 1], full) for drawn in by_draw]
        seen = float((weights != 0).sum() / given.visible.sum())
        numbers = "–" if each.cached is None else each.cached(Shape(count, length, width))
        rows.append((each.name, 100 * fmean(errors[each.key]), 100 * seen, numbers, each.needs))
        title = say("Weights of each key: {variant}", variant=each.name)
        labels = list(given.labels)
        figures.append(Grid(title, weights.tolist(), labels, labels, say("query"), say("key")))
        if each is not compared[0]:
            quantities.append(
                Quantity(
                    say("error against full attention: {variant}", variant=each.name),
                    tuple(100 * value for value in errors[each.key]),
                    "%",
                )
            )
    if given.own is not None:
        name = say("full attention against the model's own heads")
        quantities.append(Quantity(name, (100 * error(full, given.own[head - 1]),), "%"))
    columns = (
        *(say("variant"), say("error in %"), say("keys that count, in %\xa0of the visible ones")),
        *(say("numbers kept in this layer"), say("weights of its own")),
    )
    figures.insert(0, Table(say("Each variant in the place of full attention"), columns, rows))
    rule, reason = judge([each for each in compared if is_cheaper(each)], errors)
    return Outcome(rule, reason, quantities, figures)


def judge(cheaper: Sequence[Variant], errors: Mapping[str, Sequence[float]]) -> tuple[Rule | None, Message]:
    """Rule and reason, from the errors of the cheaper variants with each seed."""
    if not all(error == error for values in errors.values() for error in values):
        return None, say("full attention gives zeros here, so that no error can be told")
    means = {key: fmean(values) for key, values in errors.items()}
    best, *_, worst = sorted(cheaper, key=lambda each: means[each.key])
    error = say("error of each cheaper variant")
    near = [
        clearly_below(Quantity(error, tuple(100 * value for value in errors[each.key]), "%"), 100 * CLOSE)
        for each in cheaper
    ]
    met = [each.met for each in near]
    reason = say(
        "{near} of {count} cheaper variants stay within {close} %\xa0of full attention's output, {far} do not, and of "
        "{unsure} the seeds do not decide it; nearest is {best} with an error of {least} %, farthest {worst} with "
        "{most} %",
        near=met.count(True),
        far=met.count(False),
        unsure=met.count(None),
        count=len(cheaper),
        close=100 * CLOSE,
        best=best.name,
        least=100 * means[best.key],
        worst=worst.name,
        most=100 * means[worst.key],
    )
    return each_of(near, near[0].text), reason


def find(request: Request) -> Outcome:
    """Errors of all variants on the loaded model and the text."""
    values = request.values
    if request.model.kind == "recurrent":
        return recurrent()
    sizes = Sizes(width=values["width"], rank=values["rank"], sinks=values["sinks"], features=values["features"])
    given = loaded(request.model.trace(request.text), values["stack"], values["layer"], values["tokens"])
    return compare(given, values["head"], [variants(replace(sizes, seed=seed)) for seed in request.seeds])


EXPERIMENTS = (
    Experiment(
        name="attention-variants",
        row=45,
        group=Group.ARCHITECTURES,
        statement=say(
            "Attention that is sparse, hashed, low-rank, linear or shares its keys gives nearly what full attention "
            "gives."
        ),
        truth=say(
            "Each leaves something out, and how much that matters depends on where this head looks: on weights that "
            "were trained with full attention most are far from it. Shared heads take the mean of the heads' keys and "
            "values, the latent is the best one for this text, Linformer averages neighbouring tokens, additive "
            "attention has a v of ones and differential attention the λ of its first layer, without its norm; "
            "DeepSeek's decoupled rotary key is left out. Causal, differential and additive attention are no cheaper, "
            "and do not count."
        ),
        run=at_once(find),
        of_model=True,
        seeded=True,
        parameters=(
            Parameter("stack", say("stack"), "encoder", choices=("encoder", "decoder")),
            Parameter("layer", say("layer, from 1"), 1, 1.0, 1000.0),
            Parameter("head", say("head, from 1"), 1, 1.0, 1000.0),
            Parameter("tokens", say("first tokens, at most"), 64, 2.0, 256.0),
            Parameter("width", say("tokens of a window or block"), 4, 1.0, 128.0),
            Parameter("sinks", say("first tokens kept as sinks"), 1, 1.0, 16.0),
            Parameter("rank", say("rank (Linformer, latent)"), 4, 1.0, 256.0),
            Parameter("features", say("random features"), 64, 2.0, 4096.0),
        ),
        seconds=1.0,
        formulas=tuple(rf"\text{{{each.key}}}: {each.formula}" for each in variants(Sizes())),
        code=tuple(dict.fromkeys(code for each in variants(Sizes()) for code in each.code)),
        source="; ".join(dict.fromkeys(each.source for each in variants(Sizes()))),
    ),
)
