"""What one matrix for embeddings and output saves, counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from model.experiments.weight_tying import Tied, saved
from viz.components.plots import Mount, Series, chart
from viz.i18n.catalogue import _
from viz.i18n.errors import said
from viz.packing.lab_plots import header, percent
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
    refusals = dict.fromkeys(said(each.refusal) for each in kinds if each.refusal)
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
