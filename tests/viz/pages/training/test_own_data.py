"""Data of one's own on the page Training: uploads, pasted texts, which of them counts, and what is too long."""

from __future__ import annotations

import re

import pytest

from tests.app_reading import sound
from tests.viz.pages.training.training_page import TABLE, page, words


@pytest.mark.parametrize(("kind", "said"), [("encoder-decoder", "cut off"), ("decoder-only", "left out")])
def test_texts_that_are_longer_than_the_model_reads_are_counted(kind, said):
    app = page(training_data="own", kind=kind)
    app.text_area(key="own_pasted").set_value(TABLE + "".join(f"{'ab' * 40}{end},x\n" for end in "cde")).run()
    next(each for each in app.selectbox if each.key.startswith("network_units")).set_value("characters").run()
    assert re.search(r"[1-3] (texts|pairs) are longer than max_length \(64\)", words(sound(app)))
    assert said in words(app)
    app.text_input(key="network_max_length").set_value("99").run()
    assert "max_length (" not in words(sound(app))


def test_of_a_file_and_a_pasted_text_the_last_counts_and_then_the_other():
    app = page(training_data="own")
    rows = "rows to learn from: {}"
    app.text_area(key="own_pasted").set_value("a\tb\nc\td\n").run()
    assert rows.format(2) in words(app)
    app.file_uploader(key="own_file").set_value(("x.tsv", b"a\tb\nc\td\ne\tf\n", "text/tab")).run()
    assert rows.format(3) in words(app)
    assert "The file counts" in words(app)
    app.text_area(key="own_pasted").set_value("").run()
    assert rows.format(3) in words(app)
    assert "counts, for" not in words(app)
    app.text_area(key="own_pasted").set_value("a\tb\n").run()
    assert rows.format(1) in words(app)
    assert "The pasted text counts" in words(app)
    app.text_area(key="own_pasted").set_value("").run()
    assert rows.format(3) in words(app)
    app.text_area(key="own_pasted").set_value("a\tb\n").run()
    app.file_uploader(key="own_file").set_value(("y.tsv", b"a\tb\nc\td\ne\tf\n", "text/tab")).run()
    draft = app.query_params["draft"]
    later = page(training_data="own", draft=draft)  # after a reload the file's field is empty
    assert rows.format(3) in words(later)
    assert "A file that was given before counts, and not this text" in words(later)
    app.text_area(key="own_pasted").set_value("").run()
    app.file_uploader(key="own_file").set_value([]).run()
    assert "nothing to learn from yet" in words(app)


def test_a_row_in_error_is_named_by_its_line():
    app = page(training_data="own")
    app.file_uploader(key="own_file").set_value(("b.tsv", b"one\teins\ncaf\xe9\tx\ntwo\tzwei\n", "text/tab")).run()
    assert list(app.dataframe[0].value["line"]) == [2]
