"""Figures are plain values: they know no Streamlit, no session and no language, and can be compared."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from viz.figures.axis import Axis, Scale
from viz.figures.compared import Compared
from viz.figures.figure import About, Caption
from viz.figures.heatmap import Heatmap, Lines

VIZ = Path("viz")
FIGURES = sorted(path.stem for path in Path("viz/figures").glob("[!_]*.py"))
Q, K = Axis("q", ["q1", "q2"]), Axis("k", ["k1", "k2"])
VALUES = np.array([[1, 2], [3, np.nan]], np.float32)


def heatmap(values: np.ndarray) -> Heatmap:
    return Heatmap(Caption("name", "file", "stamp", about=About("said", ["x"])), values, Q, K, Scale(0, 3, "v"))


def test_figures_import_no_streamlit_no_session_and_no_language():
    modules = ", ".join(f"viz.figures.{name}" for name in FIGURES)
    unwanted = "('streamlit', 'viz.state', 'viz.i18n', 'viz.render', 'viz.ui', 'viz.frame', 'torch')"
    code = f"import sys, {modules}; sys.exit(str([name for name in sys.modules if name.startswith({unwanted})] or ''))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.strip()) in ((0, ""), (1, "")), ended.stderr


def test_figures_are_equal_where_all_that_they_hold_is():
    assert heatmap(VALUES) == heatmap(VALUES.copy())
    assert heatmap(VALUES) != heatmap(VALUES + 1)
    assert heatmap(VALUES) != replace(heatmap(VALUES), columns=Axis("k", ["k1", "k3"]))
    compared = [replace(heatmap(VALUES), values=Compared(VALUES, VALUES - delta)) for delta in (1, 1, 2)]
    assert compared[0] == compared[1] != compared[2]
    assert heatmap(VALUES) != Lines(*(getattr(heatmap(VALUES), name) for name in LINES), colour=(0, 0, 0))


LINES = ("caption", "values", "rows", "columns", "scale")


def test_a_figure_cannot_be_changed():
    with pytest.raises(AttributeError):
        heatmap(VALUES).chosen = 1  # type: ignore[misc]


def test_a_difference_is_infinite_where_now_is_not_finite_and_nan_without_a_counterpart():
    compared = Compared(np.array([1, np.inf, 2, np.nan], np.float32), np.array([0.5, 1, np.nan, 1], np.float32))
    np.testing.assert_array_equal(compared.difference, np.array([0.5, np.inf, np.nan, np.inf], np.float32))
    assert np.isnan(Compared(VALUES).difference).all()


def test_what_makes_a_figure_knows_no_session_and_no_language():
    kinds = "Chart Heatmap Lines Panels HeadGrid QuerySteps Matrices Vectors Ranking Wiring FigureView".split()
    functions = [
        node
        for path in Path("viz/pages").rglob("*.py")
        if path.name != "page.py"  # which draws the figures
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.returns is not None and ast.unparse(node.returns) in kinds
    ]
    names = {node.name: {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} for node in functions}
    unwanted = {"_", "current_session", "session", "in_language", "literal", "view"}
    assert len(functions) > 70
    assert {name: found for name, used in names.items() if (found := used & unwanted)} == {}


def test_behind_each_question_mark_are_two_plain_sentences():
    """What is drawn, and what it tells. Those of the Lab's cards are two already, see `plain_words`."""
    lacking = []
    for path in sorted(VIZ.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "About":
                told = len(call.args) > 3 or any(each.arg == "meaning" for each in call.keywords)
                lacking += [] if told else [f"{path.relative_to(VIZ)}: {ast.unparse(call)}"]
    assert [each.partition(":")[0] for each in lacking] == ["pages/lab/outcome.py"], lacking
