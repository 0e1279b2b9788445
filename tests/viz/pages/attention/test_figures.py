"""The grid of heads, the large figure and one query's steps: the model's numbers, as the controls want them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from model.analysis.attention_maps import Maps, Quantity, rollout
from model.analysis.head_metrics import METRICS, after_the_same
from tests.app_reading import number, unpacked_heads
from tests.test_app_kinds import write
from tests.viz.components.test_registry import unpack
from tests.viz.small import looking, small_model
from viz.figures.heatmap import Lines
from viz.i18n.format import significant
from viz.pages.attention.bertviz import document
from viz.pages.attention.bertviz_scripts import VIEWS
from viz.pages.attention.figure import head_figure, large, weights_table
from viz.pages.attention.head_grid import all_thumbnails, heads_grid
from viz.pages.attention.steps import query_steps
from viz.pages.attention.text import refusal
from viz.pages.attention.view import HeadMaps, HeadSettings
from viz.render.reader import Reader
from viz.render.render import render
from viz.state.session import Selection
from viz.ui.plots import word

TEXT, OTHER = "The cat sees.", "The dog sees."
FIRST = Selection(0, 0, 1)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("figures") / "small", n_decoder_layers=3)


def maps_of(model, text=TEXT, kind="cross", pinned=None, differing=True, **wish) -> HeadMaps:
    session = looking(model, text, pinned=pinned)
    return HeadMaps(session.trace, HeadSettings(kind, **wish), session.comparison, differing)


def figures(shown: HeadMaps, chosen: Selection = FIRST):
    """The grid of heads and the large figure."""
    made = all_thumbnails(shown)
    heads = shown.shown_heads(made.values)
    grid = heads_grid(shown, made, heads, (chosen.layer, chosen.head))
    return grid, head_figure(shown, large(shown, chosen, heads), made, chosen, heads)


def sent(grid) -> np.ndarray:
    """The thumbnails as the browser gets them."""
    header, arrays = unpack(render(grid, Reader()).data)
    return unpacked_heads(header, arrays[0])


@pytest.mark.parametrize("metric", ["distance", "special"])
def test_heads_are_sorted_by_their_number(small, metric):
    grid, _figure = figures(maps_of(small, kind="decoder", metric=metric, order="highest"))
    trace = small.trace(TEXT)
    marked = np.array([label in ("<s>", "</s>") for label in trace.target_tokens])
    expected = METRICS[metric](trace.attention("decoder"), torch.from_numpy(marked)).numpy()
    assert sorted(grid.order) == [(layer, head) for layer in range(3) for head in range(2)]
    values = [expected[place] for place in grid.order]
    assert all(a >= b - 1e-9 for a, b in itertools.pairwise(values))
    shown = [float(note.split()[1].replace("−", "-")) for note in grid.notes]
    assert shown == pytest.approx(values, abs=0.0051)


@pytest.mark.parametrize(("metric", "order"), [("previous", "highest"), ("entropy", "lowest"), ("special", "highest")])
def test_the_best_head_of_each_kind_is_that_of_its_weights_the_best_kind_first(small, metric, order):
    grid, _figure = figures(maps_of(small, kind="encoder", metric=metric, order=order))
    trace, sign = small.trace(TEXT), 1 if order == "lowest" else -1
    expected = []
    for kind in ("encoder", "decoder", *(() if metric == "previous" else ("cross",))):
        labels = trace.target_tokens if kind == "decoder" else trace.source_tokens
        values = METRICS[metric](trace.attention(kind), torch.tensor([label in ("<s>", "</s>") for label in labels]))
        layer, head = divmod(int((sign * values).argmin()), values.shape[1])
        expected.append((sign * float(values[layer, head]), (kind, layer, head)))
    assert [place for place, _words in grid.best] == [place for _value, place in sorted(expected)]
    shown = [float(str(words).split()[-1]) for _place, words in grid.best]
    assert shown == pytest.approx([abs(value) for value, _place in sorted(expected)], abs=0.0051)


def test_there_is_no_best_head_in_the_order_of_layers_or_of_one_kind(small, tmp_path):
    alone = write(tmp_path / "alone", "decoder-only")
    for shown in (
        maps_of(small, kind="encoder"),
        maps_of(alone, kind="decoder", order="highest"),
    ):
        assert not figures(shown)[0].best


def test_induction_is_the_weight_after_an_earlier_same_token(small):
    text = "The cat sees the cat."
    grid, _figure = figures(maps_of(small, text, "encoder", metric="induction"))
    trace = small.trace(text)
    expected = METRICS["induction"](trace.attention("encoder"), after_the_same(trace.source_tokens)).flatten()
    shown = [number(note.removeprefix("I ")) for note in grid.notes]
    assert shown == pytest.approx(expected.tolist(), abs=0.0051)


def test_a_filter_leaves_the_heads_between_its_bounds_of_the_chosen_layers(small):
    weights = small.trace(TEXT).attention("cross")
    values = METRICS["entropy"](weights, None).numpy()
    middle = float(np.median(values))
    for bound, left in (("least", values >= middle), ("most", values <= middle)):
        grid, _figure = figures(maps_of(small, **{bound: middle}))
        assert set(grid.order) == set(zip(*np.nonzero(left), strict=True))
    grid, _figure = figures(maps_of(small, layers=[0, 2], heads=[1]))
    assert grid.order == [(0, 1), (2, 1)]
    assert np.array_equal(grid.cells, weights.numpy()[[0, 2], [1, 1]])


@pytest.mark.parametrize(("combination", "join"), [("average", np.mean), ("maximum", np.max)])
def test_the_figure_combines_the_heads_that_are_shown(small, combination, join):
    _grid, figure = figures(maps_of(small, combination=combination, layers=[1, 2]))
    weights = small.trace(TEXT).attention("cross").numpy()[1:].reshape(4, *figure.values.shape)
    assert np.allclose(figure.values, join(weights, axis=0), atol=1e-6)
    assert str(figure.caption.name) == f"{combination.capitalize()} of 4 heads"
    if combination == "maximum":  # whose it is stands beside it
        best = weights[:, figure.chosen, figure.values[figure.chosen].argmax()].argmax()
        assert str(figure.caption.note).endswith(f"head {best // 2 + 2}.{best % 2 + 1}")


@pytest.mark.parametrize(("combination", "quantity"), [("head", "weight"), ("average", "weight"), ("head", "value")])
def test_the_title_says_what_the_chosen_query_looks_at_most(small, combination, quantity):
    maps = maps_of(small, combination=combination, quantity=Quantity(quantity))
    drawn, heads = large(maps, FIRST, [(0, 0), (0, 1)]), [(0, 0), (0, 1)]
    figure = head_figure(maps, drawn, all_thumbnails(maps), FIRST, heads)
    row, number = drawn.own[1], significant(float(drawn.own[1].max()))
    query, key = word(maps.row_labels[1]), word(maps.column_labels[int(row.argmax())])
    said = f"{query} looks at {key}: {number}" if quantity == "weight" else f"{key} gives most to {query}: {number}"
    assert str(figure.caption.finding) == said
    header = render(figure, Reader()).header
    assert header["finding"] == str(figure.caption.finding)
    assert header["finding"] in header["alt"]


def test_rollout_is_of_one_text_and_refused_for_two(small):
    _grid, figure = figures(maps_of(small, kind="decoder", combination="rollout"))
    assert np.allclose(figure.values.sum(axis=1), 1, atol=1e-5)
    assert not figure.visible[np.triu_indices(len(figure.values), 1)].any()
    assert str(figure.caption.name) == "Rollout of 6 heads"
    _grid, some = figures(maps_of(small, kind="decoder", combination="rollout", layers=[0, 2], heads=[1]))
    assert np.allclose(some.values, rollout(Maps(small.trace(TEXT), "decoder"), [(0, 1), (2, 1)]), atol=1e-6)
    assert not np.allclose(some.values, figure.values, atol=1e-3)
    assert "joins two" in str(refusal(maps_of(small, combination="rollout"), [(0, 1)]))


def test_value_weighted_attention_is_drawn_in_grid_and_figure(small):
    grid, figure = figures(maps_of(small, quantity=Quantity.VALUE), Selection(1, 0, 1))
    trace, path = small.trace(TEXT), "decoder.layers.1.cross_attention"
    expected = (trace[f"{path}.weights"] * trace.values(path).norm(dim=-1)[:, None])[0].numpy()
    assert np.allclose(figure.values, expected, atol=1e-5)
    assert str(figure.scale.title) == "‖w·v‖"
    assert np.allclose(grid.cells[2], expected, atol=1e-5)
    assert figure.scale.high == pytest.approx(grid.cells.max(), rel=1e-5)


def test_a_table_of_rollout_names_weights_whatever_the_heads_show(small):
    rolled = maps_of(small, kind="decoder", quantity=Quantity.VALUE, combination="rollout")
    assert "weight" in weights_table(rolled, large(rolled, FIRST, []))


def test_weights_below_the_threshold_are_not_drawn(small):
    shown = maps_of(small, kind="decoder", threshold=0.2)
    grid, figure = figures(shown)
    weights = small.trace(TEXT).attention("decoder").numpy()
    causal = np.tril(np.ones(weights.shape[2:], bool))
    assert np.array_equal(np.isnan(sent(grid)), weights.reshape(grid.cells.shape) < 0.2)
    assert np.allclose(weights_table(shown, large(shown, FIRST, []))["weight"], weights[0, 0].flatten())  # has them all
    assert np.array_equal(figure.visible == 2, (weights[0, 0] < 0.2) & causal)
    assert np.array_equal(figure.visible == 0, ~causal)


@pytest.mark.parametrize("combination", ["head", "average"])
def test_a_logarithmic_scale_is_the_same_of_grid_and_figure_and_said_of_both(small, combination):
    grid, figure = figures(maps_of(small, scale="log", combination=combination))
    assert (figure.scale.floor, figure.scale.high) == (grid.floor, grid.tops[0]) == (1e-4, 1)
    for each in (grid, figure):
        assert "colours by the logarithm, none below 0.0001" in str(each.caption.sentence)
    assert figures(maps_of(small))[1].scale.floor is None


def test_differences_on_a_logarithmic_scale_have_both_sides_of_0(small):
    grid, figure = figures(maps_of(small, OTHER, pinned=(small, TEXT, ""), scale="log"))
    assert (figure.scale.low, figure.scale.high, figure.scale.floor) == (-1, 1, 1e-4)
    assert (grid.difference, grid.floor) == (True, 1e-4)
    for each in (grid, figure):
        assert "the logarithm of a difference's size, none below 0.0001" in str(each.caption.sentence)


def test_lines_have_the_same_numbers_in_the_heads_colour(small):
    _grid, figure = figures(maps_of(small, drawing="lines"), Selection(0, 1, 1))
    assert isinstance(figure, Lines)
    assert np.allclose(figure.values, small.trace(TEXT).attention("cross")[0, 1], atol=1e-6)
    assert figure.colour == (45, 210, 93)  # hsl(137.5 65% 50%)


def test_differences_from_the_pin_are_drawn_everywhere(small):
    pinned = (small, TEXT, "")
    _grid, figure = figures(maps_of(small, OTHER, pinned=pinned, differing=False))
    assert "pinned: " in str(figure.caption.note)
    assert figure.scale.low == 0
    shown = maps_of(small, OTHER, pinned=pinned)
    grid, figure = figures(shown)
    expected = shown.comparison.difference("decoder.layers.0.cross_attention.weights").numpy()
    assert np.isnan(expected).any()
    assert np.allclose(figure.values, expected[0], atol=1e-6, equal_nan=True)
    top = float(np.nanmax(np.abs(expected)))
    assert figure.scale.difference
    assert top <= figure.scale.high < 1  # as large as the differences are, and not as weights can be
    assert figure.scale.high == -figure.scale.low == grid.tops[0]
    assert np.allclose(sent(grid)[0], expected[0], atol=1e-4, equal_nan=True)
    assert np.array_equal(grid.states == 2, np.isnan(expected[0]))
    assert all(note[2] in "+−" for note in grid.notes)


def test_long_texts_have_a_short_table_and_a_smaller_figure(tmp_path):
    model, text = write(tmp_path / "one", "decoder-only", max_length=300), "The cat sees " * 100
    shown, chosen = maps_of(model, text, "decoder"), Selection(0, 0, 150)
    weights = model.trace(text).attention("decoder").numpy()
    steps = query_steps(shown, chosen)
    keys = steps.keys.places
    assert len(keys) == 64
    assert np.allclose(steps.steps[3], weights[0, 0, 150, keys], atol=1e-6)
    assert weights[0, 0, 150, keys].sum() >= np.sort(weights[0, 0, 150])[-64:].sum() - 1e-6
    assert 150 in steps.queries.places
    _grid, figure = figures(shown, chosen)
    assert figure.block == (2, 2)
    assert figure.values[75, 3] == pytest.approx(weights[0, 0, 150:152, 6:8].max(), abs=1e-6)


ODD = {
    "grouped": {"position": "alibi", "n_key_value_heads": 1, "norm": "rms", "residual": False},
    "turned": {"position": "rotary", "norm": "none", "activation": "swiglu", "n_encoder_layers": 1},
    "learned": {"position": "learned", "scale_attention": False, "qk_norm": True},
}


@pytest.mark.parametrize("options", ODD.values(), ids=list(ODD))
def test_every_kind_of_model_has_every_view(tmp_path, options):
    model = small_model(tmp_path / "odd", **options)
    drawn = {"combination": "rollout", "quantity": Quantity.OUTPUT, "drawing": "lines", "metric": "previous"}
    shown = maps_of(model, kind="decoder", **drawn)
    _grid, figure = figures(shown)
    expected = np.eye(len(figure.values))
    for each in model.trace(TEXT).attention("decoder").double().mean(dim=1).numpy():
        expected = ((each + np.eye(len(each))) / 2 if options.get("residual", True) else each) @ expected
    assert np.allclose(figure.values, expected, atol=1e-5)
    for view in VIEWS:
        assert document(shown.maps, view, 0, 0, dark=False)
