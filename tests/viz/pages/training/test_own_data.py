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


def test_a_file_still_counts_after_a_reload_when_its_field_is_empty():
    app = page(training_data="own", own_from="paste")
    app.text_area(key="own_paste").set_value("a\tb\nc\td\n").run()
    app.segmented_control(key="own_from").set_value("file").run()
    app.file_uploader(key="own_file").set_value(("x.tsv", b"a\tb\nc\td\ne\tf\n", "text/tab")).run()
    app.segmented_control(key="own_from").set_value("paste").run()
    assert "rows to learn from: 2" in words(app)
    later = page(training_data="own", draft=app.query_params["draft"])
    assert "rows to learn from: 3" in words(later)
    assert "x.tsv, which was given before, still counts." in words(later)
