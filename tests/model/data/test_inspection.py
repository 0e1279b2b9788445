"""What is found in a user's file: columns, rows, and every row in error with its line."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.data.inspection import LIMIT, MOST_COLUMNS, decode, find_delimiter, inspect, read_content, usable
from model.data.pairs import Pair

MIXED = 'source,target\nhello,bonjour\ncat,chat\ncat,chat\n\ndog\n"a"b,c\nbird,\n"x\ny, z",w\nsun,soleil\n'


def reasons(faults):
    return [(fault.number, fault.reason) for fault in faults]


def test_every_row_in_error_is_listed_with_its_line_and_the_others_are_used():
    found = inspect(MIXED.encode())
    assert (found.delimiter, found.width, found.titled, found.blank) == (",", 2, True, 1)
    chosen = usable(found, (0, 1), titled=True)
    assert chosen.pairs == [
        Pair("hello", "bonjour"), Pair("cat", "chat"), Pair("x\ny, z", "w"), Pair("sun", "soleil")
    ]  # fmt: skip
    assert chosen.duplicates == 1
    assert reasons(chosen.faults) == [(6, "columns"), (7, "quote"), (8, "empty")]
    assert [fault.beginning for fault in chosen.faults] == ["dog", '"a"b,c', "bird,"]


def test_lines_that_are_not_utf8_are_listed_and_the_others_read():
    text, faults = decode(b"one\teins\r\n" + b"caf\xe9\tKaffee\n" + b"\ttwo\nthree\tdrei")
    assert text.split("\n") == ["one\teins", "", "\ttwo", "three\tdrei"]
    assert reasons(faults) == [(2, "encoding")]
    assert faults[0].beginning == "caf\ufffd\tKaffee"
    found = inspect(b"one\teins\ncaf\xe9\tKaffee\n\nthree\tdrei\n")
    assert (found.blank, [record.number for record in found.records]) == (1, [1, 4])
    assert inspect(b"one\teins\ncaf\xe9\tKaffee").blank == 0  # the last line too, though nothing ends it


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a\tb\nc\td\n", "\t"),
        ("a,b\nc,d\n", ","),
        ("a;b\nc;d, e\n", ";"),
        ('"x, y",z\n"u, v","w, 1"\n', ","),
        ('"a, b";c\n"d";e\n', ";"),
        ('"x, y", z\n"u", v\n', ""),
        ("To be, or not to be, that is the question:\nWhether 'tis nobler in the mind\nto suffer\n", ""),
        ("Hello, world", ""),
        ("one line", ""),
        ("a\tb, c\nd\te\nf\n", "\t"),
        ('"a,b\nc,d\ne,f\n', ","),
    ],
)
def test_the_delimiter_is_found(text, delimiter):
    assert find_delimiter(text) == delimiter


def test_a_comma_and_a_space_are_between_columns_where_every_row_has_them():
    rows = ["source, target", "a b, b a", "cat, tac", "dog, god"]
    found = inspect("\n".join(rows).encode())
    assert (found.delimiter, found.width, found.titled) == (",", 2, True)
    assert usable(found, (0, 1), titled=True).texts == (("a b", "b a"), ("cat", "tac"), ("dog", "god"))
    for text in ("Yes, I am.\nNo, he is not.", "\n".join([*rows, "A sentence."]), "\n".join([*rows, "a, b, c"])):
        assert inspect(text.encode()).delimiter == ""


def test_a_delimiter_that_was_chosen_is_taken():
    assert [record.cells for record in inspect(b"a,b\tc", ",").records] == [("a", "b\tc")]
    assert [record.cells for record in inspect(b'"a,b\tc', "").records] == [('"a,b\tc',)]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "white space"),
        (b" \n\t\n", "white space"),
        (b"\x89PNG\0\0", "zero bytes"),
        ("a\tb".encode("utf-16"), "UTF-16"),
        ("a\tb\n".encode("utf-16-be"), "in UTF-16: save it as UTF-8"),
        ("一只猫\u3000\t哈\n".encode("utf-16-le"), "in UTF-16: save it as UTF-8"),
        (b"a\tb\nc\0\n", "zero bytes"),
        ("é\tà\n\nè\tù\n".encode("latin-1"), "no line of the file is in UTF-8"),
        (b"x" * (LIMIT + 1), "10 MiB is the most"),
    ],
)
def test_what_is_no_text_is_refused_in_a_sentence(content, sentence):
    with pytest.raises(ValueError, match=sentence):
        inspect(content)


CELL = st.text(st.sampled_from('ab,;"\n\t <>é'), max_size=6).map(str.strip)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=5), st.sampled_from([",", ";"]))
def test_a_table_that_the_csv_module_writes_is_read_back(rows, delimiter):
    held = io.StringIO()
    csv.writer(held, delimiter=delimiter, lineterminator="\n").writerows(rows)
    filled = [row for row in rows if any(row)]
    if not filled:
        return
    found = inspect(held.getvalue().encode(), delimiter)
    quoted = [row for row in filled if not all(set(cell) <= {delimiter, " "} for cell in row)]
    assert [record.cells for record in found.records if record.cells in quoted] == quoted
    assert not found.faults


def test_a_file_without_end_of_quotes_takes_no_long_time():
    found = inspect(('"' + "a,b\n" * 20_000).encode(), ",")
    assert reasons(found.faults) == [(1, "quote")]
    assert len(found.records) == 19_999


def test_a_row_of_very_many_columns_leaves_those_that_one_can_choose():
    found = inspect(b"," * 100_000 + b"x\n")
    assert (len(found.records[0].cells), found.width) == (100_001, MOST_COLUMNS)


@pytest.mark.slow
def test_every_one_of_a_hundred_thousand_rows_is_counted():
    rows = [f"{number},{number // 2}" for number in range(80_000)] + ["7,3"] * 9_000 + [""] * 1_000 + ["x"] * 10_000
    found = inspect("\n".join(rows).encode())
    chosen = usable(found, (0, 1), titled=False)
    assert (len(chosen.texts), chosen.duplicates, found.blank) == (80_000, 9_000, 1_000)
    assert [fault.number for fault in chosen.faults] == list(range(90_001, 100_001))


def test_only_tables_and_texts_are_read_and_none_that_is_too_large(tmp_path):
    for name, content, reason in (
        ("passwd", b"x", r"must end in .tsv, .csv or .txt"),
        ("large.tsv", b"a" * (LIMIT + 1), r"more than 10 MiB, the most here"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=reason):
            read_content(tmp_path / name)
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(ValueError, match="is no file"):
        read_content(tmp_path / "folder.tsv")
    (tmp_path / "a.tsv").write_bytes(b"a\tb")
    assert read_content(tmp_path / "a.tsv") == b"a\tb"
