"""A file that a visitor gives: sent, pasted or by its path, where that is permitted; the last of each is kept."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

ROW, ROWS = "e\tf\n", "a\tb\nc\td\n"


def field() -> None:
    """A script with one field, and what it gives."""
    import streamlit as st

    from viz.ui.file_field import FileField

    labels = {"file": "A file", "paste": "Rows", "path": "Its path"}
    content = FileField(key="own", labels=labels).content(st.container())  # type: ignore[arg-type]
    st.text("nothing" if content is None else f"{content.name}: {content.data.decode()!r}")


@pytest.fixture
def app() -> AppTest:
    return AppTest.from_function(field, default_timeout=60)


def given(app: AppTest) -> str:
    assert not app.exception
    return app.text[0].value


def test_of_a_file_and_a_pasted_text_the_chosen_one_counts_and_each_is_kept(app):
    app.run().file_uploader(key="own_file").set_value(("x.tsv", ROW.encode(), "text/tab")).run()
    assert given(app) == f"x.tsv: {ROW!r}"
    app.segmented_control(key="own_from").set_value("paste").run()
    assert given(app) == "nothing"
    app.text_area(key="own_paste").set_value(ROWS).run()
    assert given(app) == f": {ROWS!r}"
    app.segmented_control(key="own_from").set_value("file").run()
    assert given(app) == f"x.tsv: {ROW!r}"
    assert "x.tsv, which was given before, still counts." in [each.value for each in app.caption]
    app.segmented_control(key="own_from").set_value("paste").run()
    app.text_area(key="own_paste").set_value(" ").run()
    assert given(app) == "nothing"


def test_a_path_is_read_where_the_visitor_sits_at_this_machine(app, tmp_path, monkeypatch):
    (tmp_path / "pairs.tsv").write_text(ROWS, encoding="utf-8")
    app.query_params["own_from"] = "path"
    app.run().text_input(key="own_path").set_value(f'"{tmp_path / "pairs.tsv"}"').run()
    assert given(app) == f"pairs.tsv: {ROWS!r}"
    app.text_input(key="own_path").set_value(str(tmp_path / "none.tsv")).run()
    assert given(app) == "nothing"
    assert "none.tsv is not there, or is no file" in app.error[0].value
    app.text_input(key="own_path").set_value(str(tmp_path / "pairs.tsv")).run()
    monkeypatch.setenv("VITRINE_PATHS", "0")
    app.run()
    assert (given(app), list(app.text_input)) == ("nothing", [])


def test_a_server_that_takes_no_files_takes_pasted_rows_and_says_so(app, monkeypatch):
    monkeypatch.setenv("VITRINE_PUBLIC", "1")
    monkeypatch.setenv("VITRINE_UPLOADS", "0")
    app.query_params["own_from"] = "file"
    app.run()
    assert not app.file_uploader
    assert "This server takes no files." in app.caption[0].value
    app.text_area(key="own_paste").set_value(ROWS).run()
    assert given(app) == f": {ROWS!r}"
