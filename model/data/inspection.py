"""Inspection of a user's table or text: its columns and rows, and the rows that cannot be used, with their lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from model.data.pairs import Pair
from model.data.readers import SHOWN, SOURCE, TARGET, is_utf16, scan_records, split_record, with_line_feeds
from model.message import InputError
from model.runtime.files import open_file

DELIMITERS = ("\t", ",", ";")
LIMIT = 10 << 20  # bytes: larger files are for the command line
SAMPLE = 200  # lines on which the delimiter is sought
FEWEST = 3  # lines from which on a table with spaces behind its commas is told from a text
MOST_COLUMNS = 100  # to choose from
ALIKE = 0.5  # share of the lines that must have as many columns as the first
Reason = Literal["encoding", "quote", "columns", "empty"]


class Fault(NamedTuple):
    """A row that cannot be used: number and beginning of its line, and the reason.

    encoding: the line is not UTF-8. quote: a quote is not closed, or inside a cell. columns: a chosen column is
    missing. empty: a chosen column is empty.
    """

    number: int
    beginning: str
    reason: Reason


class Record(NamedTuple):
    """A row: the number of the line where it begins, and its cells."""

    number: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class FileContents:
    """Contents of a file. delimiter: between columns; empty in a text without. blank: number of empty lines."""

    delimiter: str
    records: tuple[Record, ...]
    faults: tuple[Fault, ...]
    blank: int

    @property
    def width(self) -> int:
        """Number of columns of the widest row, at most `MOST_COLUMNS`."""
        return min(MOST_COLUMNS, max((len(record.cells) for record in self.records), default=0))

    @property
    def titled(self) -> bool:
        """True if the first row names a source and a target."""
        titles = [title.strip().lower() for title in self.records[0].cells] if self.records else []
        return {SOURCE, TARGET} <= set(titles)


@dataclass(frozen=True)
class Usable:
    """Texts to learn from, each once. duplicates: number of rows left out because they come again."""

    texts: tuple[tuple[str, ...], ...]
    faults: tuple[Fault, ...]
    duplicates: int

    @property
    def pairs(self) -> list[Pair]:
        """Pairs of the texts in two columns."""
        return [Pair(source, target) for source, target in self.texts]


SUFFIXES = (".tsv", ".csv", ".txt")


def read_content(path: Path) -> bytes:
    """Bytes of a file that a user named.

    Raises:
        ValueError: it is no table or text, is not there, may not be read, or is too large.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InputError("{name} must end in .tsv, .csv or .txt: give the path of a table or a text", name=path.name)
    try:
        if not path.is_file():
            raise InputError("{name} is not there, or is no file: give the path of a table or a text", name=path.name)
        with open_file(path) as file:
            content = file.read(LIMIT + 1)
    except OSError as error:
        raise InputError("{name} cannot be read: {strerror}", name=path.name, strerror=error.strerror) from error
    if len(content) > LIMIT:
        raise InputError(
            "{name} has more than {limit} MiB, the most here: measure on it with python -m model evaluate",
            name=path.name,
            limit=LIMIT >> 20,
        )
    return content


def decode(content: bytes) -> tuple[str, tuple[Fault, ...]]:
    r"""Text of a file, its lines ended by "\n", and its lines that are not UTF-8, which are empty in the text.

    Raises:
        ValueError: the file is too large, empty, or no text in UTF-8 at all.
    """
    if len(content) > LIMIT:
        raise InputError(
            "the file has {count:.1f} MiB, and {limit} MiB is the most here: train on it with python -m model train",
            count=len(content) / (1 << 20),
            limit=LIMIT >> 20,
        )
    if is_utf16(content):
        raise ValueError("the file is in UTF-16: save it as UTF-8")
    if b"\0" in content:
        raise ValueError("the file holds zero bytes, so it is not a text: give a TSV, CSV or text file in UTF-8")
    plain = with_line_feeds(content.removeprefix(b"\xef\xbb\xbf"))
    if not plain.strip():
        raise ValueError("there is nothing in it but white space: give rows with a source and a target, or a text")
    try:
        return plain.decode(), ()
    except UnicodeDecodeError:
        lines, faults = [], []
        for number, line in enumerate(plain.split(b"\n"), start=1):
            try:
                lines.append(line.decode())
            except UnicodeDecodeError:
                lines.append("")
                faults.append(Fault(number, line.decode("utf-8", "replace")[:SHOWN], "encoding"))
        if not "".join(lines).strip():
            raise ValueError("no line of the file is in UTF-8: save it as UTF-8") from None
        return "\n".join(lines), tuple(faults)


