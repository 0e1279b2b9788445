"""python -m model inspect: the tensors of a file or checkpoint folder."""

from __future__ import annotations

import argparse
import fnmatch
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from model.analysis.weights.statistics import readable, statistics
from model.checkpoints.formats.weight_files import ENDS
from model.checkpoints.native import CONFIG, TRAINING
from model.checkpoints.tensors import Measures, TensorInfo, tensor_table
from model.runtime.errors import UnmeasuredError
from model.runtime.untrusted_json import read_record

COLUMNS = ("name", "shape", "dtype", "bytes", "norm", "largest")
STATISTICS = ("mean", "deviation", "minimum", "maximum", "zeros")  # fields of Statistics
NOTES = ""  # heading of the last column


def add_parser(commands: Any) -> None:
    """Add the command to those of argparse."""
    parser = commands.add_parser(
        "inspect",
        help="list the tensors of a model file",
        description="Print each tensor of a file: its shape, type and size, its norm (the square root of the sum of "
        "squares), its largest absolute value, and how many of its values are NaN or infinite, if any: norm and "
        "largest leave those out. Nothing in the file is run.",
    )
    parser.add_argument("path", type=Path, help=f"checkpoint folder, or a file that ends in {ENDS}")
    parser.add_argument(
        "--sort",
        choices=["name", "size", "norm"],
        help="by name (layer 2 before layer 10), or the largest size or norm first; without it, the order of the file",
    )
    parser.add_argument(
        "--match", metavar="PATTERN", help="only names with this in them; * is any text, ? any character: 'enc*bias'"
    )
    parser.add_argument(
        "--statistics",
        action="store_true",
        help="also mean, standard deviation, least and greatest value and the share of zeros, of the finite values",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the table of a file's tensors.

    Raises:
        ValueError: the file cannot be read, or no name matches the pattern.
    """
    everything = tensor_table(options.path)
    header = _header(options.path)
    infos = [info for info in everything if options.match is None or _matches(info.name, options.match)]
    if options.match is not None and not infos:
        raise ValueError(f"no name of the {len(everything)} tensors in {options.path} matches {options.match!r}")
    measured = _measured(everything, infos)
    if options.sort == "name":
        infos.sort(key=lambda info: _natural(info.name))
    elif options.sort == "size":
        infos.sort(key=lambda info: -info.bytes)
    elif options.sort == "norm":
        infos.sort(key=lambda info: -(measures.norm if (measures := measured[info.place]) else -1))
    columns = STATISTICS if options.statistics else ()
    rows = [(*COLUMNS, *columns, NOTES)]
    for info in infos:
        measures = measured[info.place]
        rows.append((*_cells(info, measures), *_described(info, columns), _note(info, measures)))
    table = aligned(rows, left=(0, 1, 2, len(rows[0]) - 1))  # texts
    print("\n".join([*header, *table, "", _totals(infos)]))


def _measured(everything: Sequence[TensorInfo], infos: Sequence[TensorInfo]) -> dict[str, Measures | None]:
    """Measures of tensors by their place in the file, each of which is read once; None for a type that torch cannot
    compute with.
    """
    wanted = {info.place for info in infos}
    return {info.place: _measures(info) for info in everything if info.name in wanted}


def _measures(info: TensorInfo) -> Measures | None:
    try:
        return info.measure()
    except UnmeasuredError:
        return None


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, f"*{pattern}*")


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def _cells(info: TensorInfo, measures: Measures | None) -> tuple[str, ...]:
    shape = " × ".join(map(str, info.shape)) or "one number"
    numbers = (f"{measures.norm:.4g}", f"{measures.largest:.4g}") if measures else ("", "")
    return info.name, shape, info.dtype, f"{info.bytes:,}", *numbers


def _described(info: TensorInfo, columns: Sequence[str]) -> tuple[str, ...]:
    """Number of each column; empty texts for a type without least and greatest values."""
    if not columns or not readable(info):
        return ("",) * len(columns)
    measured = statistics(info.load())
    return tuple(f"{getattr(measured, column):.4g}" for column in columns)


def _note(info: TensorInfo, measures: Measures | None) -> str:
    counts = ((measures.nan, "NaN"), (measures.infinite, "infinite")) if measures else ()
    notes = [f"{count:,} {what}" for count, what in counts if count]
    notes += [] if measures else [f"not measured: torch cannot compute with {info.dtype}"]
    if info.place != info.name:
        notes.append(f"same as {_printable(info.place)}")
    return ", ".join(notes)


def _printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)


def aligned(rows: Sequence[tuple[str, ...]], left: Sequence[int] = (0,)) -> list[str]:
    """Lines of a table. left: columns with texts, aligned to the left; numbers are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _totals(infos: Sequence[TensorInfo]) -> str:
    places = list({info.place: info for info in infos}.values())
    tied = f" in {len(places):,} places of the file" if len(places) < len(infos) else ""
    tensors = "1 tensor" if len(infos) == 1 else f"{len(infos):,} tensors"
    parameters, size = sum(info.elements for info in places), sum(info.bytes for info in places)
    return f"{tensors}{tied}; {parameters:,} parameters; {size:,} bytes"


def _header(path: Path) -> list[str]:
    """Lines with the two records of a checkpoint folder of ours; none for other paths."""
    files = [path / CONFIG, path / TRAINING]
    if not all(file.is_file() for file in files):
        return []
    return [*(f"{file.name}: {_summary(read_record(file))}" for file in files), ""]


def _summary(record: dict[str, Any]) -> str:
    """Values of a record that are not lists, those within dictionaries too."""
    parts = []
    for name, value in record.items():
        if isinstance(value, dict):
            parts.append(f"{name} ({_summary(value)})")
        elif not isinstance(value, list):
            parts.append(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}")
    return _printable(", ".join(parts))
