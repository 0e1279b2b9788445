"""Norm statistics as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas

from model.norms import Norm

if TYPE_CHECKING:
    from model.trace import Trace


COLUMNS = ["name", "position", "token", "mean", "std", "input norm", "output norm"]


def norm_table(trace: Trace) -> pandas.DataFrame:
    """A row per norm and position: mean and population deviation of its input, Euclidean norms in and out."""
    rows: list[pandas.DataFrame] = []
    for path in trace.norm_paths():
        x, y = trace[f"{path}.input"].float(), trace[f"{path}.output"].float()
        columns = {
            "name": path,
            "position": range(len(x)),
            "token": trace.tokens_of(path) or [""] * len(x),
            "mean": Norm.mean(x).tolist(),
            "std": Norm.std(x).tolist(),
            "input norm": x.norm(dim=-1).tolist(),
            "output norm": y.norm(dim=-1).tolist(),
        }
        rows.append(pandas.DataFrame(columns))
    return pandas.concat(rows, ignore_index=True) if rows else pandas.DataFrame(columns=COLUMNS)
