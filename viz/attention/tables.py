"""The numbers behind the page of attention, as tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from model.analysis.head_metrics import METRICS
from viz.attention.shown import Drawn, Shown, metrics
from viz.attention.words import metric_name, quantity_name
from viz.i18n.catalogue import _


def weights_table(shown: Shown, drawn: Drawn) -> pd.DataFrame:
    rows, columns = shown.row_labels, shown.column_labels
    table = {
        _("query"): np.repeat(rows, len(columns)),
        _("key"): np.tile(columns, len(rows)),
        quantity_name(shown.wish.quantity): drawn.own.flatten().cpu().numpy(),
        _("masked"): ~shown.visible.flatten(),
    }
    if drawn.pinned is not None:
        table[_("pinned")] = drawn.pinned.flatten().cpu().numpy()
    return pd.DataFrame(table)


def metrics_table(shown: Shown) -> pd.DataFrame:
    """A row a head: all its numbers."""
    maps = shown.maps
    layers, heads = np.indices((maps.layers, maps.heads)) + 1
    numbers = {metric_name(name): values.flatten() for name, values in metrics(maps, *METRICS).items()}
    table = pd.DataFrame({_("layer"): layers.flatten(), _("head"): heads.flatten(), **numbers})
    if shown.pinned is not None:  # of the pinned text as it was, where that model has the head
        before = metrics(shown.pinned, *METRICS)
        for name, values in before.items():
            known = np.full((maps.layers, maps.heads), np.nan)
            known[: len(values)] = values[: maps.layers]
            table[_("{name}, pinned").format(name=metric_name(name))] = known.flatten()
    return table
