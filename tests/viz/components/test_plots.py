"""Plots: the table of what is drawn, as in the CSV of its menu, and its alternative text."""

from __future__ import annotations

import numpy as np
import pytest

from tests.viz.components.test_registry import unpack
from viz.components.plots import (
    ODD,
    Axis,
    Chart,
    Heading,
    Heatmap,
    Lines,
    Panel,
    Panels,
    Plot,
    Scale,
    Series,
    plot_tables,
)
from viz.pages.residual.components import Wiring

ABOVE = Heading("name", "file", "stamp", "noted")
Q, K = Axis("q", ["q1", "q2"]), Axis("k", ["k1", "k2"])
VALUES, VISIBLE = np.array([[1, 2], [3, np.nan]], np.float32), np.array([[True, False], [True, True]])


def lines_of(plot: Plot, *columns: str) -> list[tuple]:
    ((name, table),) = plot_tables([plot, lambda: None]).items()
    assert (name, table.file) == ("name", "file")
    frame = table.make()
    assert tuple(frame.columns) == columns
    return [tuple(row) for row in frame.itertuples(index=False)]


def alt_of(plot: Plot) -> str:
    return unpack(plot.data)[0]["alt"]


def test_a_chart_gives_each_point_by_its_token_its_label_or_its_number():
    series = [
        Series("a", np.array([0, 1]), np.array([0.5, -1]), "#000"),
        Series("b", np.array([1]), np.array([2]), "#000", labels=["dot"]),
    ]
    drawn = Chart("key", ABOVE, series, Axis("x", ["<b>", "我"]), Axis("y"), tall=9)
    assert lines_of(drawn, "series", "x", "y") == [("a", "<b>", 0.5), ("a", "我", -1.0), ("b", "dot", 2.0)]
    drawn = Chart("key", ABOVE, series[:1], Axis("x", log=True), Axis("y"), tall=9, of="s", place="p")
    assert lines_of(drawn, "s", "p", "y") == [("a", 0.0, 0.5), ("a", 1.0, -1.0)]
    assert alt_of(drawn) == "name: y over x: a −1 … 0.5. noted"


@pytest.mark.parametrize("drawing", ["map", "lines"])
def test_a_map_gives_each_cell_and_whether_it_is_masked(drawing):
    about = ("key", ABOVE, VALUES, Q, K, Scale(0, 3, "v"))
    texts = {"texts": list("abcd"), "texts_title": "t"}
    drawn = [
        Heatmap(*about, visible=VISIBLE, **more)
        if drawing == "map"
        else Lines(*about, visible=VISIBLE, colour=(0, 0, 0), **more)
        for more in ({}, texts)
    ]
    cells = lines_of(drawn[0], "q", "k", "v", "masked")
    assert cells[:3] == [("q1", "k1", 1.0, False), ("q1", "k2", 2.0, True), ("q2", "k1", 3.0, False)]
    assert np.isnan(cells[3][2])
    assert [line[-1] for line in lines_of(drawn[1], "q", "k", "v", "masked", "t")] == list("abcd")
    assert alt_of(drawn[0]) == "name: v from 1 to 3; 2 × 2 (q × k); not a number, or infinite: 1. noted"


def test_what_is_not_finite_has_a_mark_of_its_own_that_is_counted():
    values = np.array([[1, np.nan, np.inf], [-np.inf, np.nan, 2]], np.float32)
    visible = np.array([[1, 1, 1], [1, 0, 2]], np.uint8)
    axes = Axis("q", ["q1", "q2"]), Axis("k", ["k1", "k2", "k3"])
    drawn = Heatmap("key", ABOVE, values, *axes, Scale(0, 2, "v"), visible=visible)
    assert drawn.arrays()[1].tolist() == [[1, ODD, ODD], [ODD, 0, 2]]
    assert drawn.header()["odd"] == 3
    assert alt_of(drawn).endswith("not a number, or infinite: 3. noted")
    differing = Heatmap("key", ABOVE, values, *axes, Scale(-2, 2, "v", difference=True), visible=visible)
    assert differing.arrays()[1].tolist() == [[1, 1, ODD], [ODD, 0, 2]]  # NaN: no counterpart
    assert "odd" not in Heatmap("key", ABOVE, np.ones((2, 3), np.float32), *axes, Scale(0, 2, "v")).header()


def test_a_map_of_no_number_at_all_says_so():
    nothing = np.full((2, 2), np.nan, np.float32)
    assert "from ? to ?" in alt_of(Heatmap("key", ABOVE, nothing, Q, K, Scale(0, 1, "v")))


def test_panels_give_each_cell_of_each():
    rows, columns = Axis("", ["q"]), Axis("", ["k", ""])
    shown = [
        Panel("mask", rows, columns, np.array([[True, False]]), changed=np.array([[True, True]])),
        Panel("weights", rows, columns, np.array([[True, True]]), np.array([[0.25, 0.75]]), scale=Scale(0, 1)),
    ]
    found = lines_of(Panels("key", ABOVE, shown), "panel", "query", "key", "value", "masked")
    assert [line[:3] + line[4:] for line in found] == [
        ("mask", "q", "k", False),
        ("mask", "q", "1", True),
        ("weights", "q", "k", False),
        ("weights", "q", "1", False),
    ]
    assert np.isnan([line[3] for line in found[:2]]).all()  # a mask has no values
    assert [line[3] for line in found[2:]] == [0.25, 0.75]


def test_a_wiring_gives_a_line_each():
    wired = Wiring("key", ABOVE, [{"name": "post", "formula": "LN(x)", "own": True}])
    assert lines_of(wired, "placement", "formula", "this model") == [("post", "LN(x)", True)]
