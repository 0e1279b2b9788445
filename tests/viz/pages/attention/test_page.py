"""The page of attention: its controls change what the browser is sent, and what is sent are the model's numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import viz.state.session
from model.analysis.attention_maps import Maps, rollout
from model.analysis.head_metrics import METRICS, after_the_same
from model.checkpoints.load import open_checkpoint
from tests.app_reading import component, heads, opened, type_in
from tests.test_app_kinds import write
from tests.viz.small import write_small

TEXT = "The cat sees."


@pytest.fixture
def small(here):
    return open_checkpoint(write_small(here / "small", n_decoder_layers=3))


@pytest.mark.parametrize("metric", ["distance", "special"])
def test_heads_are_sorted_by_their_number(small, metric):
    header, _, _ = heads(opened(source=TEXT, attention="decoder", metric=metric, order="highest"))
    trace = small.trace(TEXT)
    marked = np.array([label in ("<s>", "</s>") for label in trace.target_tokens])
    expected = METRICS[metric](trace.attention("decoder"), torch.from_numpy(marked)).numpy()
    order = [tuple(place) for place in header["order"]]
    assert sorted(order) == [(layer, head) for layer in range(3) for head in range(2)]
    values = [expected[place] for place in order]
    assert all(a >= b - 1e-9 for a, b in itertools.pairwise(values))
    shown = [float(note.split()[1].replace("−", "-")) for note in header["notes"]]
    assert shown == pytest.approx(values, abs=0.0051)


def test_induction_is_the_weight_after_an_earlier_same_token(small):
    text = "The cat sees the cat."
    header, _, _ = heads(opened(source=text, attention="encoder", metric="induction"))
    trace = small.trace(text)
    expected = METRICS["induction"](trace.attention("encoder"), after_the_same(trace.source_tokens)).flatten()
    shown = [float(note.removeprefix("I ").replace("−", "-")) for note in header["notes"]]
    assert shown == pytest.approx(expected.tolist(), abs=0.0051)
    app = opened(source=text, attention="cross", metric="induction")
    assert all(note.startswith("H ") for note in heads(app)[0]["notes"])  # of two texts there is none
    assert not any("induction" in option for option in app.selectbox(key="metric").options)


def test_a_filter_leaves_the_heads_between_its_bounds_of_the_chosen_layers(small):
    trace = small.trace(TEXT)
    values = METRICS["entropy"](trace.attention("cross"), None).numpy()
    middle = float(np.median(values))
    header, _, _ = heads(opened(source=TEXT, least=f"{middle:.6f}"))
    assert {tuple(place) for place in header["order"]} == set(zip(*np.nonzero(values >= middle), strict=True))
    header, _, _ = heads(opened(source=TEXT, most=f"{middle:.6f}"))
    assert {tuple(place) for place in header["order"]} == set(zip(*np.nonzero(values <= middle), strict=True))
    header, cells, _ = heads(opened(source=TEXT, layers="1,3", heads_shown="2"))
    assert header["order"] == [[0, 1], [2, 1]]
    expected = trace.attention("cross").numpy()[[0, 2], [1, 1]]
    assert np.allclose(cells.reshape(expected.shape), expected, atol=1e-4)


def test_no_head_left_is_a_sentence(small):
    app = opened(source=TEXT, least="99", combine="average")
    assert not app.exception
    assert heads(app)[0]["order"] == []
    assert any("No head is left" in info.value for info in app.info)


@pytest.mark.parametrize(("combination", "join"), [("average", np.mean), ("maximum", np.max)])
def test_the_figure_combines_the_heads_that_are_shown(small, combination, join):
    app = opened(source=TEXT, combine=combination, layers="2,3")
    header, (values, _) = component(app, "heatmap")
    weights = small.trace(TEXT).attention("cross").numpy()[1:].reshape(4, *values.shape)
    assert np.allclose(values, join(weights, axis=0), atol=1e-6)
    assert header["name"] == f"{combination.capitalize()} of 4 heads"
    if combination == "maximum":  # whose it is stands beside it
        query = header["chosen"]
        best = weights[:, query, values[query].argmax()].argmax()
        assert header["note"].endswith(f"head {best // 2 + 2}.{best % 2 + 1}")


def test_rollout_is_drawn_for_one_text_and_refused_for_two(small):
    header, (values, visible) = component(opened(source=TEXT, combine="rollout", attention="decoder"), "heatmap")
    assert np.allclose(values.sum(axis=1), 1, atol=1e-5)
    assert not visible[np.triu_indices(len(values), 1)].any()
    assert header["name"] == "Rollout of 6 heads"
    app = opened(source=TEXT, combine="rollout", attention="decoder", layers="1,3", heads_shown="2")
    header, (some, _visible) = component(app, "heatmap")
    maps = Maps(small.trace(TEXT), "decoder")
    assert np.allclose(some, rollout(maps, [(0, 1), (2, 1)]), atol=1e-6)
    assert not np.allclose(some, values, atol=1e-3)
    assert header["name"] == "Rollout of 2 heads"
    app = opened(source=TEXT, combine="rollout", attention="cross")
    assert any("joins two" in info.value for info in app.info)
    assert not [each for each in app.get("bidi_component") if "heatmap" in each.proto.component_name]


def test_value_weighted_attention_is_drawn_in_grid_and_figure(small):
    app = opened(source=TEXT, quantity="value", layer="1", head="0")
    trace = small.trace(TEXT)
    path = "decoder.layers.1.cross_attention"
    expected = (trace[f"{path}.weights"] * trace.values(path).norm(dim=-1)[:, None])[0].numpy()
    header, (values, _) = component(app, "heatmap")
    assert np.allclose(values, expected, atol=1e-5)
    assert header["scale"]["title"] == "‖w·v‖"
    _, cells, _ = heads(app)
    assert np.allclose(cells[1, 0], expected, atol=1e-3)
    assert header["scale"]["high"] == pytest.approx(cells.max(), rel=1e-3)


def test_weights_below_the_threshold_are_not_drawn(small):
    app = opened(source=TEXT, threshold="0.2", attention="decoder", layer="0", head="0")
    weights = small.trace(TEXT).attention("decoder").numpy()
    causal = np.tril(np.ones(weights.shape[2:], bool))
    _, cells, _ = heads(app)
    assert np.array_equal(np.isnan(cells), weights < 0.2)
    _, (values, states) = component(app, "heatmap")
    assert np.allclose(values, weights[0, 0])  # the table keeps them
    assert np.array_equal(states == 2, (weights[0, 0] < 0.2) & causal)
    assert np.array_equal(states == 0, ~causal)


@pytest.mark.parametrize("combine", ["head", "average"])
def test_a_logarithmic_scale_is_the_same_of_grid_and_figure_and_said_of_both(small, combine):
    app = opened(source=TEXT, scale="log", combine=combine, layer="0", head="0")
    figure, _ = component(app, "heatmap")
    grid, _, _ = heads(app)
    assert (figure["scale"]["floor"], figure["scale"]["high"]) == (grid["floor"], grid["tops"][0]) == (1e-4, 1)
    for sentence in (figure["sentence"], grid["words"]["caption"]):
        assert "colours by the logarithm, none below 0.0001" in sentence
    assert "floor" not in component(opened(source=TEXT, layer="0", head="0"), "heatmap")[0]["scale"]


def test_differences_on_a_logarithmic_scale_have_both_sides_of_0(small):
    app = opened(source=TEXT, scale="log", layer="0", head="0")
    session = app.session_state[viz.state.session.Key.SESSION]
    session.keep()
    type_in(app, "source", "The dog sees.")
    session.differing = True
    app.run()
    figure, _ = component(app, "heatmap")
    grid, _, _ = heads(app)
    assert (figure["scale"]["low"], figure["scale"]["high"], figure["scale"]["floor"]) == (-1, 1, 1e-4)
    assert (grid["difference"], grid["floor"]) == (True, 1e-4)
    for sentence in (figure["sentence"], grid["words"]["caption"]):
        assert "the logarithm of a difference's size, none below 0.0001" in sentence


def test_lines_are_sent_the_same_numbers_in_the_heads_colour(small):
    header, (values, _) = component(opened(source=TEXT, draw="lines", layer="0", head="1"), "lines")
    assert np.allclose(values, small.trace(TEXT).attention("cross")[0, 1], atol=1e-6)
    assert header["colour"] == [45, 210, 93]  # hsl(137.5 65% 50%)


def test_differences_from_the_pin_are_drawn_everywhere(small):
    app = opened(source=TEXT, layer="0", head="0")
    session = app.session_state[viz.state.session.Key.SESSION]
    session.keep()
    type_in(app, "source", "The dog sees.")
    header, (values, _) = component(app, "heatmap")
    assert "pinned: " in header["note"]
    assert header["scale"]["low"] == 0
    session.differing = True
    app.run()
    expected = session.comparison.difference("decoder.layers.0.cross_attention.weights").numpy()
    assert np.isnan(expected).any()
    header, (values, _) = component(app, "heatmap")
    assert np.allclose(values, expected[0], atol=1e-6, equal_nan=True)
    top = float(np.nanmax(np.abs(session.comparison.difference("decoder.layers.0.cross_attention.weights").numpy())))
    header_of_grid, cells, states = heads(app)
    assert header["scale"]["high"] == -header["scale"]["low"] == header_of_grid["tops"][0]
    assert header["scale"]["difference"]
    assert top <= header["scale"]["high"] < 1  # as large as the differences are, and not as weights can be
    header = header_of_grid
    assert np.allclose(cells[0, 0], expected[0], atol=1e-4, equal_nan=True)
    assert np.array_equal(states == 2, np.isnan(expected[0]))
    assert all(note[2] in "+−" for note in header["notes"])


def test_a_pin_of_another_shape_is_a_sentence(here):
    write_small(here / "small", n_heads=2)
    write_small(here / "wide", n_heads=4)
    app = opened(source=TEXT, model="small")
    session = app.session_state[viz.state.session.Key.SESSION]
    session.keep()
    session.differing = True
    app.selectbox(key="model").set_value("wide").run()
    assert not app.exception
    assert any("another number of heads" in info.value for info in app.info)


def test_bertviz_is_there_when_it_is_opened_and_a_note_when_the_text_is_long(here):
    model = write(here / "one", "decoder-only", max_length=128)
    app = opened(source="The cat")
    assert not app.get("iframe")
    app.session_state["bertviz_open"] = True
    app.run()
    (frame,) = app.get("iframe")
    assert frame.proto.src.startswith("data:text/html")
    assert not app.exception
    type_in(app, "source", "The cat sees " * 30)
    count = len(model.source_tokens("The cat sees " * 30))
    assert count > 64
    assert not app.get("iframe")
    assert any(f"{count}" in info.value for info in app.info)


def test_long_texts_have_a_short_table_and_a_smaller_figure(here, monkeypatch):
    model = write(here / "one", "decoder-only", max_length=300)
    text = "The cat sees " * 100
    app = opened(source=text, query="150", layer="0", head="0")
    assert not app.exception
    weights = model.trace(text).attention("decoder").numpy()
    header, arrays = component(app, "steps")
    keys = header["places"]["columns"]
    assert len(keys) == 64
    assert np.allclose(arrays[3], weights[0, 0, 150, keys], atol=1e-6)
    assert weights[0, 0, 150, keys].sum() >= np.sort(weights[0, 0, 150])[-64:].sum() - 1e-6
    assert 150 in header["places"]["rows"]
    header, (values, _) = component(app, "heatmap")
    assert header["block"] == [2, 2]
    assert values[75, 3] == pytest.approx(weights[0, 0, 150:152, 6:8].max(), abs=1e-6)


ODD = {
    "grouped": {"position": "alibi", "n_key_value_heads": 1, "norm": "rms", "residual": False},
    "turned": {"position": "rotary", "norm": "none", "activation": "swiglu", "n_encoder_layers": 1},
    "learned": {"position": "learned", "scale_attention": False, "qk_norm": True},
}


@pytest.mark.parametrize("options", ODD.values(), ids=list(ODD))
def test_every_kind_of_model_has_every_view(here, options):
    model = open_checkpoint(write_small(here / "small", **options))
    app = opened(
        source=TEXT, attention="decoder", combine="rollout", quantity="output", draw="lines", metric="previous"
    )
    _header, (values, _) = component(app, "lines")
    weights = model.trace(TEXT).attention("decoder").double().mean(dim=1).numpy()
    expected = np.eye(len(values))
    for each in weights:
        mixed = (each + np.eye(len(each))) / 2 if options.get("residual", True) else each
        expected = mixed @ expected
    assert np.allclose(values, expected, atol=1e-5)
    app.session_state["bertviz_open"] = True
    for view in ("model", "neuron"):
        app.session_state["bertviz"] = view
        app.run()
        assert not app.exception
        assert app.get("iframe")


@pytest.mark.parametrize(
    "address",
    [
        {"metric": "<script>", "order": "x", "combine": "y", "draw": "z", "quantity": "q", "bertviz": "b"},
        {"least": "nan", "most": "x", "threshold": "-1", "layers": "0,99,a", "heads_shown": ",,"},
    ],
)
def test_a_hostile_address_breaks_nothing(small, address):
    app = opened(source=TEXT, **address)
    assert not app.exception
    assert len(heads(app)[0]["order"]) == 6
