"""Runs of tokens that are pieces of one word, or of one character, and the choice to show them as one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from viz.i18n.format import tokens
from viz.state.session import Session

if TYPE_CHECKING:
    from torch import Tensor

    from model.analysis.pieces import Pieces
    from model.capture.trace import Trace
    from model.inference.text_model import TextModel
    from model.text.tokenizer import Tokenizer
    from model.training.live.film import Film

PIECES, MERGED = "pieces", "merged"  # a parameter of the address bar, and its value where they are one


def text_groups(session: Session) -> dict[str, Pieces]:
    """Runs of each text, by its side; without those where no token is a piece."""
    if session.traced_input is None:
        return {}
    trace = session.trace
    every: dict[str, Pieces] = session.cached("pieces", (trace,), lambda: of_trace(session, trace))
    return every


def of_trace(session: Session, trace: Trace) -> dict[str, Pieces]:
    """Runs of another trace of the model that is shown."""
    return of_tokens(session.model, trace.source_tokens, trace.target_tokens)


def of_tokens(model: TextModel, source: Sequence[str], target: Sequence[str]) -> dict[str, Pieces]:
    """Runs of tokens with these labels, by a model's tokenizers."""
    from model.analysis.pieces import pieces

    sides = {"source": (source, model.source_tokenizer), "target": (target, model.target_tokenizer)}
    runs = {
        side: pieces(labels, model.special_labels, by.continues)
        for side, (labels, by) in sides.items()
        if not by.reason  # a text of ids: numbers side by side are no word
        and not of_characters(labels, model.special_labels, by)
    }
    return {side: each for side, each in runs.items() if each.joined}


def of_characters(labels: Sequence[str], special: Collection[str], by: Tokenizer) -> bool:
    """True if each token is a character that stands for itself: what is cut so is no piece of anything."""
    return not by.words and not by.continues and all(len(label) < 2 for label in labels if label not in special)


def wanted(session: Session) -> bool:
    """True if pieces are to be shown as one."""
    return session.address.get(PIECES) == MERGED


def merged(session: Session) -> dict[str, Pieces]:
    """Runs of each text that are shown as one, by its side; empty where they are shown apart."""
    return text_groups(session) if wanted(session) else {}


def merged_in(session: Session, film: Film) -> dict[str, Pieces]:
    """Runs of the text on which a training is watched, where they are shown as one."""
    if not wanted(session):
        return {}
    target = film.probe.target
    return of_tokens(film.model, film.probe.source.labels, target.labels if target else [])


def run_labels(session: Session, side: str, labels: Sequence[str]) -> list[str]:
    """Label of each of these tokens' run, where pieces are shown as one, else its own."""
    runs = merged(session).get(side)
    if runs is None or len(labels) != len(runs.tokens):
        return list(labels)
    return [runs.labels[run] for run in runs.run_of]


def run_of(session: Session, side: str, token: int) -> int:
    """Place of a token in the pictures: its run, where pieces are shown as one."""
    runs = merged(session).get(side)
    return token if runs is None or not 0 <= token < len(runs.run_of) else runs.run_of[token]


def turn(session: Session) -> None:
    """Show pieces as one, or apart again."""
    session.address.set(PIECES, None if merged(session) else MERGED)


class GroupedAxes:
    """Rows and columns of a map: tokens, or runs of them, where `merged` has some of that side; rows from
    a run are averaged, columns to one added up (Clark et al., 2019, section 4.1).
    """

    def __init__(self, trace: Trace, sides: tuple[str, str], merged: Mapping[str, Pieces]) -> None:
        self.rows, self.columns = (merged.get(side) for side in sides)
        pairs = zip(sides, (self.rows, self.columns), strict=True)
        self.labels = [tokens(trace, side) if runs is None else runs.labels for side, runs in pairs]

    @property
    def joined(self) -> bool:
        """True if any row or column is several tokens."""
        return self.rows is not None or self.columns is not None

    def of(self, cells: Tensor) -> Tensor:
        """Weights, or parts that add up, (…, query, key), as (…, row, column)."""
        rows = cells if self.rows is None else self.rows.mean(cells, -2)
        return rows if self.columns is None else self.columns.sum(rows, -1)

    def any(self, visible: Tensor) -> Tensor:
        """Visibility of any cell of a row and a column."""
        rows = visible if self.rows is None else self.rows.largest(visible, -2)
        return rows if self.columns is None else self.columns.largest(rows, -1)

    def row_of(self, query: int) -> int:
        """The row of a token."""
        return query if self.rows is None else self.rows.run_of[query]

    def queries_of(self, query: int) -> Sequence[int]:
        """The tokens of a token's row; what is none stays."""
        return _with(self.rows, query)

    def keys_of(self, key: int) -> Sequence[int]:
        """The tokens of a token's column; what is none stays."""
        return _with(self.columns, key)


def _with(runs: Pieces | None, token: int) -> Sequence[int]:
    """All tokens of a token's run."""
    return (token,) if runs is None or token < 0 else runs.of(runs.run_of[token])
