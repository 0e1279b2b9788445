"""What a visitor reads where the application itself has failed."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def failing(language: str) -> None:
    from viz.frame.failure import tell_failure
    from viz.i18n import catalogue

    catalogue.use(language)
    assert tell_failure(KeyError("/home/somebody/secret"))  # and Streamlit says nothing


def test_a_failure_is_a_sentence_and_a_button_in_the_visitors_language_without_what_the_exception_says():
    for language, words, button in (("en", "failed here", "Draw the page again"), ("zh", "出了错", "重画本页")):
        app = AppTest.from_function(failing, args=(language,)).run()
        (said,) = app.error
        assert words in said.value
        assert "(KeyError)" in said.value or "（KeyError）" in said.value
        assert "secret" not in said.value
        assert app.button[0].label == button
        assert not app.exception
