"""One matrix for embeddings and output saves weights."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from model.experiments.weight_tying import every_kind, tied
from model.inference.model import Inspectable
from model.network.config import TransformerConfig
from model.network.costs import parameters
from viz.i18n.catalogue import _
from viz.i18n.format import literal, not_ours
from viz.packing import lab_tying as packing
from viz.sections.lab_claim import show_claim
from viz.sections.lab_fields import sizes_of
from viz.ui.fields import Field
from viz.ui.parts import data_table, explanation, mount

PAPER = {"base": "paper-base", "big": "paper-big"}


def show(lens: Inspectable) -> None:
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
    given = sizes_of(lens, "tying", fields)
    if given is None:
        return
    models = {}
    if lens.model.ours:
        config = lens.config
        models[lens.name] = every_kind(config)
        if config.kind == "encoder-decoder" and config.source_vocabulary != config.target_vocabulary:
            # All three can be one only with one vocabulary: the larger, at least.
            size = max(config.source_vocabulary, config.target_vocabulary)
            shared = replace(config, source_vocabulary=size, target_vocabulary=size)
            models[_("{name}, one vocabulary of {size}").format(name=lens.name, size=f"{size:,}")] = every_kind(shared)
    else:
        st.info(not_ours())
    for name, preset in PAPER.items():
        both = dict.fromkeys(("source_vocabulary", "target_vocabulary"), given["cost_vocabulary"])
        title = {"base": _("paper, base"), "big": _("paper, big")}[name]
        models[title] = every_kind(TransformerConfig.preset(preset, **both))
    verdicts = [packing.verdict(name, kinds) for name, kinds in models.items()]
    st.text("\n".join([*verdicts, packing.check(models)]))
    places = st.columns(len(models), gap="medium")
    for place, (number, (name, kinds)) in zip(places, enumerate(models.items()), strict=True):
        mount([(place, packing.pack_tying(name, kinds, f"cost_tying_{number}"))])
    if lens.model.ours:
        sentence = _("{name} as it is loaded: {kind}, {count} weights.")
        kind, count = packing.kind_name(lens.config.tied_embeddings), f"{lens.model.parameter_count():,}"
        st.caption(sentence.format(name=literal(lens.name), kind=kind, count=count))
    left, right = st.columns(2, gap="medium")
    with left:
        explain()
    with right:
        data_table("cost_tying_data", lambda: packing.table(models), "lab-tying")


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
