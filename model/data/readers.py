"""Readers of sentence pairs: from files, built-in tasks, and data sets of Hugging Face."""

from __future__ import annotations

import importlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from model.data.pairs import Pair
from model.data.tasks import find_task, task_pairs
from model.message import InputError
from model.runtime.errors import first_line
from model.runtime.files import open_file

TASK_PAIRS = 10_000  # of a built-in task, unless the spec says otherwise
MOST_TASK_PAIRS = 1_000_000  # more take minutes to draw and to cut into tokens
SPEC_HELP = (
    "a .tsv or .txt file (sentence, tab, translation on each line), a .csv file, task:NAME or task:NAME:COUNT for a "
    "built-in task, datasets:NAME or datasets:NAME:CONFIG for a data set of Hugging Face"
)


def read_pairs_from(spec: str, header: bool | None = None) -> list[Pair]:
    """Pairs that `spec` names: of a file, a built-in task or a data set, see SPEC_HELP. header: see `read_pairs`.

    Raises:
        ValueError: there is no such file, task or data set, or it cannot be read.
    """
    kind, _, name = spec.partition(":")
    if kind == "task":
        return _read_task(name)
    if kind == "datasets":
        return read_dataset(name)
    return read_pairs(Path(spec), header)


def name_of(spec: str) -> str:
    """Name of the data of `spec` in a training record: of a file without its folder, which is private."""
    return spec if spec.startswith(("task:", "datasets:")) else Path(spec).name


def is_text(spec: str) -> bool:
    """True if `spec` names a text file, which may be a running text."""
    return spec.lower().endswith(".txt")


