"""Text of a step as Markdown: literal, but for its emphasis, links and the widths of vectors."""

from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt

from model.lessons.lesson import Paragraph, Span
from viz.i18n.catalogue import speaking
from viz.pages.lessons.step_text import markdown, prose


@pytest.mark.parametrize(
    "text",
    [
        "<img src=x>",
        "![p](https://x.org/a.png)",
        "[x](javascript:alert(1))",
        "$a$ :red[x] :material/home:",
        "a *b* `c`",
    ],
)
def test_text_is_literal_where_streamlit_reads_it(text):
    shown = markdown([Paragraph((Span(text), Span(text, "strong"), Span(text, "link", "https://x.org/a(b)")))])
    inline = MarkdownIt("commonmark", {"html": True}).parse(shown)[1]
    assert {part.type for part in inline.children} <= {"text", "strong_open", "strong_close", "link_open", "link_close"}
    links = [part.attrGet("href") for part in inline.children if part.type == "link_open"]
    assert links == ["https://x.org/a%28b%29"]
    assert not re.search(r"(?<!\\)\$|:red|:material/", shown)


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("by 1/√d_k, so", r"by 1/$\sqrt{d_{k}}$, so"),
        ("d_model is 256", r"$d_{\mathrm{model}}$ is 256"),
        ("$x$ bad_key", r"\$x\$ bad_key"),
    ],
)
def test_widths_in_a_lessons_text_are_formulas_and_nothing_else_is(text, markdown):
    assert prose(text) == markdown


def test_a_stop_behind_a_token_begins_no_row_and_a_word_behind_a_gap_may():
    spans = (Span("after "), Span("<s>", "code"), Span(". Two"), Span("</s>", "code"), Span(" comes"))
    assert markdown([Paragraph(spans)]) == "\nafter `<s>`\N{WORD JOINER}. Two`</s>` comes\n"


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("/lab?lab_part=statements&statement=kv-cache", "lab?lab_part=statements&statement=kv-cache&language=zh"),
        ("/masks", "masks?language=zh"),
        ("layer-norm.zh.md", "lessons?lesson=layer-norm&language=zh"),
        ("https://x.org/a", "https://x.org/a"),
    ],
)
def test_a_link_of_ours_opens_in_the_language_in_use(address, target):
    with speaking("zh"):
        assert markdown([Paragraph((Span("there", "link", address),))]).strip() == f"[there]({target})"
