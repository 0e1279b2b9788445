"""tests/SKIPS.md names every test that does not run by default, each in the section of its mark, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.test_rooms import ROOT, files

MARKS = ("slow", "gpu", "benchmark", "fuzz", "skip")  # sections of tests/SKIPS.md
SKIPPING = {"skip": "skip", "skipif": "skip", "importorskip": "skip", "xfail": "skip"}
ANY = re.compile(rf"\.({'|'.join({*MARKS, *SKIPPING})})\b")  # files without one of these are not parsed: most of them
LISTED = (ROOT / "tests" / "SKIPS.md").read_text(encoding="utf-8")


def skips(source: str) -> set[tuple[str, str]]:
    """(mark, test) of everything in a test module that leaves tests out: marks of functions, modules and parameters,
    also by the name of a constant, and calls of pytest.skip.
    """
    module = ast.parse(source)
    constants = {
        target.id: node.value
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def marks(tree: ast.AST) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("pytest", "pytest.mark"):
                yield SKIPPING.get(node.attr, node.attr)
            elif isinstance(node, ast.Name) and node.id in constants and node.id != "pytestmark":
                yield from marks(constants[node.id])

    everywhere = set(marks(constants["pytestmark"])) if "pytestmark" in constants else set()
    found = {
        (mark, node.name)
        for node in module.body
        if isinstance(node, ast.FunctionDef)
        for mark in {
            *(everywhere if node.name.startswith("test_") else ()),
            *(mark for decorator in node.decorator_list for mark in marks(decorator)),
            *(mark for each in node.body for mark in marks(each) if mark == "skip"),
        }
    }
    return {(mark, test) for mark, test in found if mark in MARKS}


def listed() -> list[tuple[str, str, str]]:
    """(mark, file, test) of every line of tests/SKIPS.md that has a reason."""
    found = []
    for section in LISTED.split("\n## ")[1:]:
        mark = re.match(r"`?(\w+)", section)
        assert mark
        for file, tests in re.findall(r"^- `([\w/.]+)`: ([\w, ]+) — ..", section, re.MULTILINE):
            found += [(mark[1], f"tests/{file}", test) for test in tests.split(", ")]
    return found


def test_marks_are_found_wherever_they_stand():
    source = """
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
@pytest.mark.gpu
def test_a(): ...
@pytest.mark.parametrize("seed", SEEDS)
def test_b(seed): ...
def test_c():
    pytest.skip("no")
@pytest.mark.unchecked
def test_d(): ...
"""
    assert skips(source) == {("gpu", "test_a"), ("slow", "test_b"), ("skip", "test_c")}
    everywhere = skips(source + "pytestmark = [pytest.mark.browser, pytest.mark.fuzz]")
    assert everywhere - skips(source) == {("fuzz", f"test_{letter}") for letter in "abcd"}


def test_every_test_that_does_not_run_by_default_is_listed_once():
    there = {
        (mark, file, test)
        for file in files("tests")
        if ANY.search(source := (ROOT / file).read_text(encoding="utf-8"))
        for mark, test in skips(source)
    }
    assert there - {*listed()} == set(), "tests/SKIPS.md lacks these, in the section of their mark, with a reason"
    assert {*listed()} - there == set(), "tests/SKIPS.md lists these, which run by default or are gone"
    assert len(listed()) == len({*listed()})
