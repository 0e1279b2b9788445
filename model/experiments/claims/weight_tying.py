"""Weights saved by sharing a matrix between embeddings and output (row 32; section 3.4; Press and Wolf, 2017)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import get_args

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
    at_once,
)
from model.experiments.rule import Condition, Quantity, each_of, exceeds
from model.inference.text_model import TextModel
from model.message import Message, say
from model.network.config import TWO_STACKS, TiedEmbeddings, TransformerConfig
from model.network.costs import parameters
from model.network.transformer import skeleton

KINDS: tuple[TiedEmbeddings, ...] = get_args(TiedEmbeddings)
WITH_OUTPUT = ("output", "all")  # kinds that share the output's matrix
KIND_NAMES: dict[str, str] = {
    "none": say("nothing shared"),
    "output": say("output and the target's embedding"),
    "inputs": say("the embeddings of both sides"),
    "all": say("output and all embeddings"),
}


@dataclass(frozen=True)
class TyingCounts:
    """Numbers of weights with one kind of tying: in the embeddings, in the output's own matrix, and in the rest.

    built: number of weights of a network that was built without values. refusal: why the config refuses this kind.
    """

    kind: TiedEmbeddings
    embeddings: int = 0
    output: int = 0
    rest: int = 0
    built: int = 0
    refusal: str = ""

    @property
    def total(self) -> int:
        """Number of all weights."""
        return self.embeddings + self.output + self.rest


@lru_cache(maxsize=64)
def tied(config: TransformerConfig, kind: TiedEmbeddings) -> TyingCounts:
    """Numbers of weights of a config with another kind of tying, by arithmetic and by building the network."""
    try:
        wanted = replace(config, tied_embeddings=kind)
    except ValueError as error:
        return TyingCounts(kind, refusal=str(error))
    counts = parameters(wanted)
    embeddings, output = counts.pop("embeddings"), counts.pop("output")
    return TyingCounts(kind, embeddings, output, sum(counts.values()), skeleton(wanted).parameter_count())


def every_kind(config: TransformerConfig) -> tuple[TyingCounts, ...]:
    """Numbers of weights of a config with each kind of tying."""
    return tuple(tied(config, kind) for kind in KINDS)


def saved(shared: TyingCounts, untied: TyingCounts) -> float:
    """Share of the untied network's weights that tying saves."""
    return 1 - shared.total / untied.total


@dataclass(frozen=True)
class ModelCounts:
    """Weights of a model with each kind of tying, the first of which is none. refusal: why some kinds cannot be."""

    name: str
    kinds: Sequence[TyingCounts]
    refusal: Message | None = None

    @property
    def possible(self) -> list[TyingCounts]:
        """Kinds of tying that the config allows."""
        return [kind for kind in self.kinds if not kind.refusal]

    @property
    def most_saved(self) -> int:
        """Number of weights that sharing the output's matrix saves at most; 0 where it cannot be shared."""
        shared = [kind for kind in self.possible if kind.kind in WITH_OUTPUT]
        return max((self.kinds[0].total - kind.total for kind in shared), default=0)

    @property
    def share(self) -> float:
        """Most saved weights as a share of all, in %."""
        return 100 * self.most_saved / self.kinds[0].total


def count(name: str, config: TransformerConfig) -> ModelCounts:
    """Weights of a config with each kind of tying."""
    kinds = every_kind(config)
    if not any(kind.refusal for kind in kinds):
        return ModelCounts(name, kinds)
    if config.output_head == "none":
        return ModelCounts(name, kinds, say("there is no output in {name} whose matrix could be shared", name=name))
    return ModelCounts(
        name,
        kinds,
        say(
            "the embeddings of both sides of {name} cannot be one matrix: its vocabularies have {source} and {target} "
            "tokens",
            name=name,
            source=config.source_vocabulary,
            target=config.target_vocabulary,
        ),
    )


def of_model(model: TextModel) -> list[ModelCounts]:
    """Loaded model, and with one vocabulary where it has two; none of a model that is run by foreign code."""
    if not model.network.ours:
        return []
    counts, config = [count(model.name, model.config)], model.config
    if config.kind in TWO_STACKS and config.source_vocabulary != config.target_vocabulary:
        size = max(config.source_vocabulary, config.target_vocabulary)
        shared = replace(config, source_vocabulary=size, target_vocabulary=size)
        counts.append(count(say("{name}, one vocabulary of {size}", name=model.name, size=size), shared))
    return counts


