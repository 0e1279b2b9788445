"""What one matrix for embeddings and output saves, counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from model.experiments.weight_tying import Tied, every_kind, saved, tied
from model.inference.text_model import TextModel
from model.network.config import TWO_STACKS, TransformerConfig
from model.network.costs import parameters
from viz.components.plots import About, Axis, Chart, Heading, Series
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import not_ours
from viz.pages.lab.experiment import Experiment, Findings, percent, sizes_of
from viz.ui.fields import Field
from viz.ui.plots import EXPECTED, FIRST, SECOND

Models = Mapping[str, Sequence[Tied]]  # by the name of each; the first kind is no tying


def experiment(model: TextModel) -> Experiment:
    """One matrix for embeddings and output saves weights."""
    return Experiment(
        key="cost_tying",
        claim=_("One matrix for the embeddings and the output saves weights."),
        truth=_(
            "How many depends on the vocabulary and on which of the three matrices are shared; all three need one "
            "vocabulary for both sides. It saves no operation: the output multiplies by the same matrix. What it does "
            "to the loss is measured under “Trained side by side”."
        ),
        parts=[partial(findings, model)],
        formulas=[r"V_s\,d + V_t\,d + V_t\,d \;\to\; V_s\,d + V_t\,d \;\to\; V\,d"],
        explanation=_(
            "Vaswani et al., section 3.4; Press and Wolf, 2017. The weights are counted by arithmetic on the model's "
            "options, and again by building the network on torch's meta device, which has shapes and no values. The "
            "paper's English–German vocabulary has about 37,000 tokens (section 5.1). This is the code that ran:"
        ),
        code=(tied, parameters),
    )


def findings(model: TextModel) -> Findings | None:
    label = _("vocabulary of the paper's models")
    given = sizes_of(model, "tying", [Field("cost_vocabulary", label, "37000", 100, 1_000_000, log=True)])
    if given is None:
        return None
    ours = model.network.ours
    models = (loaded(model) if ours else {}) | of_the_paper(given["cost_vocabulary"])
    verdicts = [*(verdict(name, kinds) for name, kinds in models.items()), check(models)]
    if ours:
        sentence = _("{name} as it is loaded: {kind}, {count} weights.")
        kind, count = kind_name(model.config.tied_embeddings), f"{model.network.parameter_count():,}"
        verdicts.append(sentence.format(name=model.name, kind=kind, count=count))
    charts = [chart(name, kinds, f"cost_tying_{number}") for number, (name, kinds) in enumerate(models.items())]
    return Findings(verdicts, [charts], partial(table, models), "lab-tying", info="" if ours else not_ours())


def loaded(model: TextModel) -> dict[str, Sequence[Tied]]:
    """The loaded model, and with one vocabulary: all three matrices can be one only with the larger, at least."""
    config = model.config
    models: dict[str, Sequence[Tied]] = {model.name: every_kind(config)}
    if config.kind in TWO_STACKS and config.source_vocabulary != config.target_vocabulary:
        size = max(config.source_vocabulary, config.target_vocabulary)
        shared = replace(config, source_vocabulary=size, target_vocabulary=size)
        models[_("{name}, one vocabulary of {size}").format(name=model.name, size=f"{size:,}")] = every_kind(shared)
    return models


def of_the_paper(vocabulary: int) -> dict[str, Sequence[Tied]]:
    presets = {_("paper, base"): "paper-base", _("paper, big"): "paper-big"}
    both = dict.fromkeys(("source_vocabulary", "target_vocabulary"), vocabulary)
    return {name: every_kind(TransformerConfig.preset(preset, **both)) for name, preset in presets.items()}


def kind_name(kind: str) -> str:
    return {
        "none": _("nothing shared"),
        "output": _("output and the target's embedding"),
        "inputs": _("the embeddings of both sides"),
        "all": _("output and all embeddings"),
    }[kind]


def verdict(name: str, kinds: Sequence[Tied]) -> str:
    """What tying saves in one model, and why a kind cannot be."""
    untied = next(each for each in kinds if each.kind == "none")
    parts = [
        f"{kind_name(each.kind)} {untied.total - each.total:,} ({percent(saved(each, untied))})"
        for each in kinds
        if each is not untied and not each.refusal and each.total < untied.total
    ]
    found = "; ".join(parts) if parts else _("nothing")
    line = _("{name}, {count} weights with nothing shared. Sharing saves: {found}.").format(
        name=name, count=f"{untied.total:,}", found=found
    )
    refusals = dict.fromkeys(translate_error(each.refusal) for each in kinds if each.refusal)
    return " ".join([line, *(_("Not here: {reason}.").format(reason=reason) for reason in refusals)])


def check(models: Models) -> str:
    """Whether building the networks gives the counted numbers."""
    agree = all(each.built == each.total for kinds in models.values() for each in kinds if not each.refusal)
    if agree:
        return _("Every network was built on the device “meta” too: it has exactly the counted weights.")
    return _("The networks that were built have other numbers: the count is wrong.")


def chart(name: str, kinds: Sequence[Tied], key: str) -> Chart:
    """Millions of weights of embeddings, output and all else, for each kind of tying, named as in a config."""
    shown = [each for each in kinds if not each.refusal]
    labels = [each.kind for each in shown]
    parts = [
        (_("embeddings"), FIRST, [each.embeddings for each in shown]),
        (_("output"), SECOND, [each.output for each in shown]),
        (_("all else"), EXPECTED, [each.rest for each in shown]),
    ]
    places = np.arange(len(labels))
    series = [Series(part, places, np.array(counts) / 1e6, colour, "bars") for part, colour, counts in parts]
    totals = "; ".join(f"{each.kind}: {each.total:,}" for each in shown)
    above = Heading(name, "lab-tying", totals, alt=f"{name}: {totals}", about=about())
    weights = Axis(_("millions of weights"), zero=True)
    return Chart(key, above, series, Axis("tied_embeddings", labels), weights, tall=240, place=_("kind"))


def about() -> About:
    sentence = _(
        "Each group of bars is a kind of sharing: how many weights the embeddings, the output and all else have."
    )
    formula = r"V_s\,d + V_t\,d + V_t\,d \;\to\; V_s\,d + V_t\,d \;\to\; V\,d"
    return About(sentence, [formula], [tied])


def table(models: Models) -> pd.DataFrame:
    """A row for each model and kind of tying that can be."""
    titles = (_("embeddings"), _("output"), _("all else"), _("counted"), _("built"))
    rows = []
    for name, kinds in models.items():
        untied = next(each for each in kinds if each.kind == "none")
        for each in (each for each in kinds if not each.refusal):
            counts = (each.embeddings, each.output, each.rest, each.total, each.built)
            row = {_("model"): name, "tied_embeddings": each.kind, _("shared"): kind_name(each.kind)}
            row |= {title: f"{count:,}" for title, count in zip(titles, counts, strict=True)}
            rows.append(row | {_("saved"): percent(saved(each, untied))})
    return pd.DataFrame(rows)
