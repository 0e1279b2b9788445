"""The plot that the page Norms and residual alone has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viz.components.plots import Plot, Table
from viz.components.registry import component
from viz.i18n.catalogue import _


@dataclass
class Wiring(Plot):
    """Ways of placing norm, sublayer, dropout and short cut, one a row, drawn as wires.

    rows: each {name, formula, own: framed, boxes: [{text, kind: norm, sublayer, dropout or sum}], past: the way past
    the block, "bare", "" for none, or the name of a norm on it}.
    """

    COMPONENT = staticmethod(component("pages/residual/wiring"))

    rows: Sequence[Mapping[str, Any]]

    def header(self) -> dict[str, Any]:
        return {"rows": list(self.rows)}

    def titles(self) -> Sequence[str]:
        return _("placement"), _("formula"), _("this model")

    def lines(self) -> Table:
        return [(row["name"], row["formula"], row["own"]) for row in self.rows]

    def summary(self) -> str:
        return "; ".join(f"{row['name']}: {row['formula']}" for row in self.rows) + f". {self.heading.sentence}"
