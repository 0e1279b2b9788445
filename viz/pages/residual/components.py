"""The figure that the page Norms and residual alone has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viz.components.registry import component
from viz.figures.figure import Figure
from viz.i18n.catalogue import _
from viz.i18n.format import clauses, in_turn, stopped, with_label
from viz.render.renderer import Renderer, Table, renders


@dataclass(frozen=True, eq=False)
class Wiring(Figure):
    """Ways of placing norm, sublayer, dropout and short cut, one a row, drawn as wires.

    rows: each {name, formula, own: framed, boxes: [{text, kind: norm, sublayer, dropout or sum}], past: the way past
    the block, "bare", "" for none, or the name of a norm on it}.
    """

    rows: Sequence[Mapping[str, Any]]


@renders(Wiring)
class WiringRenderer(Renderer[Wiring]):
    """Rows as they are."""

    component = component("pages/residual/wiring")

    def shape(self) -> dict[str, Any]:
        return {"rows": list(self.figure.rows)}

    def titles(self) -> Sequence[str]:
        return _("placement"), _("formula"), _("this model")

    def lines(self) -> Table:
        return [(row["name"], row["formula"], row["own"]) for row in self.figure.rows]

    def summary(self) -> str:
        return in_turn(
            stopped(clauses(with_label(row["name"], row["formula"]) for row in self.figure.rows)), self.caption.sentence
        )
