"""Choices of a page's state that no control of the page has: misspelt, or gone."""

from __future__ import annotations

from functools import cache

from model.lessons.state import State
from tests.test_rooms import ROOT

PLACED = {"model", "source", "target", "changes", "layer", "head", "query", "hide", "training", "training_step"}
FREE = {"norm", "unit", "statement", "temperature", "top_p", "top_k", "masks", "beam"}  # whose values are no names


def unknown_choices(state: State) -> list[str]:
    """Names of parameters, and values of choices, that do not stand in quotes in the code of the state's page."""
    code = _code(state.page)
    names = {name: value for name, value in state.parameters.items() if name not in PLACED}
    unknown = [name for name in names if f'"{name}"' not in code]
    return unknown + [value for name, value in names.items() if name not in FREE and f'"{value}"' not in code]


@cache
def _code(page: str) -> str:
    """Code of a page, of what its choices are made of, and of the session's own parameters."""
    files = [*(ROOT / "viz" / "pages" / page).glob("*.py"), *(ROOT / "viz" / "state").glob("*.py")]
    files += [*(ROOT / "model" / "analysis").glob("*.py"), ROOT / "model" / "capture" / "trace.py"]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
