"""Components of what a model could write: one position's tokens, the decoding film, the tree of a beam search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from viz.components.plots import Heading, Plot, Table, known
from viz.components.registry import component, pack
from viz.components.view import Answer, PackedView, View
from viz.i18n.catalogue import _
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

    def header(self) -> dict[str, Any]:
        return known(self, "values")


@dataclass
class Ranking(Plot):
    """A position's tokens with their numbers; a click on one is answered by {position, token}.

    rows: each {token, label, special, actual, open: may be chosen, rank}, see choices.js. facts: above them.
    """

    COMPONENT = staticmethod(component("pages/predictions/ranking"))
    ANSWERS: ClassVar[Sequence[str]] = ("choice",)

    rows: Sequence[Mapping[str, Any]]
    columns: Sequence[Column]
    position: int
    facts: Sequence[str]
    _: KW_ONLY
    words: Mapping[str, str] = field(default_factory=choice_words)
    on_choice: Answer | None = None

    def header(self) -> dict[str, Any]:
        columns = [column.header() for column in self.columns]
        return {"rows": list(self.rows), "columns": columns, "position": self.position, "facts": list(self.facts)}

    def arrays(self) -> Sequence[NDArray[Any]]:
        return [np.array([column.values for column in self.columns], np.float32).T]

    def titles(self) -> Sequence[str]:
        return _("rank"), _("token"), *(column.name for column in self.columns)

    def lines(self) -> Table:
        (values,) = self.arrays()
        return [(row["rank"], row["label"], *line) for row, line in zip(self.rows, values.tolist(), strict=True)]


def film(
    weights: NDArray[np.float32],
    values: NDArray[np.float32],
    header: Mapping[str, Any],
    key: str,
    on_choice: Answer,
    heading: Heading,
) -> View:
    """Frames with the weights (map, frame, source) and the values (frame, row, column) of their tokens; a click on one
    puts {position, token} into the state as `choice`. Playing asks nothing of the server.

    header: `frames`, each {label, special, place: in `kept`, position, sees: so many of the source, sentence, share,
    rows}; `source`, {labels, special, side}; `kept`, {labels, special}, the text written, empty where it is the
    source; `side`, its tokens'; `maps`, names; `columns`, each a column's header; `depth`, rows of a frame;
    `difference`, `top`, `stamp`, `file`, `words`, their `csv` without the columns.
    """
    data = pack({**header, **heading.told}, [weights, values])
    return PackedView(_film, key, data, {"choice": on_choice, **heading.asked})


def tree(header: Mapping[str, Any], key: str, on_node: Answer, heading: Heading) -> View:
    """A beam search's nodes in columns; a click on one puts its number into the state as `node`.

    header: `nodes`, each {parent, step, row, label, fate, probability, sentence, open}, the root first; `hypotheses`,
    each {node, text, score}, best first; `legend`, each {fate, name}; `alt`, `stamp`, `file`, `words`.
    """
    return PackedView(_tree, key, pack({**header, **heading.told}), {"node": on_node, **heading.asked})
