"""The table of what a plot was sent: a line for each number that is drawn, as in the CSV of its menu."""

from __future__ import annotations

import numpy as np

from viz.components.plot_tables import plot_tables
from viz.components.plots import Mount, Panel, Series, chart, heatmap, lines, panels
from viz.pages.predictions.components import ranking
from viz.pages.residual.components import wiring


def lines_of(mount: Mount, *columns: str) -> list[tuple]:
    (table,) = plot_tables([mount]).values()
    assert table.file == "file"
    frame = table.make()
    assert tuple(frame.columns) == columns
    return [tuple(row) for row in frame.itertuples(index=False)]


def header(*csv: str, **more) -> dict:
    return {"name": "name", "file": "file", "words": {"csv": list(csv)}, **more}


def test_a_chart_gives_each_point_by_its_token_its_label_or_its_number():
    series = [
        Series("a", np.array([0, 1]), np.array([0.5, -1]), "#000"),
        Series("b", np.array([1]), np.array([2]), "#000", labels=["dot"]),
    ]
    drawn = chart(series, header("s", "x", "y", x={"labels": ["<b>", "我"]}), "key")
    assert lines_of(drawn, "s", "x", "y") == [("a", "<b>", 0.5), ("a", "我", -1.0), ("b", "dot", 2.0)]
    drawn = chart(series[:1], header("s", "x", "y", x={"log": True}), "key")
    assert lines_of(drawn, "s", "x", "y") == [("a", 0.0, 0.5), ("a", 1.0, -1.0)]


def test_a_map_gives_each_cell_and_whether_it_is_masked():
    sides = {"rows": {"labels": ["q", "r"]}, "columns": {"labels": ["k", "l"]}}
    values, visible = np.array([[1, 2], [3, 4]], np.float32), np.array([[True, False], [True, True]])
    cells = [("q", "k", 1.0, False), ("q", "l", 2.0, True), ("r", "k", 3.0, False), ("r", "l", 4.0, False)]
    assert lines_of(heatmap(values, visible, header(*"qkvm", **sides), "key"), *"qkvm") == cells
    assert lines_of(lines(values, visible, header(*"qkvm", **sides), "key", print), *"qkvm") == cells
    worded = heatmap(values, visible, header(*"qkvmt", **sides, texts=list("abcd")), "key")
    assert [line[-1] for line in lines_of(worded, *"qkvmt")] == list("abcd")


def test_panels_give_each_cell_of_each():
    sides = {"rows": {"labels": ["q"]}, "columns": {"labels": ["k", ""]}}
    shown = [
        Panel(np.array([[True, False]]), {"name": "mask", **sides}, changed=np.array([[True, True]])),
        Panel(np.array([[True, True]]), {"name": "weights", "scale": {}, **sides}, np.array([[0.25, 0.75]])),
    ]
    found = lines_of(panels(shown, header(*"pqkvm"), "key"), *"pqkvm")
    assert [line[:3] + line[4:] for line in found] == [
        ("mask", "q", "k", False),
        ("mask", "q", "1", True),
        ("weights", "q", "k", False),
        ("weights", "q", "1", False),
    ]
    assert np.isnan([line[3] for line in found[:2]]).all()  # a mask has no values
    assert [line[3] for line in found[2:]] == [0.25, 0.75]


def test_a_ranking_and_a_wiring_give_a_line_each():
    rows = [{"rank": 1, "label": "我"}, {"rank": 2, "label": "是"}]
    columns = [{"name": "p"}]
    drawn = ranking(np.array([[0.5], [0.25]]), header("r", "t", rows=rows, columns=columns), "k", print)
    assert lines_of(drawn, "r", "t", "p") == [(1, "我", 0.5), (2, "是", 0.25)]
    wired = wiring(header("n", "f", "o", rows=[{"name": "post", "formula": "LN(x)", "own": True}]), "key")
    assert lines_of(wired, "n", "f", "o") == [("post", "LN(x)", True)]
