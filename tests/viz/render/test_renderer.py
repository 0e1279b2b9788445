"""Figures as a reader gets them: the table of what is drawn, as in the CSV of its menu, and the alternative text."""

from __future__ import annotations

import numpy as np
import pytest

from model.message import Message
from tests.viz.components.test_registry import unpack
from viz.components.registry import pack
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Chart, Series
from viz.figures.compared import Compared
from viz.figures.figure import Caption, Figure
from viz.figures.heatmap import Heatmap, Lines
from viz.figures.panels import Panel, Panels
from viz.pages.residual.components import Wiring
from viz.render.heatmap import ODD
from viz.render.reader import Reader
from viz.render.render import render

ABOVE = Caption("name", "file", "stamp", "noted")
Q, K = Axis("q", ["q1", "q2"]), Axis("k", ["k1", "k2"])
VALUES, VISIBLE = np.array([[1, 2], [3, np.nan]], np.float32), np.array([[True, False], [True, True]])


def lines_of(figure: Figure, *columns: str) -> list[tuple]:
    frame = render(figure, Reader()).table()
    assert tuple(frame.columns) == columns
    return [tuple(row) for row in frame.itertuples(index=False)]


def alt_of(figure: Figure) -> str:
    return unpack(render(figure, Reader()).data)[0]["alt"]


def test_a_chart_gives_each_point_by_its_token_its_label_or_its_number():
    series = [
        Series("a", np.array([0, 1]), np.array([0.5, -1]), "#000"),
        Series("b", np.array([1]), np.array([2]), "#000", labels=["dot"]),
    ]
    drawn = Chart(ABOVE, series, Axis("x", ["<b>", "我"]), Axis("y"), tall=9)
    assert lines_of(drawn, "series", "x", "y") == [("a", "<b>", 0.5), ("a", "我", -1.0), ("b", "dot", 2.0)]
    drawn = Chart(ABOVE, series[:1], Axis("x", log=True), Axis("y"), tall=9, of="s", place="p")
    assert lines_of(drawn, "s", "p", "y") == [("a", 0.0, 0.5), ("a", 1.0, -1.0)]
    assert alt_of(drawn) == "name: y over x: a −1 … 0.5. noted"


@pytest.mark.parametrize("drawing", ["map", "lines"])
def test_a_map_gives_each_cell_and_whether_it_is_masked(drawing):
    about = (ABOVE, VALUES, Q, K, Scale(0, 3, "v"))
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
    drawn = Heatmap(ABOVE, values, *axes, Scale(0, 2, "v"), visible=visible)
    assert render(drawn, Reader()).arrays()[1].tolist() == [[1, ODD, ODD], [ODD, 0, 2]]
    assert render(drawn, Reader()).header["odd"] == 3
    assert alt_of(drawn).endswith("not a number, or infinite: 3. noted")
    differing = Heatmap(ABOVE, values, *axes, Scale(-2, 2, "v", difference=True), visible=visible)
    assert render(differing, Reader()).arrays()[1].tolist() == [[1, 1, ODD], [ODD, 0, 2]]  # NaN: no counterpart
    finite = Heatmap(ABOVE, np.ones((2, 3), np.float32), *axes, Scale(0, 2, "v"))
    assert "odd" not in render(finite, Reader()).header


def test_the_count_is_there_too_where_a_number_beside_the_cells_is_not_finite():
    axes = Axis("q", ["q1"]), Axis("k", ["k1", "k2"])
    for values, count in (([[np.nan, np.inf]], 2), ([[1, 2]], None)):
        drawn = Heatmap(ABOVE, np.array(values, np.float32), *axes, Scale(0, np.nan, "v"))
        header, _arrays = unpack(pack(render(drawn, Reader()).header))
        assert header.get("odd") == count


def test_a_map_of_no_number_at_all_says_so():
    nothing = np.full((2, 2), np.nan, np.float32)
    assert "from ? to ?" in alt_of(Heatmap(ABOVE, nothing, Q, K, Scale(0, 1, "v")))


