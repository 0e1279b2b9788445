"""Data of one's own on the page Training: uploads, pasted texts, which of them counts, and what is too long."""

from __future__ import annotations

import re

import pytest

from tests.app_reading import sound
from tests.viz.pages.training.training_page import TABLE, page, words


@pytest.mark.parametrize(("kind", "said"), [("encoder-decoder", "cut off"), ("decoder-only", "left out")])
def test_texts_that_are_longer_than_the_model_reads_are_counted(kind, said):
    app = page(training_data="own", own_from="paste", kind=kind)
    app.text_area(key="own_paste").set_value(TABLE + "".join(f"{'ab' * 40}{end},x\n" for end in "cde")).run()
    next(each for each in app.selectbox if each.key.startswith("network_units")).set_value("characters").run()
    assert re.search(r"[1-3] (texts|pairs) are longer than max_length \(64\)", words(sound(app)))
    assert said in words(app)
    app.text_input(key="network_max_length").set_value("99").run()
    assert "max_length (" not in words(sound(app))


def test_of_a_file_and_a_pasted_text_the_chosen_one_counts_and_each_is_kept():
    app = page(training_data="own", own_from="paste")
    rows = "rows to learn from: {}"
    app.text_area(key="own_paste").set_value("a\tb\nc\td\n").run()
    assert rows.format(2) in words(app)
    app.segmented_control(key="own_from").set_value("file").run()
    assert "nothing to learn from yet" in words(app)
    app.file_uploader(key="own_file").set_value(("x.tsv", b"a\tb\nc\td\ne\tf\n", "text/tab")).run()
    assert rows.format(3) in words(app)
    app.segmented_control(key="own_from").set_value("paste").run()
    assert rows.format(2) in words(app)
    later = page(training_data="own", draft=app.query_params["draft"])  # after a reload the file's field is empty
    assert rows.format(3) in words(later)
    assert "x.tsv, which was given before, still counts." in words(later)
    app.text_area(key="own_paste").set_value("").run()
    assert "nothing to learn from yet" in words(app)


def test_a_path_is_learnt_from_where_the_visitor_sits_at_this_machine(tmp_path, monkeypatch):
    (tmp_path / "pairs.tsv").write_text("a\tb\nc\td\n", encoding="utf-8")
    app = page(training_data="own", own_from="path")
    app.text_input(key="own_path").set_value(str(tmp_path / "pairs.tsv")).run()
    assert "rows to learn from: 2" in words(sound(app))
    monkeypatch.setenv("VITRINE_PATHS", "0")
    assert not [field for field in page(training_data="own", own_from="path").text_input if field.key == "own_path"]


def test_a_row_in_error_is_named_by_its_line():
    app = page(training_data="own")
    app.file_uploader(key="own_file").set_value(("b.tsv", b"one\teins\ncaf\xe9\tx\ntwo\tzwei\n", "text/tab")).run()
    assert list(app.dataframe[0].value["line"]) == [2]
