"""What the figures of the laboratory's costs share: they are of no trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from model.experiments.timing import Machine, Times
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.ui.parts import plot_words


def header(name: str, alt: str, file: str, stamp: str, csv: Sequence[str], more: Mapping[str, Any]) -> dict[str, Any]:
    """What the header of every plot has; stamp: what was measured, so that another drawing is known."""
    return {"name": name, "alt": f"{name}: {alt}", "file": file, "stamp": stamp, "words": plot_words(*csv), **more}


def machine_words(machine: Machine) -> str:
    """Device, precision, threads and library of products."""
    threads = _("1 thread") if machine.threads == 1 else _("{count} threads").format(count=machine.threads)
    parts = [machine.device, machine.dtype]
    if machine.device.startswith("CPU"):
        parts.append(threads)
    parts.append(_("time of this thread alone") if machine.cpu_time else _("time by the clock"))
    if machine.library:
        parts.append(_("products by {library}").format(library=machine.library))
    return " · ".join(parts)


def duration(seconds: float) -> str:
    """With the unit that gives few digits."""
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{significant(seconds * factor)} {unit}"
    return f"{significant(seconds)} s"


def times_columns(times: Times) -> dict[str, float | int]:
    return {
        _("median, ms"): 1e3 * times.median,
        _("lower quartile, ms"): 1e3 * times.low,
        _("upper quartile, ms"): 1e3 * times.high,
        _("runs"): times.runs,
    }


def percent(share: float) -> str:
    return f"{significant(100 * share)} %"
