"""What one matrix for embeddings and output saves, counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import streamlit as st

from model.experiments.weight_tying import Tied, every_kind, saved, tied
from model.inference.text_model import TextModel
from model.network.config import TransformerConfig
from model.network.costs import parameters
from viz.components.old_plots import chart
from viz.components.plots import Mount, Series
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import literal, not_ours
from viz.pages.lab.experiment import header, percent, show_claim, sizes_of
from viz.ui.fields import Field
from viz.ui.parts import data_table, explanation, mount
from viz.ui.plots import EXPECTED, FIRST, SECOND

Models = Mapping[str, Sequence[Tied]]  # by the name of each; the first kind is no tying


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


def pack_tying(name: str, kinds: Sequence[Tied], key: str) -> Mount:
    """Millions of weights of embeddings, output and all else, for each kind of tying, named as in a config."""
    shown = [each for each in kinds if not each.refusal]
    labels = [each.kind for each in shown]
    places = np.arange(len(labels))
    parts = [
        (_("embeddings"), FIRST, [each.embeddings for each in shown]),
        (_("output"), SECOND, [each.output for each in shown]),
        (_("all else"), EXPECTED, [each.rest for each in shown]),
    ]
    series = [Series(name, places, np.array(counts) / 1e6, colour, "bars") for name, colour, counts in parts]
    axis = _("millions of weights")
    told = "; ".join(f"{each.kind}: {each.total:,}" for each in shown)
    more = {
        "x": {"labels": labels, "side": "", "title": "tied_embeddings"},
        "y": {"title": axis, "zero": True},
        "tall": 240,
    }
    return chart(series, header(name, told, "lab-tying", told, (_("series"), _("kind"), axis), more), key)


def table(models: Models) -> pd.DataFrame:
    """A row for each model and kind of tying that can be."""
    rows = []
    for name, kinds in models.items():
        untied = next(each for each in kinds if each.kind == "none")
        for each in (each for each in kinds if not each.refusal):
            numbers = (each.embeddings, each.output, each.rest, each.total, each.built)
            row = {_("model"): name, "tied_embeddings": each.kind, _("shared"): kind_name(each.kind)}
            row |= dict(
                zip(
                    (_("embeddings"), _("output"), _("all else"), _("counted"), _("built")),
                    [f"{number:,}" for number in numbers],
                    strict=True,
                )
            )
            row[_("saved")] = percent(saved(each, untied))
            rows.append(row)
    return pd.DataFrame(rows)


# One matrix for embeddings and output saves weights.

PAPER = {"base": "paper-base", "big": "paper-big"}


def show(model: TextModel) -> None:
    show_claim(
        _("One matrix for the embeddings and the output saves weights."),
        _(
            "How many depends on the vocabulary and on which of the three matrices are shared; all three need one "
            "vocabulary for both sides. It saves no operation: the output multiplies by the same matrix. What it does "
            "to the loss is measured under “Trained side by side”."
        ),
    )
    fields = [
        Field("cost_vocabulary", _("vocabulary of the paper's models"), "37000", 100, 1_000_000, log=True),
    ]
    given = sizes_of(model, "tying", fields)
    if given is None:
        return
    models = {}
    if model.network.ours:
        config = model.config
        models[model.name] = every_kind(config)
        if config.kind == "encoder-decoder" and config.source_vocabulary != config.target_vocabulary:
            # All three can be one only with one vocabulary: the larger, at least.
            size = max(config.source_vocabulary, config.target_vocabulary)
            shared = replace(config, source_vocabulary=size, target_vocabulary=size)
            models[_("{name}, one vocabulary of {size}").format(name=model.name, size=f"{size:,}")] = every_kind(shared)
    else:
        st.info(not_ours())
    for name, preset in PAPER.items():
        both = dict.fromkeys(("source_vocabulary", "target_vocabulary"), given["cost_vocabulary"])
        title = {"base": _("paper, base"), "big": _("paper, big")}[name]
        models[title] = every_kind(TransformerConfig.preset(preset, **both))
    verdicts = [verdict(name, kinds) for name, kinds in models.items()]
    st.text("\n".join([*verdicts, check(models)]))
    places = st.columns(len(models), gap="medium")
    for place, (number, (name, kinds)) in zip(places, enumerate(models.items()), strict=True):
        mount([(place, pack_tying(name, kinds, f"cost_tying_{number}"))])
    if model.network.ours:
        sentence = _("{name} as it is loaded: {kind}, {count} weights.")
        kind, count = kind_name(model.config.tied_embeddings), f"{model.network.parameter_count():,}"
        st.caption(sentence.format(name=literal(model.name), kind=kind, count=count))
    left, right = st.columns(2, gap="medium")
    with left:
        explain()
    with right:
        data_table("cost_tying_data", lambda: table(models), "lab-tying")


def explain() -> None:
    explanation(
        "cost_tying_explanation",
        [r"V_s\,d + V_t\,d + V_t\,d \;\to\; V_s\,d + V_t\,d \;\to\; V\,d"],
        _(
            "Vaswani et al., section 3.4; Press and Wolf, 2017. The weights are counted by arithmetic on the model's "
            "options, and again by building the network on torch's meta device, which has shapes and no values. The "
            "paper's English–German vocabulary has about 37,000 tokens (section 5.1). This is the code that ran:"
        ),
        *(tied, parameters),
    )
