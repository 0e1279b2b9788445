"""Tables in text, TSV and CSV, with the line where each row begins."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas

SOURCE, TARGET = "source", "target"  # names of the columns of a pair
SHOWN = 60  # characters of a line in a message


class Row(NamedTuple):
    """A sentence and its translation, with the number and the beginning of the line where they stand."""

    number: int
    beginning: str
    source: str
    target: str


def read_table(text: str, name: str, quoted: bool, header: bool | None) -> list[Row]:
    r"""The rows of a table that are not empty; a cell that is missing is "".

    text: lines ended by "\n". name: of the file, for messages. quoted: CSV by , or ;, else TSV, where " is a character.
    header: whether the first row names the columns; None: a CSV whose first row has the names of both does.

    Raises:
        ValueError: a quote that is not closed or stands in the middle, or no telling what separates the columns.
    """
    separator = _separator(text, name) if quoted else "\t"
    records = _records(text, separator, name) if quoted else list(enumerate(text.split("\n"), start=1))
    filled = [(number, record) for number, record in records if record.replace(separator, "").strip()]
    if not filled:
        return []
    columns = (0, 1)
    if quoted or header:
        titles = _titles(filled[0][1], separator, quoted)
        named = {SOURCE, TARGET} <= set(titles)
        if named and header is not False:
            columns = (titles.index(SOURCE), titles.index(TARGET))
        if header or (named and header is None):
            filled = filled[1:]
    cells = _cells([record for _, record in filled], separator, quoted, columns)
    return [
        Row(number, record.split("\n")[0][:SHOWN], source, target)
        for (number, record), (source, target) in zip(filled, cells, strict=True)
    ]


def _separator(text: str, name: str) -> str:
    """Of , and ; the one that the first row has outside quotes."""
    start = len(text) - len(text.lstrip())
    first = re.compile(r'(?:[^"\n]|"[^"]*+(?:"|\Z))*+').match(text, start)
    row = first.group() if first else ""
    outside = re.sub(r'"[^"]*"', "", row)
    if "," in outside and ";" in outside:
        number = text[:start].count("\n") + 1
        raise ValueError(
            f"line {number} of {name} has both , and ; outside quotes, so what separates the columns is unclear: "
            f'{row[:SHOWN]!r}; begin with a line source,target or put each sentence into "quotes"'
        )
    return ";" if ";" in outside else ","


def _records(text: str, separator: str, name: str) -> list[tuple[int, str]]:
    """The rows of a CSV, which go on over line ends inside quotes, each with the number of its first line."""
    records = []
    for number, record, whole in scan_records(text, separator):
        if not whole:
            raise ValueError(
                f"line {number} of {name} has a quote that is not closed, or one inside a cell without quotes: "
                f'{record[:SHOWN]!r}; write the cell as "…", each quote in it doubled'
            )
        records.append((number, record))
    return records


def scan_records(text: str, separator: str) -> Iterator[tuple[int, str, bool]]:
    """The rows of a CSV with the numbers of their first lines, and whether their quotes are right; else a row is one
    line, and the next one begins behind it.
    """
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
    """The cells of a row of a CSV whose quotes are right, without them."""
    cells = re.findall(rf"(?:\A|{separator})({_cell(separator)})", record)
    return tuple(cell[1:-1].replace('""', '"') if cell.startswith('"') else cell for cell in cells)


def _cell(separator: str) -> str:
    return rf'(?:"(?:[^"]|"")*+"|[^"\n{separator}]*+)'


def _titles(record: str, separator: str, quoted: bool) -> list[str]:
    return [str(title).strip().lower() for title in _frame([record], separator, quoted).iloc[0]]


def _cells(records: list[str], separator: str, quoted: bool, columns: tuple[int, int]) -> list[tuple[str, str]]:
    """The cells of two columns in each row."""
    wide = separator * max(columns)  # pandas wants a row that has all the columns
    in_order = sorted(zip(columns, (SOURCE, TARGET), strict=True))
    frame = _frame(
        [wide, *records],
        separator,
        quoted,
        usecols=[column for column, _ in in_order],
        names=[title for _, title in in_order],
    )
    return list(zip(frame[SOURCE][1:], frame[TARGET][1:], strict=True))


def _frame(records: list[str], separator: str, quoted: bool, **columns: Any) -> pandas.DataFrame:
    """Records as text, no word of it taken for a missing value."""
    import pandas

    return pandas.read_csv(
        io.StringIO("\n".join(records)),
        sep=separator,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        lineterminator="\n",
        header=None,
        index_col=False,
        dtype=str,
        na_filter=False,
        skip_blank_lines=False,
        **columns,
    )
