"""Fields for a table of texts: what is read of any file, what is refused in a sentence, and which rows are in error."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from viz.ui.text_table import column_names


def fields(data: bytes) -> None:
    """A script with the fields of a table of two columns."""
    import streamlit as st

    from viz.ui import text_table
    from viz.ui.file_field import Content

    words = "between {delimiter} · columns {columns} · rows {usable} · duplicates {duplicates} · "
    words += "empty {blank} · errors {faults}"
    if made := text_table.read_file(st.container(), "own", Content(data, "x.csv")):
        text_table.read_rows(st.container(), (made[1], st.container()), "own", made[0], 2, words)


def drawn(data: bytes) -> AppTest:
    app = AppTest.from_function(fields, args=(data,), default_timeout=60).run()
    assert not app.exception
    return app


def words(app: AppTest) -> str:
    return " ".join(each.value for each in (*app.caption, *app.error))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "nothing in it but white space"),
        (b"one\ntwo\nthree\n", "No columns were found"),
        (b"a\t\n\tb\n", "No row can be used: choose other columns"),
        (b"source,target\n", "No row can be used: choose other columns"),
        (b"source,target\n" + "é,à\n".encode("latin-1") * 9, "No row can be used: save the file as UTF-8."),
        (b"a\tb\nc\td\ncaf\xe9\tx", "columns 2 · rows 2 · duplicates 0 · empty 0 · errors 1"),
        (b"a\tb\n" + b"x" * 100_000 + b"\ty\n", "between tab · columns 2 · rows 2"),
        (b"<b>a</b>\t**b**\n" * 3, "rows 1 · duplicates 2"),
        ("我,你\n\n他,\n".encode(), "rows 1 · duplicates 0 · empty 1 · errors 1"),
    ],
)
def test_a_strange_file_is_read_or_refused_in_a_sentence(content, said):
    """Which files are refused is tested with `inspect`."""
    assert said in words(drawn(content))


def test_rows_in_error_are_listed_by_their_lines_and_the_first_others_are_shown():
    rows = "".join(f"{word},{word[::-1]}\n" for word in ("ab", "abc", "bcd", "dab", "cab", "bad"))
    app = drawn(f"source,target\n{rows}ab,ba\nlonely\n,empty\n<b>x</b>,**y**\ncaf\xe9,x\n".encode("latin-1"))
    assert "rows 7 · duplicates 1 · empty 0 · errors 3" in words(app)
    faults, preview = (each.value for each in app.dataframe)
    assert list(faults["line"]) == [9, 10, 12]
    assert list(faults["begins with"]) == ["lonely", ",empty", "caf\ufffd,x"]
    assert (list(preview.columns), list(preview.index)) == (["source", "target"], [2, 3, 4, 5, 6])


def test_what_is_between_columns_and_whether_they_have_names_can_be_chosen():
    app = drawn(b"no;Source;target\n1;chat;cat\n2;chien;dog\n")
    assert "between ; · columns 3 · rows 2" in words(app)
    assert [app.selectbox(key=f"own_{side}3").value for side in ("source", "target")] == [1, 2]  # by their names
    app.toggle(key="own_titledTrue").set_value(False).run()
    assert "rows 3" in words(app)
    app.selectbox(key="own_delimiter").set_value("\t").run()
    assert "No columns were found" in words(app)


def test_columns_are_named_once_each():
    found = SimpleNamespace(records=[SimpleNamespace(cells=("a", "a", ""))], width=4)
    assert column_names(found, True) == ["a (1)", "a (2)", "column 3", "column 4"]
