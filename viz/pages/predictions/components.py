"""Components of what a model could write: one position's tokens, the decoding film, the tree of a beam search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from viz.components.registry import component, pack
from viz.components.view import Answer, PackedView, View
from viz.figures.figure import Caption, Figure
from viz.i18n.catalogue import _
from viz.render.renderer import Renderer, Table, about_header, attributes, renders
from viz.render.view import about_click
from viz.ui.prediction import choice_words

_film = component("pages/predictions/decoding_film")
_tree = component("pages/predictions/beam_tree")


@dataclass(frozen=True)
class Column:
    """A number of each token, as a "bar", a "number", or one that is "signed"."""

    name: str
    values: Sequence[float]
    formula: str
    mark: str = "number"
    colour: str | None = None


@dataclass(frozen=True, eq=False)
class Ranking(Figure):
    """A position's tokens with their numbers; a click on one is answered by {position, token}.

    rows: each {token, label, special, actual, open: may be chosen, rank}, see choices.js. facts: above them.
    """

    rows: Sequence[Mapping[str, Any]]
    columns: Sequence[Column]
    position: int
    facts: Sequence[str]
    _: KW_ONLY
    words: Mapping[str, str] = field(default_factory=choice_words)


@renders(Ranking)
class RankingRenderer(Renderer[Ranking]):
    """Rows as they are, with the columns' numbers."""

    component = staticmethod(component("pages/predictions/ranking"))
    clicks: ClassVar[Sequence[str]] = ("choice",)

    def shape(self) -> dict[str, Any]:
        figure = self.figure
        columns = [attributes(column, "values") for column in figure.columns]
        facts = list(figure.facts)
        return {"rows": list(figure.rows), "columns": columns, "position": figure.position, "facts": facts}

    def arrays(self) -> Sequence[NDArray[Any]]:
        return [np.array([column.values for column in self.figure.columns], np.float32).T]

    def titles(self) -> Sequence[str]:
        return _("rank"), _("token"), *(column.name for column in self.figure.columns)

    def lines(self) -> Table:
        (values,) = self.arrays()
        return [(row["rank"], row["label"], *line) for row, line in zip(self.figure.rows, values.tolist(), strict=True)]


def film(
    weights: NDArray[np.float32],
    values: NDArray[np.float32],
    header: Mapping[str, Any],
    key: str,
    on_choice: Answer,
    heading: Caption,
) -> View:
    """Frames with the weights (map, frame, source) and the values (frame, row, column) of their tokens; a click on one
    puts {position, token} into the state as `choice`. Playing asks nothing of the server.

    header: `frames`, each {label, special, place: in `kept`, position, sees: so many of the source, sentence, share,
    rows}; `source`, {labels, special, side}; `kept`, {labels, special}, the text written, empty where it is the
    source; `side`, its tokens'; `maps`, names; `columns`, each a column's header; `depth`, rows of a frame;
    `difference`, `top`, `stamp`, `file`, `words`, their `csv` without the columns.
    """
    data = pack({**header, **about_header(heading)}, [weights, values])
    return PackedView(_film, key, data, {"choice": on_choice, **about_click(heading)})


def tree(header: Mapping[str, Any], key: str, on_node: Answer, heading: Caption) -> View:
    """A beam search's nodes in columns; a click on one puts its number into the state as `node`.

    header: `nodes`, each {parent, step, row, label, fate, probability, sentence, open}, the root first; `hypotheses`,
    each {node, text, score}, best first; `legend`, each {fate, name}; `alt`, `stamp`, `file`, `words`.
    """
    return PackedView(_tree, key, pack({**header, **about_header(heading)}), {"node": on_node, **about_click(heading)})
