"""Parts of every figure: its caption, the row that is framed, how pieces of a word are joined in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np


@dataclass(frozen=True)
class About:
    """Explanation of a figure: a sentence on what is drawn, formulas in LaTeX, the classes and functions that computed
    it, a second sentence, on what the figure tells, and the symbols of the formulas, each with its meaning, between
    semicolons.
    """

    sentence: str
    formulas: Sequence[str] = ()
    ran: Sequence[Any] = ()
    meaning: str = ""
    symbols: str = ""


@dataclass(frozen=True)
class Caption:
    """Name of a figure, and what stands around it.

    file: name of what is saved. stamp: what was painted, so that another drawing is known. note: numbers behind the
    name. sentence: below it. alt: for screen readers, made of these and the figure's numbers where it is empty. about:
    behind its "?". finding: what is seen in it, its title where there is one; the name is small then. code:
    Python that gives its numbers of a page's `page.trace`, where one line does.
    """

    name: str
    file: str
    stamp: str
    note: str = ""
    sentence: str = ""
    alt: str = ""
    about: About | None = None
    finding: str = ""
    code: str | None = None


@dataclass(frozen=True, eq=False)
class Figure:
    """Picture as a value. Two are equal where all that they hold is.

    chosen: framed row or band. words: more than every figure needs, by their keys in the browser. summed: where pieces
    of a word are shown as one, values are added up over its columns, or places, as weights to them are; else they are
    averaged. ungrouped: pieces stay apart in any case.
    """

    caption: Caption
    chosen: int = field(default=-1, kw_only=True)
    words: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    summed: bool = field(default=False, kw_only=True)
    ungrouped: bool = field(default=False, kw_only=True)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            same(getattr(self, each.name), getattr(other, each.name)) for each in fields(self)
        )

    __hash__ = None  # type: ignore[assignment]  # it holds arrays


def same(one: Any, other: Any) -> bool:
    """True if two parts of figures are equal; arrays where all their values are, NaN as NaN."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        number = np.asarray(one).dtype.kind in "fc"
        return np.shape(one) == np.shape(other) and np.array_equal(one, other, equal_nan=number)
    if hasattr(one, "__dataclass_fields__") and type(one) is type(other):
        return all(same(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    return bool(one == other)
