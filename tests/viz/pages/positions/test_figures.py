"""Figures hold the numbers they were given, and show texts as texts."""

import numpy as np
import pytest

from viz.pages.positions.figures import Curve, colour, curve_figure, table_figure

XS, YS = np.arange(3.0), np.array([1.0, 10.0, 1000.0])


def test_dots_a_mark_a_range_and_a_logarithmic_axis():
    curves = [Curve("a", XS, YS, 0, dots=True, width=6.0), Curve("b", XS, -YS, 1)]
    figure = curve_figure(curves, "x", "y", log_y=True, mark=1.0, until=2.0)
    assert [each.mode for each in figure.data] == ["markers", "lines"]
    assert figure.data[0].line.color == colour(0) != figure.data[1].line.color
    assert figure.data[0].marker.size == pytest.approx(9.0)
    assert figure.layout.yaxis.type == "log"
    assert tuple(figure.layout.xaxis.range) == (0, 2)
    assert figure.layout.shapes[0].x0 == 1.0


def test_a_table_has_its_rows_downwards_and_zero_without_colour():
    values = np.array([[0.5, -1.0], [0.0, 0.25], [1.0, 1.0]])
    figure = table_figure(values, "column", "row", top=2.0)
    (drawn,) = figure.data
    assert np.array_equal(drawn.z, values)
    assert (drawn.zmin, drawn.zmax) == (-2.0, 2.0)
    assert drawn.colorscale[1][1].endswith(",0)")
    assert figure.layout.yaxis.autorange == "reversed"


def test_names_are_no_code():
    figure = curve_figure([Curve("<b>a</b>", XS, YS, 0)], "<i>", "&")
    assert figure.data[0].name == "&lt;b&gt;a&lt;/b&gt;"
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("&lt;i&gt;", "&amp;")
