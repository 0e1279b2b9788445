"""Runs of a training: curves, film, settings and their changes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from model.runtime.locks import Lock
from model.training.live.film import Film, Thinned
from model.training.live.key_frames import KeyFrame
from model.training.settings import RunSettings

Array = npt.NDArray[Any]
SPARSE = ("validation", "accuracy", "exact match", "smoothed validation")  # not measured at every step
BUDGET = 32 << 20  # bytes


@dataclass(frozen=True)
class Row:
    """Figures of a step, in the order of the curves' names."""

    step: int
    values: npt.NDArray[np.float64]

    @property
    def size(self) -> int:
        """Bytes of the figures."""
        return self.values.nbytes


class Curves:
    """Figures over the steps. Those of every step are thinned evenly when they outgrow `budget` bytes; `SPARSE` stay.

    Any thread may read while another adds.
    """

    def __init__(self, names: Iterable[str], budget: int = BUDGET) -> None:
        """names: of the figures of every step, some of which a step may lack."""
        self._columns = {name: column for column, name in enumerate(names)}
        self._rows: Thinned[Row] = Thinned(budget)
        self._sparse: dict[str, list[tuple[int, float]]] = {name: [] for name in SPARSE}
        self._lock = Lock("curves")

    @property
    def names(self) -> list[str]:
        """Names of all curves."""
        return [*self._columns, *SPARSE]

    @property
    def columns(self) -> list[str]:
        """Names of the curves that have a figure at each step."""
        return list(self._columns)

    @property
    def sparse(self) -> dict[str, list[tuple[int, float]]]:
        """Points of the curves without a figure at each step, by name."""
        with self._lock:
            return {name: list(points) for name, points in self._sparse.items()}

    def put(self, rows: Iterable[Row], sparse: Mapping[str, Iterable[tuple[int, float]]]) -> None:
        """Take over what other curves of these names have."""
        with self._lock:
            self._rows.put(rows)
            self._sparse = {
                name: [(int(step), float(value)) for step, value in sparse.get(name, ())] for name in self._sparse
            }

    @property
    def newest_step(self) -> int:
        """Newest step with figures."""
        with self._lock:
            return self._rows[-1].step

    def add(self, step: int, figures: Mapping[str, float | None]) -> None:
        """Add the figures of a step, by name; None where a figure was not measured."""
        values = np.full(len(self._columns), math.nan)
        with self._lock:
            for name, value in figures.items():
                if name in self._columns and value is not None:
                    values[self._columns[name]] = value
                elif value is not None:
                    self._sparse[name].append((step, value))
            self._rows.put([Row(step, values)])

    def get(self, name: str, after: int = -1) -> tuple[Array, Array]:
        """Steps (point) at which a figure was measured, and its values (point); only of steps later than `after`.

        Raises:
            KeyError: there is no such curve; `names` lists them.
        """
        with self._lock:
            if name in self._sparse:
                points = [(step, value) for step, value in self._sparse[name] if step > after]
            else:
                column = self._columns[name]
                points = [(row.step, row.values[column]) for row in self._rows.since(after)]
        steps = np.array([step for step, _ in points], np.int64)
        values = np.array([value for _, value in points], float)
        measured = ~np.isnan(values)
        return steps[measured], values[measured]

    def overview(self, name: str, most: int) -> list[float]:
        """At most `most` values, evenly spaced from the first on, of a curve that has one at each step."""
        with self._lock:
            column, rows = self._columns[name], self._rows
            first = next((index for index, row in enumerate(rows) if not math.isnan(row.values[column])), len(rows))
            every = max(1, -(-(len(rows) - first) // most))
            values = [float(row.values[column]) for row in islice(rows, first, None, every)]
        return [value for value in values if not math.isnan(value)]

    def table(self) -> tuple[Array, Array]:
        """Steps (step), and the figures of every step (step, name) in the order of `names`; NaN for missing ones."""
        with self._lock:
            rows = list(self._rows)
        values = [row.values for row in rows] or np.empty((0, len(self._columns)))
        return np.array([row.step for row in rows], np.int64), np.array(values)

    def latest(self, name: str) -> float | None:
        """Newest value of a curve; None if it was never measured."""
        with self._lock:
            if name in self._sparse:
                return self._sparse[name][-1][1] if self._sparse[name] else None
            column = self._columns[name]
            values = (float(row.values[column]) for row in reversed(self._rows))
            return next((value for value in values if not math.isnan(value)), None)

    def until(self, step: int) -> Curves:
        """Copy of the curves up to a step."""
        copied = Curves(self._columns, self._rows.budget)
        with self._lock:
            copied._rows.put(row for row in self._rows if row.step <= step)
            copied._rows.every = self._rows.every
            copied._sparse = {
                name: [point for point in points if point[0] <= step] for name, points in self._sparse.items()
            }
        return copied


@dataclass(frozen=True)
class Mark:
    """Settings that changed after a step: old and new value by name."""

    step: int
    changes: Mapping[str, tuple[Any, Any]]


@dataclass
class Run:
    """One run of a training, from its beginning or from a step of another run.

    parent: number of that other run. begins: step at which it branched. marks: changes while a run went on. turns:
    changes where this run, and those before it, branched.
    """

    number: int
    film: Film
    curves: Curves
    parent: int | None = None
    begins: int = 0
    marks: tuple[Mark, ...] = ()
    turns: tuple[Mark, ...] = ()

    @property
    def settings(self) -> RunSettings:
        """Settings of its first step."""
        return self.film.key_frames[0].settings

    @property
    def changes(self) -> list[Mark]:
        """All changes of settings, in order of their steps."""
        return sorted((*self.turns, *self.marks), key=lambda mark: mark.step)

    def go_back(self, key: KeyFrame) -> None:
        """Forget figures, frames and changes later than a key frame, also later changes at its own step."""
        self.film.cut(key.step)
        self.curves = self.curves.until(key.step)
        self.marks = self._in_force(key)
        self.turns = tuple(turn for turn in self.turns if turn.step <= key.step)

    def _in_force(self, key: KeyFrame) -> tuple[Mark, ...]:
        """Marks in force when a key frame was taken: of those at its own step, perhaps not all."""
        before = tuple(mark for mark in self.marks if mark.step < key.step)
        here = tuple(mark for mark in self.marks if mark.step == key.step)
        values = {name: old for mark in reversed(here) for name, (old, _) in mark.changes.items()}
        for count, mark in enumerate((None, *here)):
            values |= {name: new for name, (_, new) in mark.changes.items()} if mark else {}
            if all(getattr(key.settings, name) == value for name, value in values.items()):
                return before + here[:count]
        return before

    def branch(self, number: int, key: KeyFrame, settings: RunSettings, **budgets: int) -> Run:
        """Another run that begins like this one and branches at a key frame."""
        step, differences = key.step, key.settings.differences(settings)
        marks = self._in_force(key) if step else ()
        turns = [turn for turn in self.turns if turn.step <= step] + [mark for mark in marks if mark.step == step]
        marks = tuple(mark for mark in marks if mark.step < step)
        if step and differences:
            turns.append(Mark(step, differences))
        film, curves = self.film.until(step, number, **budgets), self.curves.until(step)
        return Run(number, film, curves, self.number, step, marks, tuple(turns))
