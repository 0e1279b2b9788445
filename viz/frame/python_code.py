"""Python of what is shown: lines that give a page's figures by themselves, and a notebook of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viz.i18n.catalogue import _, language
from viz.i18n.format import page_name
from viz.render.view import FigureView
from viz.state.session import Key, Parameter

if TYPE_CHECKING:
    from viz.state.checkpoints import CheckpointEntry
    from viz.state.session import Session

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = ("lesson", "step", "language", "draft", "uploads", Key.MODEL, Key.SOURCE, Key.TARGET, *Parameter)
MOST = 400  # numbers of a figure that a notebook compares
CLOSE = 1e-6  # of them, or of 1 where they are smaller


@dataclass(frozen=True)
class PageCode:
    """Page as it is shown: of a checkpoint at a path, with texts, in a language, and what its address says besides."""

    page: str
    checkpoint: str
    texts: tuple[str, ...]
    parameters: Mapping[str, str]
    language: str

    @classmethod
    def of(cls, session: Session, page: str, places: Sequence[CheckpointEntry]) -> PageCode:
        """A target that the model has written is left out: it writes it again."""
        source, target = session.traced
        address, chosen = session.address, session.selection
        given: dict[str, str] = {Parameter.LAYER: str(chosen.layer), Parameter.HEAD: str(chosen.head)}
        if (query := address.get(Parameter.QUERY)) is not None:
            given[Parameter.QUERY] = query
        given |= {name: value for name, value in address.everything().items() if name not in ELSEWHERE}
        texts = (source, target) if target else (source,)
        return cls(page, path_of(session, places), texts, {str(name): each for name, each in given.items()}, language())

    def lines(self) -> list[str]:
        """Code that gives the figures, as `page`."""
        numbers = {name: value if value.isdigit() else repr(value) for name, value in self.parameters.items()}
        words = [] if self.language == "en" else [f'language="{self.language}"']
        texts = [json.dumps(text, ensure_ascii=False) for text in self.texts]
        arguments = [f'"{self.page}"', *texts, *(f"{name}={value}" for name, value in numbers.items()), *words]
        return [
            "from model import open_checkpoint",
            "from viz.notebook import figures",
            "",
            f"model = open_checkpoint({json.dumps(self.checkpoint, ensure_ascii=False)})",
            f"page = figures(model, {', '.join(arguments)})",
        ]


def path_of(session: Session, places: Sequence[CheckpointEntry]) -> str:
    """Path of the shown checkpoint from Vitrine's folder; of one that lies elsewhere its name, for its path is the
    server's.
    """
    name = session.model.name
    path = next((place.path for place in places if place.name == name), None)
    inside = path is not None and path.resolve().is_relative_to(ROOT)
    return path.resolve().relative_to(ROOT).as_posix() if path is not None and inside else name


def notebook(code: PageCode, views: Sequence[FigureView]) -> dict[str, Any]:
    """Notebook of nbformat 4.5: opens the checkpoint, draws the figures, and compares their numbers with those here."""
    title = f"# Vitrine · {page_name(code.page)}"
    about = _(
        "The same view in Python: run it in Vitrine's folder, with its packages. Each figure's numbers are compared "
        "with those that the page showed."
    )
    lines = code.lines()
    cells = [_text(f"{title}\n\n{about}"), _code(lines[:2]), _code(lines[3:]), _code(["page"])]
    for figure in views:
        cells += list(_comparison(figure))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _comparison(figure: FigureView) -> Iterator[dict[str, Any]]:
    table = figure.table()
    numbers = {name: table[name].to_numpy() for name in table.select_dtypes("float")}
    if not numbers or not len(table):
        return
    count = max(1, MOST // len(numbers))
    yield _text(f"## {_literal(figure.caption.name)}")
    lines = ["from numpy.testing import assert_allclose", "", f'table = page["{figure.key}"].table()']
    for name, values in numbers.items():
        listed = ", ".join(_number(value) for value in values[:count])
        lines.append(f"expected = [{listed}]")
        column = f"table[{json.dumps(name, ensure_ascii=False)}][:{count}]"
        lines.append(f"assert_allclose({column}, expected, rtol={CLOSE}, atol={CLOSE})")
    yield _code([*lines, "table"])


def _number(value: float) -> str:
    return f"{value:.9g}" if math.isfinite(value) else f"float('{value}')"


def _literal(text: str) -> str:
    """Text in which Markdown finds no sign of its own."""
    return "".join(f"\\{letter}" if letter in r"\`*_{}[]<>()#+-.!|$" else letter for letter in text)


def _text(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def _code(lines: Sequence[str]) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "source": "\n".join(lines), "outputs": [], "execution_count": None}
