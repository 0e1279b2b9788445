"""The numbers of whole files, each a job."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from viz.jobs import TableJob, TableTask
from viz.pages.checkpoints.subjects import Subject, merged_table

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from model.analysis.weights.adapter_changes import AdapterChange
    from model.analysis.weights.health import Finding
    from model.analysis.weights.movement import Moved
    from model.analysis.weights.statistics import Statistics
    from model.checkpoints.tensors import TensorInfo

FIRST, LAST = "\0first", "\0last"  # keys of findings among those of tensors, which no name is


class TensorTable(TableJob):
    """Values of each tensor of a table, as far as they are known."""

    table: list[TensorInfo]

    def of(self, info: TensorInfo) -> Any:
        """Values of a tensor, None while they are unknown."""
        raise NotImplementedError

    def type_of(self, info: TensorInfo) -> str:
        """Name of the type of its values."""
        return info.dtype

    def every(self) -> list[Any]:
        return [self.of(info) for info in self.table]

    def column(self, name: str) -> NDArray[np.float64]:
        """One number of each tensor, NaN where it is not known yet."""
        return np.array([np.nan if each is None else getattr(each, name) for each in self.every()], np.float64)


class TensorStatistics(TensorTable):
    """The statistics of a table, by the place in the file."""

    def __init__(self, table: list[TensorInfo]) -> None:
        from model.analysis.weights.statistics import first_of_places, readable

        self.table = table
        own = [info for info in first_of_places(table) if readable(info)]
        super().__init__([TableTask(info.place, info.bytes, partial(_statistics, info)) for info in own])

    def of(self, info: TensorInfo) -> Statistics | None:
        return self.values.get(info.place)


class WeightChanges(TensorTable):
    """Distance that every tensor of two tables has moved, by its name."""

    def __init__(self, before: list[TensorInfo], after: list[TensorInfo]) -> None:
        from model.analysis.weights.movement import moved
        from model.analysis.weights.statistics import readable

        self.before = old = {info.name: info for info in before if readable(info)}
        both = [info for info in after if readable(info) and info.name in old]
        self.table = [info for info in both if old[info.name].shape == info.shape]
        super().__init__(
            [TableTask(info.name, 2 * info.bytes, partial(moved, old[info.name], info)) for info in self.table]
        )

    def of(self, info: TensorInfo) -> Moved | None:
        return self.values.get(info.name)

    def type_of(self, info: TensorInfo) -> str:
        """Both types where they are two: a file may call one of torch's by another name."""
        old = self.before[info.name]
        alike = old.values == info.values and not (old.quantized or info.quantized)
        return info.dtype if alike or old.dtype == info.dtype else f"{old.dtype} → {info.dtype}"


class AdapterChanges(TensorTable):
    """Change by an adapter of each of its weights, by the weight's name."""

    def __init__(self, subject: Subject) -> None:
        from model.analysis.weights.adapter_changes import adapter_change

        merged = merged_table(subject)
        infos = {info.name: info for info in merged.table}
        self.kinds = [change.kind for change in merged.changes]
        self.table = [infos[change.name] for change in merged.changes]
        super().__init__(
            [TableTask(each.name, each.weight.bytes, partial(adapter_change, each)) for each in merged.changes]
        )

    def of(self, info: TensorInfo) -> AdapterChange | None:
        return self.values.get(info.name)

    @property
    def nothing(self) -> bool:
        """True if it is known that no weight is changed."""
        return self.complete and all(each.nothing for each in self.every())


class HealthJob(TableJob):
    """Problems of a file, as `findings`: at first without those that only the singular values tell."""

    def __init__(self, measured: TensorStatistics) -> None:
        from model.analysis.weights.spectra import has_spectrum, spectrum
        from model.analysis.weights.statistics import first_of_places

        own = [info for info in first_of_places(measured.table) if has_spectrum(info)]
        tasks = [TableTask(FIRST, 0, partial(self._health, measured, {}))]
        tasks += [TableTask(info.place, info.bytes, partial(spectrum, info)) for info in own]
        super().__init__([*tasks, TableTask(LAST, 0, lambda: self._health(measured, self._spectra()))])

    @property
    def findings(self) -> list[Finding] | None:
        newest: list[Finding] | None = self.values.get(LAST, self.values.get(FIRST))
        return newest

    def _spectra(self) -> dict[str, Tensor]:
        return {place: values for place, values in self.values.items() if place != FIRST}

    @staticmethod
    def _health(measured: TensorStatistics, spectra: dict[str, Tensor]) -> list[Finding]:
        from model.analysis.weights.health import health

        return health(measured.table, measured.values, spectra)


def _statistics(info: TensorInfo) -> Statistics:
    from model.analysis.weights.statistics import statistics

    return statistics(info.load())


def measured(subject: Subject) -> TensorStatistics:
    """Begun when it is first asked for; the same for every session, and another when the file has changed.

    Raises:
        CheckpointError: the file is damaged, or must not be read.
    """
    return _measured(str(subject.path), subject.changed, subject)


def moving(before: Subject, after: Subject) -> WeightChanges:
    """Changes between two files, shared by all sessions."""
    places = (str(before.path), before.changed, str(after.path), after.changed)
    return _moving(places, before, after)


def adapting(subject: Subject) -> AdapterChanges:
    """Changes of an adapter in its base, shared by all sessions.

    Raises:
        CheckpointError: one of them is damaged, or they do not fit each other.
    """
    return _adapting(str(subject.path), subject.changed, subject)


BY_PATH: dict[str | type[Any], Callable[[Any], Any]] = {Subject: lambda subject: subject.key}


@st.cache_resource(max_entries=12, show_spinner=False, hash_funcs=BY_PATH)
def _measured(path: str, changed: int, subject: Subject) -> TensorStatistics:  # noqa: ARG001 - of the key in the cache
    return TensorStatistics(subject.table())


@st.cache_resource(max_entries=4, show_spinner=False, hash_funcs=BY_PATH)
def _adapting(path: str, changed: int, subject: Subject) -> AdapterChanges:  # noqa: ARG001 - of the key in the cache
    return AdapterChanges(subject)


@st.cache_resource(max_entries=4, show_spinner=False, hash_funcs=BY_PATH)
def _moving(places: tuple[str, int, str, int], before: Subject, after: Subject) -> WeightChanges:  # noqa: ARG001 - of the key in the cache
    return WeightChanges(before.table(), after.table())
