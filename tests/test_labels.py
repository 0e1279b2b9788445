"""Labels that tests in the browser press and look for are the application's own: who changes one is told here, and not
when somebody runs the slow ones.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.test_rooms import ROOT, files
from tests.viz.i18n.test_catalogue import translations
from viz.pages.lessons.shelf import BOX

FINDERS = ("get_by_text", "get_by_label", "get_by_title", "get_by_placeholder")
OTHERS = {  # that are no texts of the application
    *("SVG", "PNG", "CSV"),  # kinds of files
    *("mine", "a-story", "reading-1"),  # checkpoints that a test saves
    "class MultiHeadAttention",  # code that is shown
    "Component Error",  # Streamlit's own
    "Selected 2. Run",  # a line of Streamlit's table
    "what it shows",  # a figure that a test makes
    *("Yes", "attention_block"),  # a token that is typed, a part of the names of tensors
}


def labels(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each label that a test finds something by, where it is a literal with a word in it."""
    for node in ast.walk(ast.parse(source)):
        found: list[str] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            names = ("name", "has_text") if node.func.attr == "get_by_role" else ("has_text",)
            given = [keyword.value for keyword in node.keywords if keyword.arg in names]
            given += node.args[:1] if node.func.attr in FINDERS else []
            found = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = re.findall(r'\[aria-label="([^"]+)"\]', node.value)
        for text in found:
            if re.search(r"\w\w", text):
                yield node.lineno, text.strip(" ●")


@cache
def application() -> tuple[str, set[str]]:
    """Every text of the application in both languages, its lessons' too, and what stands between values in one."""
    texts = [each for pair in translations().items() for each in pair]
    lessons = [path.read_text(encoding="utf-8") for path in BOX.glob("*.md")]
    pieces = {piece.strip() for text in texts if "{" in text for piece in re.split(r"\{[^}]*\}", text)}
    return "\n".join(texts + lessons), {each for each in pieces if re.search(r"\w.*\w.*\w.*\w|[一-鿿]", each)}


def unknown(source: str) -> list[tuple[int, str]]:
    """Labels in a test that are no part of a text of the application, and hold none of what stands between values."""
    texts, pieces = application()
    return [
        (line, label)
        for line, label in labels(source)
        if label not in texts and label not in OTHERS and not any(piece in label for piece in pieces)
    ]


def test_a_label_that_is_gone_is_found_out():
    source = """
page.get_by_role("button", name="Begin and walk", exact=True).click()
page.get_by_role("button", name="Begin and run").or_(page.get_by_text("● pinned")).click()
page.locator('input[aria-label="Origin"]').or_(page.locator('input[aria-label="Source"]'))
expect(page.get_by_text("Saved as a-tale")).to_be_visible()
page.get_by_text("第 1 层").or_(page.locator("p", has_text="thrown upstairs")).get_by_text(name)
"""
    assert [label for _line, label in unknown(source)] == ["Begin and walk", "Origin", "thrown upstairs"]


def test_labels_that_the_browsers_tests_find_things_by_are_there():
    gone = [
        f"{file}:{line}: “{label}”"
        for file in files("tests/browser")
        for line, label in unknown((ROOT / file).read_text(encoding="utf-8"))
    ]
    assert not gone, "no text of the application: " + ", ".join(gone)