def lines_of(text: str) -> list[str]:
    r"""Lines of a text, ended by "\n", that are not empty, without white space around them."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def with_line_feeds(content: bytes) -> bytes:
    r"""Content of a file of UTF-8 whose lines end in "\n", also where they ended in "\r\n" or, on old Macs, "\r"."""
    return content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def read_pairs(path: Path, header: bool | None = None) -> list[Pair]:
    """Pairs of a UTF-8 file: .tsv, .txt separated by tabs, without quoting; .csv by , or ; quoted as in RFC 4180.

    header: whether the first line names the columns; None: it does if they are called source and target in a .csv.
    The columns of these names are taken, else the first two. Empty lines are skipped.

    Raises:
        ValueError: the file is missing, not UTF-8 or of another kind, or a line has no pair.
    """
    kind = Path(path).suffix.lower()
    if kind not in (".tsv", ".txt", ".csv"):
        raise InputError(
            "{path} must end in .tsv, .txt or .csv, so that it is clear how its columns are separated", path=path
        )
    rows = read_table(read_text(path), str(path), quoted=kind == ".csv", header=header)
    for number, beginning, source, target in rows:
        if not source.strip() or not target.strip():
            what = "and translation separated by a tab" if kind != ".csv" else "and translation in two columns"
            raise InputError(
                "line {number} of {path} has no sentence {what}: {beginning!r}",
                number=number,
                path=path,
                what=what,
                beginning=beginning,
            )
    if not rows:
        raise InputError("{path} holds no sentence pairs", path=path)
    return [Pair(source, target) for _, _, source, target in rows]


def read_text(path: Path) -> str:
    r"""Text of a UTF-8 file, with or without a byte order mark, its lines ended by "\n".

    Raises:
        ValueError: the file is missing, cannot be read, or is not UTF-8.
    """
    try:
        with open_file(Path(path)) as file:
            raw = file.read()
    except FileNotFoundError:
        raise InputError("{path} does not exist: give the path of a text file", path=path) from None
    except OSError as error:
        raise InputError("{path} cannot be read: {strerror}", path=path, strerror=error.strerror) from error
    if is_utf16(raw):
        raise InputError("{path} is in UTF-16: save it as UTF-8", path=path)
    content = with_line_feeds(raw)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        start = before.rfind(b"\n") + 1
        line = content[start:].split(b"\n")[0].decode("utf-8", "replace")
        raise InputError(
            "line {count} of {path} cannot be read as UTF-8 text: {line!r}; save the file as UTF-8",
            count=before.count(10) + 1,
            path=path,
            line=line[:60],
        ) from error


UTF16 = (b"\xff\xfe", b"\xfe\xff")  # the marks that a text in UTF-16 may begin with
LOOKED_AT = 1 << 16  # bytes
NO_LETTERS = ("Cc", "Cn", "Co", "Cs")  # control characters and what is no character, by Unicode's categories


def is_utf16(content: bytes) -> bool:
    """True if a file is a text in UTF-16, by its mark; else by zero bytes, which no text in UTF-8 has, where pairs of
    bytes are characters that can be printed.
    """
    if content.startswith(UTF16):
        return True
    if b"\0" not in content or len(content) % 2:
        return False
    for order in ("utf-16-le", "utf-16-be"):
        text = content[:LOOKED_AT].decode(order, "replace").rstrip("\ufffd")  # half of one at the end
        if text and not any(unicodedata.category(letter) in NO_LETTERS and letter not in "\t\r\n" for letter in text):
            return True
    return False


def read_dataset(name: str, split: str = "train") -> list[Pair]:
    """Pairs of a data set of Hugging Face: its `translation` column, else the first two columns of text.

    name: the library's, with `:CONFIG` behind it where there are several. split: the data set's name of it.

    Raises:
        ValueError: the library is not installed, or cannot load this data set, or the data set has no pairs.
    """
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        raise InputError("datasets:{name} needs the library datasets: run pip install datasets", name=name) from error
    title, _, config = name.partition(":")
    if not title:
        raise InputError("datasets:{name} names no data set: write datasets:NAME or datasets:NAME:CONFIG", name=name)
    try:
        loaded = datasets.load_dataset(title, config or None, split=split)
    except Exception as error:  # the library raises its own, those of the network, of parquet and more
        raise InputError(
            "the {split} split of datasets:{name} cannot be loaded: {first_line}",
            split=split,
            name=name,
            first_line=first_line(error),
        ) from error
    return _pairs_of(loaded, f"datasets:{name}")


def _pairs_of(loaded: Any, name: str) -> list[Pair]:
    columns = list(loaded.features)
    texts = [
        column for column in columns if getattr(loaded.features[column], "dtype", "") in ("string", "large_string")
    ]
    if "translation" not in columns and len(texts) < 2:
        raise InputError(
            "{name} has neither a translation column nor two of text: {columns}", name=name, columns=", ".join(columns)
        )
    pairs = []
    for number, row in enumerate(loaded, start=1):
        cells = list(row["translation"].values()) if "translation" in columns else [row[column] for column in texts]
        if len(cells) < 2 or not all(isinstance(cell, str) and cell.strip() for cell in cells[:2]):
            raise InputError(
                "row {number} of {name} is no pair of sentences: {cells}",
                number=number,
                name=name,
                cells=str(cells)[:60],
            )
        pairs.append(Pair(cells[0], cells[1]))
    if not pairs:
        raise InputError("{name} holds no sentence pairs", name=name)
    return pairs


def _read_task(name: str) -> list[Pair]:
    title, colon, count = name.partition(":")
    task = find_task(title)
    if colon and not count.isdecimal():
        raise InputError("task:{name} must be task:NAME or task:NAME:COUNT, the count a number of pairs", name=name)
    if colon and int(count) > MOST_TASK_PAIRS:
        raise InputError(
            "task:{name}: the count must be at most {most_task_pairs:,}", name=name, most_task_pairs=MOST_TASK_PAIRS
        )
    return task_pairs(title, int(count) if colon else TASK_PAIRS, task.lengths, seed=0)


# Tables in text, TSV and CSV, with the line where each row begins.

SOURCE, TARGET = "source", "target"  # names of the columns of a pair
SHOWN = 60  # characters of a line in a message


class Row(NamedTuple):
    """A sentence and its translation, with the number and the beginning of their line."""

    number: int
    beginning: str
    source: str
    target: str


def read_table(text: str, name: str, quoted: bool, header: bool | None) -> list[Row]:
    r"""Rows of a table that are not empty; a missing cell is "".

    text: lines ended by "\n". name: of the file, for messages. quoted: CSV by , or ;, else TSV, where " is a character.
    header: whether the first row names the columns; None: it does in a CSV where it has the names of both.

    Raises:
        ValueError: a quote is not closed or inside a cell, or the separator of the columns is unclear.
    """
    separator = _separator(text, name) if quoted else "\t"
    records = _records(text, separator, name) if quoted else list(enumerate(text.split("\n"), start=1))
    filled = [
        (number, record, split_record(record, separator))
        for number, record in records
        if record.replace(separator, "").strip()
    ]
    source, target = 0, 1
    if filled and (quoted or header):
        titles = [title.strip().lower() for title in filled[0][2]]
        named = {SOURCE, TARGET} <= set(titles)
        if named and header is not False:
            source, target = titles.index(SOURCE), titles.index(TARGET)
        if header or (named and header is None):
            filled = filled[1:]
    return [
        Row(number, record.split("\n")[0][:SHOWN], _cell_at(source, cells), _cell_at(target, cells))
        for number, record, cells in filled
    ]


def _cell_at(column: int, cells: Sequence[str]) -> str:
    return cells[column] if column < len(cells) else ""


def _separator(text: str, name: str) -> str:
    """Separator of a CSV: of , and ; the one in the first row outside quotes."""
    start = len(text) - len(text.lstrip())
    first = re.compile(r'(?:[^"\n]|"[^"]*+(?:"|\Z))*+').match(text, start)
    row = first.group() if first else ""
    outside = re.sub(r'"[^"]*"', "", row)
    if "," in outside and ";" in outside:
        number = text[:start].count("\n") + 1
        raise InputError(
            "line {number} of {name} has both , and ; outside quotes, so what separates the columns is unclear: "
            '{row!r}; begin with a line source,target or put each sentence into "quotes"',
            number=number,
            name=name,
            row=row[:SHOWN],
        )
    return ";" if ";" in outside else ","


def _records(text: str, separator: str, name: str) -> list[tuple[int, str]]:
    """Rows of a CSV, which may have line ends inside quotes, each with the number of its first line."""
    records = []
    for number, record, whole in scan_records(text, separator):
        if not whole:
            raise InputError(
                "line {number} of {name} has a quote that is not closed, or one inside a cell without quotes: "
                '{record!r}; write the cell as "…", each quote in it doubled',
                number=number,
                name=name,
                record=record[:SHOWN],
            )
        records.append((number, record))
    return records


def scan_records(text: str, separator: str) -> Iterator[tuple[int, str, bool]]:
    """Rows of a CSV with the numbers of their first lines, and whether their quotes are right: else it is one line."""
    cell = _cell(separator)
    row = re.compile(rf"{cell}(?:{separator}{cell})*+(?:\n|\Z)")
    place, number = 0, 1
    while place < len(text):
        match = row.match(text, place)
        end = match.end() if match else (text.find("\n", place) + 1 or len(text))
        record = text[place:end]
        yield number, record.removesuffix("\n"), match is not None
        place, number = end, number + record.count("\n")


def split_record(record: str, separator: str) -> tuple[str, ...]:
    """Cells of a row: of a TSV as they are, of a CSV, whose quotes must be right, without their quotes."""
    if separator == "\t":
        return tuple(record.split("\t"))
    cells = re.findall(rf"(?:\A|{separator})({_cell(separator)})", record)
    return tuple(cell[1:-1].replace('""', '"') if cell.startswith('"') else cell for cell in cells)


def _cell(separator: str) -> str:
    return rf'(?:"(?:[^"]|"")*+"|[^"\n{separator}]*+)'
