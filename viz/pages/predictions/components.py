"""Figures of what a model could write: one position's tokens, the decoding film, the tree of a beam search."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from viz.components.registry import component
from viz.figures.figure import Figure
from viz.i18n.catalogue import _
from viz.render import grouping
from viz.render.renderer import Axes, Renderer, Table, about_header, attributes, renders, words
from viz.ui.prediction import choice_words

if TYPE_CHECKING:
    from model.analysis.pieces import Pieces


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

    component = component("pages/predictions/ranking")
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


@dataclass(frozen=True)
class Frame:
    """A token of the film: its label, the position that predicted it, its probability and a sentence; rows: most
    probable tokens in its place, as of `Ranking`.

    place: where it comes in the text. before: tokens before it, and `last` of them. sees: tokens that were read.
    """

    label: str
    special: bool
    position: int
    place: int
    sees: int
    before: int
    last: str
    sentence: str
    share: float | None
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class DecodingFilm(Figure):
    """Tokens in their turn: attention of the position that predicted each, and the most probable tokens in its place;
    a click on one of these is answered by {position, token}. Playing asks nothing of the server.

    weights: (map, frame, source token); maps: their names; difference: from the pinned ones. values: (frame, row,
    column). source, written: labels of what is read and of the text written, empty where it is the source; side: of the
    text written. special: labels of no word.
    """

    frames: Sequence[Frame]
    weights: NDArray[np.float32]
    values: NDArray[np.float32]
    maps: Sequence[str]
    columns: Sequence[Column]
    source: Sequence[str]
    written: Sequence[str]
    side: str
    special: Collection[str]
    difference: bool


@renders(DecodingFilm)
class FilmRenderer(Renderer[DecodingFilm]):
    """Groups are one in what is read and what stands there already; the new token is one alone."""

    component = component("pages/predictions/decoding_film")
    clicks: ClassVar[Sequence[str]] = ("choice",)

    @staticmethod
    def grouped(figure: DecodingFilm, groups: Mapping[str, Pieces]) -> tuple[DecodingFilm, Mapping[str, Axes]]:
        source, text = groups.get("source"), groups.get(figure.side)
        maps, frames, tokens = figure.weights.shape
        weights = grouping.joined_values(
            figure.weights.reshape(-1, tokens), None, source, lambda of_source: of_source.sum
        ).reshape(maps, frames, -1)
        joined = replace(
            figure,
            weights=weights,
            source=figure.source if source is None else source.labels,
            written=text.labels if figure.written and text is not None else figure.written,
            frames=[grouped_frame(frame, bool(figure.written), source, text) for frame in figure.frames],
        )
        return joined, {}

    def _header(self) -> dict[str, Any]:
        figure, caption = self.figure, self.caption
        csv = (_("step"), _("actual token"), _("rank"), _("token"))
        return {
            "frames": [vars(frame) for frame in figure.frames],
            "source": self._labelled(figure.source) | {"side": "source"},
            "context": self._labelled(figure.written),
            "side": figure.side,
            "maps": list(figure.maps),
            "columns": [attributes(column, "values") for column in figure.columns],
            "depth": figure.values.shape[1],
            "difference": figure.difference,
            "top": float(np.nan_to_num(np.abs(figure.weights)).max()) or 1.0,
            "file": caption.file,
            "stamp": caption.stamp,
            "words": words(*csv, **figure.words),
            **about_header(caption),
        }

    def _labelled(self, labels: Sequence[str]) -> dict[str, Any]:
        return {"labels": list(labels), "special": [label in self.figure.special for label in labels]}

    def shape(self) -> dict[str, Any]:
        return {}

    def arrays(self) -> Sequence[NDArray[Any]]:
        return [self.figure.weights, self.figure.values]

    def titles(self) -> Sequence[str]:
        return _("position"), _("token"), _("actual token"), _("probability"), _("log-probability")

    def lines(self) -> Table:
        return [
            (frame.position + 1, row["label"], row["actual"], *numbers[:2].tolist())
            for frame, values in zip(self.figure.frames, self.figure.values, strict=True)
            for row, numbers in zip(frame.rows, values, strict=False)
        ]


def grouped_frame(frame: Frame, crossed: bool, source: Pieces | None, text: Pieces | None) -> Frame:
    """The frame with each group of tokens as one. crossed: the text is another than what is read."""
    before = frame.before if text is None else len(labels := text.of_first(frame.position + 1).labels)
    read = frame.sees if source is None else len(source.labels)
    return replace(
        frame,
        place=grouping.place_of(text, frame.position + 1),
        sees=read if crossed else before,
        before=before,
        last=frame.last if text is None else labels[-1],
    )


@dataclass(frozen=True)
class Candidate:
    """Node of a search's tree: the parent's number, step and row, its token and what became of it; open: the text can
    go on from it. total: log-probability of all from the first token on. greedy: greedy decoding writes it too.
    """

    parent: int
    step: int
    row: int
    label: str
    fate: str
    probability: float
    sentence: str = ""
    open: bool | None = None
    greedy: bool | None = None
    log_probability: float = 0.0
    total: float = 0.0
    score: float = 0.0


@dataclass(frozen=True, eq=False)
class BeamTree(Figure):
    """Candidates of a beam search in columns, the root first; a click on one is answered by its number.

    hypotheses: each {node, text, score}, best first. fates: their names.
    """

    candidates: Sequence[Candidate]
    hypotheses: Sequence[Mapping[str, Any]]
    fates: Mapping[str, str]


@renders(BeamTree)
class TreeRenderer(Renderer[BeamTree]):
    """Candidates as they are, but for what the table alone says."""

    component = component("pages/predictions/beam_tree")
    clicks: ClassVar[Sequence[str]] = ("node",)

    def _header(self) -> dict[str, Any]:
        figure, caption = self.figure, self.caption
        csv = (_("candidate"), _("step"), _("continues row"), _("token"), _("probability"), _("fate"))
        tabled = ("log_probability", "total", "score")
        return {
            "nodes": [attributes(candidate, *tabled) for candidate in figure.candidates],
            "hypotheses": list(figure.hypotheses),
            "legend": [{"fate": fate, "name": name} for fate, name in figure.fates.items()],
            "alt": caption.alt,
            "file": caption.file,
            "stamp": caption.stamp,
            "words": {**figure.words, **words(*csv)},
            **about_header(caption),
        }

    def shape(self) -> dict[str, Any]:
        return {}

    def titles(self) -> Sequence[str]:
        numbers = _("log-probability"), _("log-probability so far"), _("score")
        return _("step"), _("continues row"), _("token"), *numbers, _("fate")

    def lines(self) -> Table:
        fates = self.figure.fates
        return [
            (each.step, each.parent - 1, each.label, each.log_probability, each.total, each.score, fates[each.fate])
            for each in self.figure.candidates[1:]
        ]
