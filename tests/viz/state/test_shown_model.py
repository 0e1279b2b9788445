"""What is said of a model that could not be opened, and what is shown instead."""

from __future__ import annotations

import pytest

from tests.viz.no_server import no_server
from viz.i18n.catalogue import use
from viz.state import shown_model


@pytest.mark.parametrize(
    ("language", "reason", "said"),
    [
        ("en", "gpt: it is damaged", "gpt was not opened: it is damaged. sort is shown instead."),
        ("zh", "gpt：文件已损坏", "gpt 未能打开：文件已损坏。改为显示 sort。"),
    ],
)
def test_a_model_that_is_not_opened_is_named_once_in_sentences_of_the_language(language, reason, said, monkeypatch):
    no_server(monkeypatch, shown_model)
    use(language)
    try:
        assert shown_model.fall_back("gpt", reason, "map", ["gpt", "sort"], {})
        assert shown_model.state().refusal == (said, "map")
    finally:
        use("en")