def inspect(content: bytes, delimiter: str | None = None) -> FileContents:
    """Contents of a file. delimiter: between columns, empty for a text without; None: see `find_delimiter`.

    Raises:
        ValueError: see `decode`.
    """
    text, faults = decode(content)
    delimiter = find_delimiter(text) if delimiter is None else delimiter
    records, broken, blank = [], list(faults), 0
    unread = {fault.number for fault in faults}  # the text has these lines empty
    for number, row, whole in _rows(text, delimiter):
        if not row.replace(delimiter or " ", "").strip():
            blank += number not in unread
        elif whole:
            records.append(Record(number, _cells(row, delimiter)))
        else:
            broken.append(Fault(number, row[:SHOWN], "quote"))
    return FileContents(delimiter, tuple(records), tuple(sorted(broken)), blank)


def find_delimiter(text: str) -> str:
    """Delimiter, of tab, comma and semicolon, with which most of the first rows have as many columns as the first of
    them; empty if there is none.

    A text has commas too, but not as many in each line, and with a space behind them. Where each row has as many, all
    of them with a space, they delimit columns nevertheless.
    """
    sample = "\n".join([line for line in text.split("\n", 4 * SAMPLE)[: 4 * SAMPLE] if line.strip()][:SAMPLE])
    for delimiter in DELIMITERS:
        widths = [_width(row, delimiter) if whole else 0 for _, row, whole in _rows(sample, delimiter)]
        first = next(filter(None, widths), 0)
        if first > 1 and widths.count(first) > ALIKE * len(widths):
            return delimiter
        if delimiter != "\t" and _is_spaced(sample, delimiter):
            return delimiter
    return ""


def _is_spaced(text: str, delimiter: str) -> bool:
    """True if every row has the same columns, several, and a space before each but the first."""
    rows = [_cells(row, delimiter) if whole else () for _, row, whole in _rows(text, delimiter)]
    alike = len({len(cells) for cells in rows}) == 1 and len(rows) >= FEWEST and len(rows[0]) > 1
    return alike and all(cell.startswith(" ") for cells in rows for cell in cells[1:])


def usable(contents: FileContents, columns: tuple[int, ...], titled: bool) -> Usable:
    """Texts in some columns, each row once. titled: the first row names the columns, and is left out."""
    faults, texts = list(contents.faults), []
    for number, cells in contents.records[int(titled) :]:
        beginning = (contents.delimiter or " ").join(cells).split("\n")[0][:SHOWN]
        if len(cells) <= max(columns):
            faults.append(Fault(number, beginning, "columns"))
            continue
        chosen = tuple(cells[column].strip() for column in columns)
        if all(chosen):
            texts.append(chosen)
        else:
            faults.append(Fault(number, beginning, "empty"))
    once = tuple(dict.fromkeys(texts))
    return Usable(once, tuple(sorted(faults)), len(texts) - len(once))


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, str, bool]]:
    """Rows with the numbers of their first lines, and whether their quotes are right; only a CSV has quotes."""
    if delimiter in (",", ";"):
        yield from scan_records(text, delimiter)
    else:
        for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
            yield number, line, True


def _width(row: str, delimiter: str) -> int:
    """Number of columns of a row; one where a space follows a delimiter: then it is a sentence with commas."""
    cells = _cells(row, delimiter)
    return 1 if delimiter != "\t" and any(cell.startswith(" ") for cell in cells[1:]) else len(cells)


def _cells(row: str, delimiter: str) -> tuple[str, ...]:
    return split_record(row, delimiter) if delimiter else (row,)
