"""The figure that the page Map alone has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from viz.components.registry import component
from viz.figures.figure import Figure
from viz.i18n.catalogue import _
from viz.render.renderer import Renderer, Table, renders


@dataclass(frozen=True, eq=False)
class ModelMap(Figure):
    """A whole model. A click puts {block, head} into the state as `open`, {side, position} as `token`, "one" or
    "largest" as `scale`.

    model: `stacks`, from the first that computes to that with the output, each {name, side, labels, special, rows: of
    numbers of blocks, from the bottom}; `blocks`, each {kind, name, title, layer, note, flow: the width of its arrow,
    lines: [label, text]}; `predictions`, {title, labels, probabilities, pinned, side, position}; `summary`, lines of
    the whole model; `differing`; `scale`, "one" or "largest"; `top`, the largest difference. pictures: one of each
    block: levels (map, row, column), 0 hatched, else 1 to 65,535 over the scale; of a norm lines (line, position); or
    nothing.
    """

    model: Mapping[str, Any]
    pictures: Sequence[NDArray[Any]]


@renders(ModelMap)
class ModelMapRenderer(Renderer[ModelMap]):
    """Header and pictures as they are."""

    component = component("pages/map/model_map")
    clicks: ClassVar[Sequence[str]] = ("open", "token", "scale")

    def shape(self) -> dict[str, Any]:
        return {**self.figure.model, "shapes": [picture.shape for picture in self.figure.pictures]}

    def arrays(self) -> Sequence[NDArray[Any]]:
        return self.figure.pictures

    def titles(self) -> Sequence[str]:
        return _("block"), _("quantity"), _("value")

    def lines(self) -> Table:
        return [(block["name"], *line) for block in self.figure.model["blocks"] for line in block["lines"]]