def test_panels_give_each_cell_of_each():
    rows, columns = Axis("", ["q"]), Axis("", ["k", ""])
    shown = [
        Panel("mask", rows, columns, np.array([[True, False]]), changed=np.array([[True, True]])),
        Panel("weights", rows, columns, np.array([[True, True]]), np.array([[0.25, 0.75]]), scale=Scale(0, 1)),
    ]
    found = lines_of(Panels(ABOVE, shown), "panel", "query", "key", "value", "masked")
    assert [line[:3] + line[4:] for line in found] == [
        ("mask", "q", "k", False),
        ("mask", "q", "1", True),
        ("weights", "q", "k", False),
        ("weights", "q", "1", False),
    ]
    assert np.isnan([line[3] for line in found[:2]]).all()  # a mask has no values
    assert [line[3] for line in found[2:]] == [0.25, 0.75]


def test_a_wiring_gives_a_line_each():
    wired = Wiring(ABOVE, [{"name": "post", "formula": "LN(x)", "own": True}])
    assert lines_of(wired, "placement", "formula", "this model") == [("post", "LN(x)", True)]


# Compared values.


@pytest.mark.parametrize("language", ["en", "zh"])
def test_compared_values_are_drawn_as_they_are_or_as_differences(language):
    values = Compared(VALUES, np.array([[0.5, np.nan], [1, 1]], np.float32))
    figure = Heatmap(ABOVE, values, Q, K, Scale(0, 3, Message("weight")))
    plain, differing = (render(figure, Reader(language, difference=each)) for each in (False, True))
    np.testing.assert_array_equal(plain.arrays()[0], VALUES)
    assert (plain.header["scale"]["title"], plain.header["scale"]["difference"]) == (
        {"en": "weight", "zh": "权重"}[language],
        False,
    )
    np.testing.assert_array_equal(differing.arrays()[0], [[0.5, np.nan], [2, np.inf]])
    assert (differing.header["scale"]["low"], differing.header["scale"]["high"]) == (-2, 2)
    assert differing.header["scale"]["title"] == {"en": "weight, minus pinned", "zh": "权重，减去固定的"}[language]
    assert differing.columns[2] == differing.header["scale"]["title"]


def test_without_a_counterpart_values_are_drawn_though_differences_are_wanted():
    figure = Heatmap(ABOVE, Compared(VALUES), Q, K, Scale(0, 3, "v"))
    differing = render(figure, Reader(difference=True))
    np.testing.assert_array_equal(differing.arrays()[0], VALUES)
    assert not differing.header["scale"]["difference"]


def test_a_pinned_series_is_dashed_beside_its_own_unless_it_has_no_number():
    xs, ys = np.arange(2), np.array([1.0, 2.0])
    series = [Series("a", xs, Compared(ys, ys + 1), "#000"), Series("b", xs, Compared(ys, ys * np.nan), "#111")]
    drawn = render(Chart(ABOVE, series, Axis("x", ["p", "q"]), Axis("y"), tall=9), Reader())
    assert [(each["name"], each["dash"]) for each in drawn.header["series"]] == [
        ("a", False),
        ("a, pinned", True),
        ("b", False),
    ]
    np.testing.assert_array_equal(drawn.arrays()[3], [2, 3])


def test_messages_are_said_in_the_readers_language_also_inside_of_others():
    name = Message("Layer {layer}, head {head}", layer=1, head=Message("head"))
    figure = Heatmap(Caption(name, "file", "stamp"), VALUES, Q, K, Scale(0, 3, "v"))
    assert render(figure, Reader()).header["name"] == "Layer 1, head head"
    assert render(figure, Reader("zh")).header["name"] == "第 1 层，第 头 头"
    assert figure.caption.name == "Layer 1, head head"  # the figure knows no language