def of_paper(vocabulary: int) -> list[ModelCounts]:
    """Sizes of the paper with one vocabulary of this size."""
    presets: Mapping[str, str] = {"paper-base": say("paper, base"), "paper-big": say("paper, big")}
    both = {"source_vocabulary": vocabulary, "target_vocabulary": vocabulary}
    return [count(name, TransformerConfig.preset(preset, **both)) for preset, name in presets.items()]


def judge(models: Sequence[ModelCounts]) -> Outcome:
    """Verdict on "it saves weights": whether sharing the output's matrix does in every model."""
    saving = [model for model in models if model.most_saved > 0]
    of_models = [exceeds(Quantity(say("weights saved at most"), (float(model.most_saved),)), 0.0) for model in models]
    end = say("every network was built too, without values, and has exactly the counted weights")
    right = Condition(end, all(kind.built == kind.total for model in models for kind in model.possible))
    if not right.met:
        end = say("the networks that were built have other numbers: the count is wrong")
    largest = max(models, key=lambda model: model.share)
    reason = say(
        "sharing the matrix of the output saves weights in {saving} of {count} models, at most {saved} of the {full} "
        "of {name}, {share} %; {end}",
        saving=len(saving),
        count=len(models),
        saved=largest.most_saved,
        full=largest.kinds[0].total,
        name=largest.name,
        share=largest.share,
        end=end,
    )
    quantities = [
        Quantity(say("weights saved at most, {name}", name=model.name), (model.share,), "%") for model in models
    ]
    figures: list[Figure] = [*map(bars, models), table(models)]
    rule = replace(each_of(of_models, of_models[0].text), given=[right])
    return Outcome(rule, reason, quantities, figures, remarks=[each.refusal for each in models if each.refusal])


def bars(model: ModelCounts) -> Curves:
    """Millions of weights of embeddings, output and all else, for each kind of tying, named as in a config."""
    kinds = model.possible
    parts = (
        (say("embeddings"), [kind.embeddings for kind in kinds]),
        (say("output"), [kind.output for kind in kinds]),
        (say("all else"), [kind.rest for kind in kinds]),
    )
    places = list(range(len(kinds)))
    curves = [Curve(name, places, [count / 1e6 for count in counts], style="bars") for name, counts in parts]
    title = say("Weights of {name}", name=model.name)
    return Curves(title, "tied_embeddings", say("millions of weights"), curves, ticks=[kind.kind for kind in kinds])


def table(models: Sequence[ModelCounts]) -> Table:
    """A row for each model and kind of tying that can be."""
    rows: list[list[str | float | int]] = []
    for model in models:
        for kind in model.possible:
            counts = (kind.embeddings, kind.output, kind.rest, kind.total, kind.built)
            percent = 100 * saved(kind, model.kinds[0])
            rows.append([model.name, kind.kind, KIND_NAMES[kind.kind], *counts, percent])
    columns = (
        say("model"),
        "tied_embeddings",
        say("shared"),
        say("embeddings"),
        say("output"),
        say("all else"),
        say("counted"),
        say("built"),
        say("saved, %"),
    )
    return Table(say("Weights by what is shared"), columns, rows)


def find(request: Request) -> Outcome:
    """Weights of the loaded model and of the paper's sizes."""
    model = request.model
    outcome = judge([*of_model(model), *of_paper(request.values["vocabulary"])])
    if not model.network.ours:
        remark = say("transformers' own code runs {name}, which is not counted", name=model.name)
    else:
        kind, weights = KIND_NAMES[model.config.tied_embeddings], model.network.parameter_count()
        remark = say("as it is loaded, {name} has {count} weights: {kind}", name=model.name, kind=kind, count=weights)
    return replace(outcome, remarks=[remark, *outcome.remarks])


EXPERIMENTS = (
    Experiment(
        name="tied-weights",
        row=32,
        group=Group.COST,
        statement=say("One matrix for the embeddings and the output saves weights."),
        truth=say(
            "How many depends on the vocabulary and on which of the three matrices are shared; all three need one "
            "vocabulary for both sides. It saves no operation: the output multiplies by the same matrix. What it does "
            "to the loss is another measurement."
        ),
        run=at_once(find),
        parameters=(Parameter("vocabulary", say("the paper's vocabulary"), 37_000, 100, 1_000_000),),
        of_model=True,
        formulas=(r"V_s\,d + V_t\,d + V_t\,d \;\to\; V_s\,d + V_t\,d \;\to\; V\,d",),
        method=say(
            "The weights are counted by arithmetic on the model's options, and again by building the network on "
            "torch's meta device, which has shapes and no values. The paper's English–German vocabulary has about "
            "37,000 tokens (section 5.1)."
        ),
        code=(tied, parameters, judge),
        source="section 3.4; Press & Wolf, 2017",
    ),
)
