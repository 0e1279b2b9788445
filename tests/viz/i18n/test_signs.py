"""Signs between words: one form of quotes in each language, and colons and commas of the language in use."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from tests.viz.i18n.test_catalogue import translations
from viz.i18n.catalogue import speaking
from viz.i18n.format import with_label
from viz.i18n.messages import in_language, joined
from viz.pages.lessons.shelf import lessons
from viz.web.modules import ASIDE, VIZ

CODE = ("save_file(", "torch.load", "torch.jit.load", "model_type, by which", "line {number} of {name} has")
# Strings that are put together around a colon or semicolon, by file: code, or numbers as they are typed.
PUT_TOGETHER = {
    "frame/guard.py": 2,
    "lab/components.py": 1,
    "lab/parameters.py": 2,
    "render/document.py": 2,
    "render/schema.py": 1,
    "state/checkpoints.py": 1,
    "state/shown_model.py": 1,
}


def test_each_language_has_one_form_of_quotes():
    for text, translated in translations().items():
        if not any(each in text for each in CODE):  # whose quotes are those of a program or a table
            assert '"' not in text + translated, text
        assert not re.search("[「」『』‘’]", text + translated), text
    for language in ("en", "zh"):
        with speaking(language):
            for lesson in lessons()[0]:
                hints = [hint for step in lesson.steps if step.question for hint in step.question.hints]
                paragraphs = [each for step in lesson.steps for each in (*step.paragraphs, *step.notes)]
                spans = [span.content for each in paragraphs for span in each.spans if span.style != "code"]
                assert not [each for each in (lesson.title, lesson.level, *hints, *spans) if re.search('["「」]', each)]


def test_chinese_has_no_colon_or_comma_of_half_a_width():
    shape = r"^[^\[]*"  # in which there are commas
    half = re.compile(rf"[\u4e00-\u9fff][:;] ?[\u4e00-\u9fff]|{shape}[\u4e00-\u9fff], ?[\u4e00-\u9fff]")
    assert not [text for text in translations().values() if half.search(text)]


def test_parts_that_are_joined_have_the_signs_of_the_language():
    with speaking("zh"):
        assert with_label("a", "b") == "a：b"
        assert in_language(joined("; ", joined(", ", "a", "b"), "c")) == "a，b；c"
    with speaking("en"):
        assert in_language(joined("; ", joined(": ", "a", "b"), "c")) == "a: b; c"


def put_together(source: str) -> int:
    """How many strings of a module are made of values around a colon, or of parts around semicolons."""
    found = 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            pairs = zip(node.values, node.values[1:], strict=False)
            found += any(
                isinstance(one, ast.FormattedValue)
                and isinstance(two, ast.Constant)
                and str(two.value).startswith(": ")
                for one, two in pairs
            )
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join":
            found += isinstance(node.func.value, ast.Constant) and node.func.value.value in ("; ", ": ")
    return found


def test_no_sentence_is_put_together_around_a_sign_of_one_language():
    assert put_together('f"{name}: {value}"') == put_together('"; ".join(parts)') == 1
    found: Counter[str] = Counter()
    scripts = []
    for path in VIZ.rglob("*"):
        if {*ASIDE} & {*path.parts}:
            continue
        if path.suffix == ".py" and (count := put_together(path.read_text("utf-8"))):
            found[Path(*path.relative_to(VIZ).parts[-2:]).as_posix()] = count
        elif path.suffix == ".js" and re.search(r"\}: \$\{", path.read_text("utf-8")):
            scripts.append(path.name)
    assert (found, scripts) == (PUT_TOGETHER, [])
