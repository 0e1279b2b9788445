"""Text of a step as Markdown, which shows it as it is, and as values for the browser."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from viz.i18n.catalogue import _, language
from viz.i18n.format import literal, one_row, token_code
from viz.pages.lessons.steps import Part
from viz.state.session import Key

if TYPE_CHECKING:
    from model.lessons.lesson import Lesson, Paragraph

# Widths of vectors, as the paper calls them.
FORMULAS = {
    "d_k": "$d_{k}$",
    "√d_k": r"$\sqrt{d_{k}}$",
    "d_v": "$d_{v}$",
    "d_model": r"$d_{\mathrm{model}}$",
    "√d_model": r"$\sqrt{d_{\mathrm{model}}}$",
    "d_ff": r"$d_{\mathrm{ff}}$",
}
WIDTH = re.compile(rf"((?<![A-Za-z0-9_])(?:{'|'.join(sorted(FORMULAS, reverse=True))})(?![A-Za-z0-9_]))")
ROW = 32  # letters of code that stand in one row
SIGNS = {"strong": "**", "emphasis": "*", "": "", "link": ""}


def minutes_words(lesson: Lesson) -> str:
    """Minutes of a lesson; those in class, and those of one who reads it alone, where its file has both."""
    if lesson.alone is None:
        return _("{minutes} min").format(minutes=lesson.minutes)
    return _("{minutes} min in class, about {alone} alone").format(minutes=lesson.minutes, alone=lesson.alone)


def paragraphs_data(paragraphs: Sequence[Paragraph]) -> list[dict[str, Any]]:
    """Paragraphs as values: text and style of each span."""
    return [
        {"number": each.number, "spans": [[span.content, str(span.style)] for span in each.spans]}
        for each in paragraphs
    ]


def markdown(paragraphs: Sequence[Paragraph]) -> str:
    """Text of a step as Markdown that shows it as it is, with its emphasis, code and links alone."""
    lines = []
    for paragraph in paragraphs:
        text, before = "", ""
        for span in paragraph.spans:
            joined = before == "code" and span.content[:1] not in ("", " ")  # a stop begins no row
            text += "\N{WORD JOINER}" * joined + _span(span.content, span.style, span.address)
            before = span.style
        mark = f"{paragraph.number}." if paragraph.number else "-"
        lines.append(f"\n{text}\n" if paragraph.number is None else f"{mark} {text}\n")
    return "".join(lines)


def _span(text: str, style: str, address: str) -> str:
    if style == "code":
        return token_code(one_row(text) if len(text) <= ROW else text)
    inner = text.strip(" ")
    if not inner:
        return " " if text else ""
    before, after = " " * (text[0] == " "), " " * (text[-1] == " ")
    words = f"{SIGNS[style]}{prose(inner)}{SIGNS[style]}"
    if address:
        words = f"[{words}]({_target(address)})"
    return f"{before}{words}{after}"


def prose(text: str) -> str:
    """Text as Markdown that shows it as it is, with widths such as √d_k as formulas."""
    first, *others = WIDTH.split(text)  # what stands between widths, and these, in turn
    words = literal(first) if first else ""
    for width, rest in zip(others[::2], others[1::2], strict=True):
        space = " " if rest.startswith(" ") else ""
        words += FORMULAS[width] + space + (literal(rest) if rest else "")
    return words


def _target(address: str) -> str:
    """Address of a link, without signs that end it: of a lesson of its folder, of a page, of another site. One of ours
    is in the language in use: it opens in another tab, which knows only the browser's.
    """
    if address.endswith(".md") and "/" not in address:
        return f"lessons?{Part.LESSON}={quote(address.partition('.')[0])}&{Key.LANGUAGE}={language()}"
    target = quote(address.removeprefix("/"), safe=":/?&=%#~+,;@-._")
    return f"{target}{'&' if '?' in target else '?'}{Key.LANGUAGE}={language()}" if address.startswith("/") else target
