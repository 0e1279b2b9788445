"""Panels for the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from viz.components.registry import component
from viz.figures.axis import Axis, Scale
from viz.figures.panels import Panel, Panels
from viz.i18n.catalogue import _
from viz.i18n.format import enumeration
from viz.render import grouping
from viz.render.renderer import Axes, Renderer, Table, attributes, crossed, renders

if TYPE_CHECKING:
    from model.analysis.pieces import Pieces


@renders(Panels)
class PanelsRenderer(Renderer[Panels]):
    """Small matrices; a click says a cell, −1 for a whole row's or column's label."""

    component = component("web/panels")
    clicks: ClassVar[Sequence[str]] = ("cell",)

    @staticmethod
    def grouped(figure: Panels, groups: Mapping[str, Pieces]) -> tuple[Panels, Mapping[str, Axes]]:
        axes = [
            (grouping.groups_on(each.rows, groups), grouping.groups_on(each.columns, groups)) for each in figure.panels
        ]
        if not any(map(any, axes)):
            return figure, {}
        panels = [grouped_panel(panel, *of_panel) for panel, of_panel in zip(figure.panels, axes, strict=True)]
        numbered = {str(number): {"row": rows, "column": columns} for number, (rows, columns) in enumerate(axes)}
        return replace(figure, panels=panels), numbered

    def shape(self) -> dict[str, Any]:
        sizes = {name: value for name in ("slot", "cell") if (value := getattr(self.figure, name)) is not None}
        large = {"large": True} if self.figure.large else {}
        return {**sizes, **large, "panels": [panel_header(panel) for panel in self.figure.panels]}

    def arrays(self) -> Sequence[NDArray[Any]]:
        none = np.zeros((0, 0), np.float32)
        each = ((none if panel.values is None else panel.values, flags(panel)) for panel in self.figure.panels)
        return [array for values, states in each for array in (np.asarray(values, np.float32), states)]

    def titles(self) -> Sequence[str]:
        return _("panel"), *(self.figure.cells or (_("query"), _("key"), _("value"), _("masked")))

    def lines(self) -> Table:
        lines: Table = []
        for panel in self.figure.panels:
            unknown = panel.scale is None or panel.values is None
            values = np.full(panel.visible.shape, np.nan) if unknown else np.asarray(panel.values, np.float32)
            columns = [label or str(place) for place, label in enumerate(panel.columns.labels or ())]
            cells = crossed(panel.rows.labels or (), columns, values, flags(panel) & 1)
            lines += [(panel.name, row, column, value, not seen) for row, column, value, seen in cells]
        return lines

    def summary(self) -> str:
        names = (f"{panel.name} {panel.note}".strip() for panel in self.figure.panels)
        return ". ".join(filter(None, (self.caption.sentence, enumeration(names))))


def grouped_panel(panel: Panel, rows: Pieces | None, columns: Pieces | None) -> Panel:
    """The matrix with each group of tokens as one."""
    values, changed = panel.values, panel.changed
    if values is not None:
        values = grouping.averaged(np.asarray(values, np.float32), rows, columns, panel.summed)
    pairs = zip((rows, columns), panel.framed or (), strict=False)
    return replace(
        panel,
        rows=grouping.grouped_axis(panel.rows, rows),
        columns=grouping.grouped_axis(panel.columns, columns),
        visible=grouping.largest(panel.visible, rows, columns),
        values=values,
        changed=None if changed is None else grouping.largest(changed, rows, columns),
        chosen=None if panel.chosen is None else grouping.place_of(rows, panel.chosen),
        framed=panel.framed and [grouping.place_of(*pair) for pair in pairs],
    )


def flags(panel: Panel) -> NDArray[np.uint8]:
    """(row, column): 1 where a cell is visible, and 2 more where it was changed."""
    visible = panel.visible.astype(np.uint8)
    return visible if panel.changed is None else visible | (2 * panel.changed.astype(np.uint8))


def panel_header(panel: Panel) -> dict[str, Any]:
    parts = attributes(panel, "visible", "values", "changed", "summed")
    return {name: attributes(value) if isinstance(value, Axis | Scale) else value for name, value in parts.items()}
