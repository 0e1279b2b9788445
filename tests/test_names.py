"""Names are nouns of the field: no participles and no metaphors."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Given to no variable, argument, function, class or field in model/ and viz/.
BANNED = (
    "asked",
    "begun",
    "carrier",
    "found",
    "kept",
    "lead",
    "learnt",
    "made",
    "owes",
    "put_away",
    "said",
    "say_again",
    "shown",
    "stands",
    "told",
    "undo_merges",
    "unfollowed",
)
BANNED_CLASSES = {
    "Asked",
    "Begun",
    "Filling",
    "Found",
    "Judged",
    "Moving",
    "Sent",
    "Shown",
    "Stage",
    "Untyped",
    "Watched",
}


@cache
def given() -> Counter[str]:
    """How often each name is given to something."""
    count: Counter[str] = Counter()
    for file in (path for half in ("model", "viz") for path in sorted((ROOT / half).rglob("*.py"))):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                count[node.id] += 1
            elif isinstance(node, ast.arg):
                count[node.arg] += 1
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                count[node.name] += 1
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                count[node.attr] += 1
    return count


@pytest.mark.parametrize("name", BANNED)
def test_a_banned_name_is_given_to_nothing(name: str) -> None:
    assert not given()[name], f"call it by what it is, a noun of the field, not “{name}”"


def test_no_class_has_a_banned_name() -> None:
    assert not BANNED_CLASSES & given().keys()
