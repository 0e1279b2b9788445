"""The plot that the page Map alone has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from viz.components.plots import Plot, Table
from viz.components.registry import component
from viz.components.view import Answer
from viz.i18n.catalogue import _


@dataclass
class ModelMap(Plot):
    """A whole model. A click puts {block, head} into the state as `open`, {side, position} as `token`, "one" or
    "largest" as `scale`.

    model: `stacks`, from the first that computes to that with the output, each {name, side, labels, special, rows: of
    numbers of blocks, from the bottom}; `blocks`, each {kind, name, title, layer, note, flow: the width of its arrow,
    lines: [label, text]}; `predictions`, {title, labels, probabilities, pinned, side, position}; `summary`, lines of
    the whole model; `differing`; `scale`, "one" or "largest"; `top`, the largest difference. pictures: one of each
    block: levels (map, row, column), 0 hatched, else 1 to 65,535 over the scale; of a norm lines (line, position); or
    nothing.
    """

    COMPONENT = staticmethod(component("pages/map/model_map"))
    ANSWERS: ClassVar[Sequence[str]] = ("open", "token", "scale")

    model: Mapping[str, Any]
    pictures: Sequence[NDArray[Any]]
    _: KW_ONLY
    on_open: Answer
    on_token: Answer
    on_scale: Answer

    def header(self) -> dict[str, Any]:
        return {**self.model, "shapes": [picture.shape for picture in self.pictures]}

    def arrays(self) -> Sequence[NDArray[Any]]:
        return self.pictures

    def titles(self) -> Sequence[str]:
        return _("block"), _("quantity"), _("value")

    def lines(self) -> Table:
        return [(block["name"], *line) for block in self.model["blocks"] for line in block["lines"]]
