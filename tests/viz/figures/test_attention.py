"""The large heatmap: what is drawn is what came in, at every cell, under every label."""

import html
import math

import numpy as np
import pytest

from viz.figures.attention import LEGIBLE, attention_heatmap

WORDS = {"query": "query (from)", "key": "key (to)", "weight": "weight", "masked": "masked"}
HOSTILE = ["<s>", "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a&b", "", "\ud800", "%{z}"]


def figure(queries, keys, visible=None, top=1.0, chosen=0, weights=None):
    shape = (len(queries), len(keys))
    if visible is None:
        visible = np.ones(shape, dtype=bool)
    if weights is None:
        weights = np.random.default_rng(0).dirichlet(np.ones(shape[1]), shape[0])
        weights = (weights * visible).astype(np.float32)
    return attention_heatmap(weights, visible, queries, keys, top=top, chosen=chosen, words=WORDS), weights


def test_cells_are_the_weights_in_rows_of_queries():
    drawn, weights = figure(list("abc"), list("vwxyz"))
    (heatmap,) = drawn.data
    assert heatmap.type == "heatmap"
    assert np.array_equal(heatmap.z, weights)
    assert drawn.layout.yaxis.range == (len(drawn.data[0].z) - 0.5, -0.5)  # the first query on top, no room around
    assert (drawn.layout.xaxis.title.text, drawn.layout.yaxis.title.text) == ("key (to)", "query (from)")
    assert [list(row) for row in heatmap.customdata[2]] == [["c", key] for key in "vwxyz"]
    assert "%{z:.6f}" in heatmap.hovertemplate


@pytest.mark.parametrize("top", [1.0, 0.37])
def test_the_colours_are_fixed_whatever_the_theme(top):
    heatmap = figure(list("ab"), list("cd"), top=top)[0].data[0]
    assert (heatmap.zmin, heatmap.zmax) == (0, top)
    assert [stop for stop, _ in heatmap.colorscale] == [0, 1]
    colours = [colour for _, colour in heatmap.colorscale]
    assert [colour.rpartition(",")[2].strip(" )") for colour in colours] == ["0", "1"]  # opacity over the background
    assert colours[0].rpartition(",")[0] == colours[1].rpartition(",")[0]
    assert heatmap.showscale is not False
    assert heatmap.colorbar.title.text == "weight"


def test_axes_are_numeric_and_repeated_tokens_keep_their_places():
    queries, keys = ["<s>", "我", "我", "我"], ["▁the", "▁the", "</s>"]
    drawn, _ = figure(queries, keys)
    for axis, tokens in ((drawn.layout.xaxis, keys), (drawn.layout.yaxis, queries)):
        assert axis.tickmode == "array"
        assert list(axis.tickvals) == list(range(len(tokens)))
        assert list(axis.ticktext) == [html.escape(token) for token in tokens]
        assert axis.type is None  # numbers, so linear
    assert drawn.layout.yaxis.ticktext[0] == "&lt;s&gt;"
    assert drawn.data[0].x is None
    assert drawn.data[0].y is None


def test_masked_cells_have_no_value_and_one_hatched_shape_covers_them_exactly():
    visible = np.tril(np.ones((4, 4), dtype=bool))
    visible[3, 1] = False
    drawn, weights = figure(list("abcd"), list("abcd"), visible)
    heatmap, hatched = drawn.data
    assert np.array_equal(np.isnan(heatmap.z), ~visible)
    assert np.array_equal(heatmap.z[visible], weights[visible])
    assert heatmap.hoverongaps is False
    assert (hatched.fill, hatched.fillpattern.shape, hatched.name) == ("toself", "/", "masked")
    covered = np.zeros((4, 4), dtype=bool)
    corners = list(zip(hatched.x, hatched.y, strict=True))
    for start in range(0, len(corners), 6):
        box = corners[start : start + 5]
        assert corners[start + 5] == (None, None)
        assert box[0] == box[4]
        x, y = sorted({corner[0] for corner in box}), sorted({corner[1] for corner in box})
        rows, columns = slice(math.ceil(y[0]), math.ceil(y[1])), slice(math.ceil(x[0]), math.ceil(x[1]))
        assert not covered[rows, columns].any()
        covered[rows, columns] = True
    assert np.array_equal(covered, ~visible)


def test_nothing_masked_is_nothing_hatched_and_all_masked_is_all_hatched():
    assert len(figure(list("ab"), list("cd"))[0].data) == 1
    drawn, _ = figure(list("ab"), list("cd"), np.zeros((2, 2), dtype=bool))
    assert np.isnan(drawn.data[0].z).all()
    assert len(drawn.data[1].x) == 2 * 6


@pytest.mark.parametrize(
    ("count", "step"), [(1, 1), (LEGIBLE, 1), (LEGIBLE + 1, 2), (2 * LEGIBLE, 2), (2 * LEGIBLE + 1, 3), (128, 4)]
)
def test_long_axes_label_every_kth_token(count, step):
    keys = [f"t{index}" for index in range(count)]
    drawn, _ = figure(["a"], keys)
    axis = drawn.layout.xaxis
    assert list(axis.tickvals) == list(range(0, count, step))
    assert list(axis.ticktext) == keys[::step]
    assert len(axis.tickvals) <= LEGIBLE
    assert drawn.data[0].z.shape == (1, count)


def test_hostile_tokens_are_escaped_wherever_they_are_written():
    drawn, _ = figure(HOSTILE, HOSTILE)
    written = [*drawn.layout.xaxis.ticktext, *drawn.layout.yaxis.ticktext, *drawn.data[0].customdata.flatten()]
    assert written
    assert not [text for text in written if "<" in text or ">" in text]
    assert "&lt;s&gt;" in written
    assert html.escape(HOSTILE[1]) in drawn.data[0].customdata.flatten()
    assert all(len(html.unescape(text)) <= 16 for text in drawn.layout.xaxis.ticktext)


def test_words_with_markup_are_escaped_in_the_hover():
    words = {**WORDS, "weight": "<b>weight</b>"}
    drawn = attention_heatmap(
        np.ones((1, 1), np.float32), np.ones((1, 1), bool), ["a"], ["b"], top=1.0, chosen=0, words=words
    )
    assert "<b>" not in drawn.data[0].hovertemplate


def test_the_chosen_query_is_framed():
    drawn, _ = figure(list("abc"), list("vwxyz"), chosen=2)
    (frame,) = drawn.layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (-0.5, 4.5, 1.5, 2.5)


@pytest.mark.parametrize(("queries", "height"), [(1, 380), (14, 514), (128, 640)])
def test_the_height_grows_with_the_queries_within_bounds(queries, height):
    assert figure(["a"] * queries, ["b"])[0].layout.height == height
