"""Pieces of words shown as one: in every kind of plot, in the tokens, on the map, in one query's steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from model.analysis.attention_maps import Maps, Quantity
from model.analysis.blocks import blocks
from model.checkpoints.load import open_checkpoint
from model.checkpoints.load_hints import LoadHints
from model.checkpoints.native import save_checkpoint
from tests.model.examples import one_stack, sentences, tokenizers
from tests.viz.components.test_registry import unpack
from tests.viz.small import looking, small_model, write_small
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Chart, Series
from viz.figures.figure import Caption
from viz.figures.heatmap import Heatmap
from viz.figures.panels import Panel, Panels
from viz.frame.token_bar import token_bar
from viz.pages.attention import bertviz
from viz.pages.attention.head_grid import all_thumbnails
from viz.pages.attention.steps import steps_of
from viz.pages.attention.view import HeadMaps, HeadSettings, metrics
from viz.pages.checkpoints.course import CourseRequest, film_panels, frame_of
from viz.pages.map.pictures import Pictures
from viz.pages.masks.page import Part, on_cell
from viz.pages.predictions.decoding_film import film_figure
from viz.render.view import view
from viz.state.checkpoints import CHECKPOINTS
from viz.state.serving import serving
from viz.state.session import Key, Session
from viz.state.token_groups import PIECES, GroupedAxes, merged, of_tokens, run_labels, text_groups, turn
from viz.ui.prediction import Subject

TEXT, TARGET = "unfathomable cats seesaw.", "zebras."
ABOVE = Caption("name", "file", "stamp")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("pieces") / "small")


@pytest.fixture
def session(model):
    session = looking(model, TEXT, TARGET, layer=1, head=1, query=1)
    session.texts.typed |= {Key.SOURCE: TEXT, Key.TARGET: TARGET}
    with serving(session):
        turn(session)
        yield session


def test_a_turn_is_in_the_address_and_the_next_takes_it_back(session):
    assert (session.address.get(PIECES), merged(session)) == ("merged", text_groups(session))
    assert len(text_groups(session)["source"]) < len(session.trace.source_tokens)
    turn(session)
    assert (session.address.get(PIECES), merged(session)) == (None, {})
    assert text_groups(session)["source"].joined


def test_where_no_token_is_a_piece_there_is_nothing_to_merge(model):
    session = looking(model, "", "")
    with serving(session):
        turn(session)
        assert (text_groups(session), merged(session)) == ({}, {})
        header, _arrays = unpack(token_bar(session).data)
    assert not header["pieces"]["mergeable"]


def test_characters_are_no_pieces_of_a_word(session):
    letters = open_checkpoint(CHECKPOINTS / "reverse")
    assert of_tokens(letters, list("transformer"), [*"remrof", "</s>"]) == {}
    assert of_tokens(session.model, ["▁trans", "former"], []).keys() == {"source"}


def test_ids_side_by_side_are_no_word(session, monkeypatch):
    monkeypatch.setattr(session.model.source_tokenizer, "reason", "no tokenizer came with it")
    session.memory.clear()
    assert text_groups(session) == {}


def test_the_token_bar_shows_words_and_a_click_on_one_is_on_its_first_token(session):
    header, _arrays = unpack(token_bar(session).data)
    runs = merged(session)["source"]
    assert [each["label"] for each in header["source"]] == runs.labels
    assert header["pieces"] | {"words": 0} == {"mergeable": True, "merged": True, "words": 0}
    session.selection.side = "source"
    act = token_bar(session).acts["token"]
    assert act is not None
    act({"side": "source", "position": 1})
    assert session.selection.query == runs.firsts[1]


def test_a_run_is_new_since_the_pin_where_one_of_its_tokens_is(session):
    session.keep()
    session.trace_input(session.model, TEXT.replace("cats", "catsup"), TARGET)
    header, _arrays = unpack(token_bar(session).data)
    labels = merged(session)["source"].labels
    assert [labels[run] for run in header["pin"]["alignments"]["source"]["inserted"]] == ["▁catsup"]


# The plots: whatever has the tokens on an axis.


def plot_axis(session: Session) -> tuple[Axis, Any]:
    return Axis("token", session.trace.source_tokens, "source"), merged(session)["source"]


@pytest.mark.parametrize("summed", [False, True])
def test_a_heatmap_has_a_row_for_each_run(session, summed):
    axis, runs = plot_axis(session)
    count = len(axis.labels)
    values = np.random.default_rng(0).random((count, count)).astype(np.float32)
    clicks: list[Any] = []
    last = count - 1
    figure = Heatmap(ABOVE, values, axis, axis, Scale(0, 1, "v"), visible=values > 0.3, chosen=last, summed=summed)
    mounted = view("key", figure, cell=clicks.append, row=clicks.append)
    drawn = mounted.drawn
    groups = [list(runs.of(run)) for run in range(len(runs))]
    join = np.sum if summed else np.mean
    by_hand = [[join(values[rows][:, columns].mean(0)) for columns in groups] for rows in groups]
    np.testing.assert_allclose(drawn.values, by_hand, rtol=1e-5)
    assert (drawn.rows.labels, drawn.columns.labels, drawn.chosen) == (runs.labels, runs.labels, len(runs) - 1)
    seen = [[(values > 0.3)[rows][:, columns].any() for columns in groups] for rows in groups]
    np.testing.assert_array_equal(drawn.visible, seen)
    for name, clicked in (("cell", {"row": 1, "column": 2}), ("row", 1), ("cell", {"row": -1, "column": 0})):
        mounted.acts[name](clicked)  # type: ignore[misc]
    assert clicks == [{"row": runs.firsts[1], "column": runs.firsts[2]}, runs.firsts[1], {"row": -1, "column": 0}]


def test_words_in_cells_and_their_numbers_are_those_of_the_last_token(session):
    axis, runs = plot_axis(session)
    count = len(axis.labels)
    values = np.arange(2.0 * count, dtype=np.float32).reshape(count, 2)
    rows, columns = Axis("position", [f"{label} → x" for label in axis.labels], "source"), Axis("rank", ["1", "2"], "")
    texts = [str(at) for at in range(2 * count)]
    drawn = view("key", Heatmap(ABOVE, values, rows, columns, Scale(0, 1, "v"), texts=texts)).drawn
    last = [runs.of(run)[-1] for run in range(len(runs))]
    assert drawn.rows.labels == [f"{axis.labels[token]} → x" for token in last]
    assert drawn.texts == [str(2 * token + column) for token in last for column in (0, 1)]
    np.testing.assert_array_equal(drawn.values, values[last])


def test_a_chart_has_a_place_for_each_run_and_one_that_no_text_has_yet(session):
    axis, runs = plot_axis(session)
    count = len(axis.labels)
    ys = np.array([np.nan, *range(1, count + 1)])
    places, clicks = Axis("token", [*axis.labels, "next"], "source"), []
    series = [Series("a", np.arange(count + 1), ys, "#000"), Series("b", np.array([count]), np.array([7.0]), "#000")]
    mounted = view("key", Chart(ABOVE, series, places, Axis("y"), tall=9, chosen=count), place=clicks.append)
    drawn = mounted.drawn
    assert (drawn.x.labels, drawn.chosen) == ([*runs.labels, "next"], len(runs))
    known = [ys[list(runs.of(run))] for run in range(len(runs))]
    np.testing.assert_allclose(drawn.series[0].ys, [*(each[~np.isnan(each)].mean() for each in known), count])
    assert (drawn.series[1].xs.tolist(), drawn.series[1].ys.tolist()) == ([len(runs)], [7.0])
    mounted.acts["place"]({"index": 2})  # type: ignore[misc]
    assert clicks == [{"index": runs.firsts[2]}]


def test_panels_have_their_own_axes(session):
    axis, runs = plot_axis(session)
    count, clicks = len(axis.labels), []
    other = Axis("channel", ["a", "b"], "")
    panels = [
        Panel("one", axis, other, np.ones((count, 2), bool), np.ones((count, 2), np.float32), chosen=count - 1),
        Panel("two", other, other, np.ones((2, 2), bool)),
    ]
    mounted = view("key", Panels(ABOVE, panels), cell=clicks.append)
    drawn = mounted.drawn
    assert [panel.visible.shape for panel in drawn.panels] == [(len(runs), 2), (2, 2)]
    assert drawn.panels[0].chosen == len(runs) - 1
    for panel in (0, 1):
        mounted.acts["cell"]({"panel": panel, "row": 1, "column": 1})  # type: ignore[misc]
    assert [each["row"] for each in clicks] == [runs.firsts[1], 1]


def test_axes_of_other_things_and_plots_of_single_tokens_stay(session):
    axis, _runs = plot_axis(session)
    values = np.zeros((len(axis.labels), 1), np.float32)
    heads = Axis("head", ["1"], "heads")
    assert view("key", Heatmap(ABOVE, values, axis, heads, Scale(0, 1), ungrouped=True)).drawn.rows is axis
    reordered = Axis("token", axis.labels, "source", list(range(len(axis.labels))))
    assert view("key", Heatmap(ABOVE, values, reordered, heads, Scale(0, 1))).drawn.rows is reordered


# The views of attention.


def shown(session: Session, quantity: Quantity = Quantity.WEIGHT, **wish: Any) -> HeadMaps:
    wished = HeadSettings("encoder", quantity, **wish)
    return HeadMaps(session.trace, wished, session.comparison, session.differing, merged(session))


def test_each_row_of_every_head_still_sums_to_one(session):
    view = shown(session)
    drawn = view.drawn(1, slice(0, 2), view.maps.weights(1, slice(0, 2)))
    assert drawn.cells.shape == (2, *view.shape)
    assert view.shape == (len(merged(session)["source"]),) * 2
    torch.testing.assert_close(drawn.cells.sum(-1), torch.ones(drawn.cells.shape[:2]))


def test_a_number_below_a_merged_map_is_that_maps(session):
    """Not that of the tokens; beside a pinned trace, whose runs are others, that of the tokens."""
    view = shown(session)
    weights = view.maps.weights(1, slice(0, 2))
    entropies = [-(each * each.log()).nan_to_num().sum(-1).mean(-1) for each in (view.runs.of(weights), weights)]
    assert float((entropies[0] - entropies[1]).abs().min()) > 1e-3
    np.testing.assert_allclose(all_thumbnails(view).values[1, :2], entropies[0], rtol=1e-5)
    np.testing.assert_allclose(
        metrics(view.maps, "entropy", runs=view.measured_runs)["entropy"][1, :2], entropies[0], rtol=1e-5
    )
    session.keep()
    np.testing.assert_allclose(all_thumbnails(shown(session)).values[1, :2], entropies[1], rtol=1e-5)


def test_differences_of_merged_maps_are_those_of_the_words(session):
    session.keep()
    session.trace_input(session.model, TEXT.replace("cats", "dogs"), TARGET)
    session.differing = True
    view = shown(session)
    drawn = view.drawn(0, slice(0, 1), view.maps.weights(0, slice(0, 1)))
    labels = merged(session)["source"].labels
    new = [label == "▁dogs" for label in labels]
    assert any(new)
    assert drawn.cells[0].isnan().tolist() == [[row or column for column in new] for row in new]
    assert drawn.pinned is not None
    torch.testing.assert_close(drawn.cells, drawn.own - drawn.pinned, equal_nan=True)


def test_the_steps_of_a_word_add_up_to_its_output(session):
    view = shown(session)
    chosen = session.fit_selection(2, 2, 1)
    word = merged(session)["source"].of(merged(session)["source"].run_of[chosen.query])
    assert len(word) > 1
    steps = steps_of(view, chosen)
    path = view.maps.paths[chosen.layer]
    torch.testing.assert_close(steps.weighted.sum(0), steps.output)
    torch.testing.assert_close(steps.output, session.trace[f"{path}.heads"][chosen.head, list(word)].mean(0))
    assert float(steps.to_weights["weights"].sum()) == pytest.approx(1, abs=1e-6)
    assert len(steps.to_weights["scores"]) == len(merged(session)["source"])


def test_bertviz_draws_words_and_its_queries_and_keys_tokens(session):
    maps, runs = Maps(session.trace, "cross"), merged(session)
    queries = len(session.trace.target_tokens)  # none of these is a piece
    found = bertviz.parameters(maps, "head", 0, 0, False, runs)["attention"][0]
    assert (len(found["left_text"]), len(found["right_text"])) == (queries, len(runs["source"]))
    assert np.array(found["attn"]).shape == (2, 2, queries, len(runs["source"]))
    assert len(bertviz.parameters(maps, "neuron", 0, 0, False, runs)["attention"]["all"]["right_text"]) == maps.keys


def test_the_map_draws_words(session):
    pictures = Pictures(session.trace, None, False, merged(session))
    block = next(block for block in blocks(session.trace) if block.kind == "cross-attention")
    queries = len(session.trace.target_tokens)  # none of these is a piece
    assert pictures.of(block).shape[1:] == (queries, len(merged(session)["source"]))


def test_a_head_changed_most_at_a_word(session):
    tokens, runs = session.trace.source_tokens, merged(session)["source"]
    assert run_labels(session, "source", tokens) == [runs.labels[run] for run in runs.run_of] != tokens
    turn(session)
    assert run_labels(session, "source", tokens) == tokens


def test_the_decoding_film_has_words_behind_the_token_that_is_new(model):
    session = looking(model, TEXT, TARGET, layer=1, head=1, query=1)
    with serving(session):
        turn(session)
        subject = Subject(session.inputs)
        header, (weights, *_rest) = unpack(view("film", film_figure(subject)).data)
    assert header["source"]["labels"] == merged_labels(session, "source")
    assert [frame["before"] for frame in header["frames"]] == [*range(1, len(subject.tokens) + 1)]  # none is a piece
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_a_word_that_is_half_written_is_named_by_what_stands_there(tmp_path):
    made = tokenizers(sentences(50))[0]
    save_checkpoint(tmp_path / "one", one_stack("decoder-only", vocabulary=len(made)), (made, made))
    session = looking(open_checkpoint(tmp_path / "one"), TEXT)
    with serving(session):
        turn(session)
        subject = Subject(session.inputs)
        header, (weights, *_rest) = unpack(view("film", film_figure(subject)).data)
    words, cut = header["source"]["labels"], 0
    for position, frame in enumerate(header["frames"]):
        standing = [*words[: frame["sees"] - 1], frame["last"]]
        assert "".join(standing) == "".join(subject.tokens[: position + 1])
        assert weights[0, position, : frame["sees"]].sum() == pytest.approx(1, abs=1e-5)
        cut += frame["last"] != words[frame["sees"] - 1]
    assert cut


def merged_labels(session: Session, side: str) -> list[str]:
    return text_groups(session)[side].labels


def test_the_film_of_checkpoints_draws_words(session, tmp_path):
    frame = frame_of(write_small(tmp_path / "small"), LoadHints().text(), CourseRequest(TEXT, TARGET, "encoder", 0))
    panels = [film_panels([("a", "step 1", frame)], 1, merge, "").panels[0] for merge in (False, True)]
    assert panels[1].rows.labels == merged_labels(session, "source") != panels[0].rows.labels
    expected = GroupedAxes(session.trace, ("source", "source"), merged(session)).of(torch.tensor(panels[0].values))
    np.testing.assert_allclose(panels[1].values, expected, atol=1e-6)


def test_a_click_on_the_mask_hides_all_cells_of_a_word(session):
    session.selection.layer = 0
    session.address.widget_values[Part.KIND] = "encoder"
    runs = merged(session)["source"]
    word = next(run for run in range(len(runs)) if len(runs.of(run)) > 1)
    on_cell({"panel": 0, "row": runs.firsts[-1], "column": runs.firsts[word]})
    trace = session.trace_input(session.model, TEXT, TARGET)
    hidden = ~trace.visible("encoder.layers.0.self_attention")[0]
    assert hidden.nonzero().tolist() == [[runs.firsts[-1], token] for token in runs.of(word)]
