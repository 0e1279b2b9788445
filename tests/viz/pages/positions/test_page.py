"""Tokens and positions: figures of a text, and the laboratory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from model.checkpoints.load import open_checkpoint
from model.inference.copies import vary
from model.text.tokenizer import MASK
from model.text.tokenizer_training import train_characters
from tests.app_reading import component, opened
from tests.viz.pages.positions.positions_page import TEXT, one, page, said, sound
from tests.viz.small import looking, write_small
from viz.i18n.format import percent
from viz.pages.positions.applied import changes_map, compare, losses_chart
from viz.pages.positions.order import cosine_map, differences_chart, order_of, reversals, verdicts
from viz.pages.positions.tokens import Chosen, nearest_chart, norms_chart, norms_table, plane_chart, table_map
from viz.render.reader import Reader
from viz.render.render import render

HOSTILE = ["", "</script><script>alert(1)</script>🙂مرحبا\x00" + 99 * "x"]
EXPERIMENTS = ["curves", "wavelengths", "shift", "any_length", "misread", "learned", "relative"]


def lines(chart) -> dict:
    """Values of a chart's series by their names."""
    return {series.name: series.ys for series in chart.series}


def test_tokens_are_shown_with_their_ids_vectors_and_norms(small):
    chosen = Chosen(looking(small, TEXT, query=3).inputs)
    trace, tokens, figure = small.trace(TEXT), small.source_tokens(TEXT), table_map(chosen)
    assert figure.rows.labels == [f"{n} {label}" for n, label in zip(tokens.ids, tokens.labels, strict=True)]
    assert np.allclose(figure.values.now, trace["encoder.embedding.tokens"])
    assert figure.chosen == 3
    norms = lines(norms_chart(chosen))
    weight = small.network.encoder.embedding.tokens.weight
    plain = weight[tokens.ids].norm(dim=-1).numpy()
    assert np.allclose(norms["token embedding E"], plain)
    assert np.allclose(norms["E · √d_model"], 4 * plain, rtol=1e-5)
    assert np.allclose(norms["E / √d_model"], plain / 4, rtol=1e-5)
    assert np.allclose(norms["position"], 8**0.5, rtol=1e-5)  # 8 pairs of a sine and a cosine
    assert np.allclose(norms["their sum"], trace["encoder.embedding.output"].norm(dim=-1), rtol=1e-5)
    near = nearest_chart(chosen)
    expected = torch.nn.functional.cosine_similarity(weight, weight[tokens.ids[3]], dim=-1)
    assert np.allclose(lines(near)["cosine"], expected.sort(descending=True).values[1:13], atol=1e-6)
    assert near.x.labels[0] == small.source_tokenizer.label(int(expected.argsort(descending=True)[1]))


def test_the_plane_is_that_of_the_chosen_quantity(small):
    inputs = looking(small, TEXT).inputs
    for quantity in ("positions", "output"):
        figure = plane_chart(Chosen(inputs, quantity=quantity))
        (text,) = figure.series
        x = small.trace(TEXT)[f"encoder.embedding.{quantity}"].double().numpy()
        _left, values, right = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
        assert np.allclose(np.abs(text.xs), np.abs((x - x.mean(axis=0)) @ right[0]), atol=1e-4)
        assert f"{percent(values[0] ** 2 / (values**2).sum())} and" in figure.caption.sentence
        assert (text.side, text.labels) == ("source", small.source_tokens(TEXT).labels)
    names = lines(plane_chart(Chosen(inputs, quantity="tokens", neighbours=True)))
    assert list(names) == ["text", "nearest to the chosen token"]


def test_wide_embeddings_are_grouped_or_cut_and_it_is_said(here):
    write_small(here / "wide", d_model=520)
    inputs = looking(open_checkpoint(here / "wide"), TEXT).inputs
    for binned, count, note in ((True, 174, "means of 3 channels"), (False, 256, "channels 0 to 255 of 520")):
        figure = table_map(Chosen(inputs, binned=binned))
        assert figure.values.now.shape[1] == count
        assert figure.caption.note == note


def test_a_pin_is_shown_as_difference_and_beside(small):
    inputs = looking(small, "The cat sees the bird.", pinned=(small, TEXT, "")).inputs
    chosen = Chosen(inputs)
    expected = inputs.comparison.difference("encoder.embedding.tokens").numpy()
    assert np.array_equal(table_map(chosen).values.difference, expected, equal_nan=True)
    assert np.isnan(expected).any()
    assert list(lines(norms_chart(chosen)))[-1] == "their sum · pinned"
    assert list(lines(plane_chart(chosen)))[-1] == "pinned"
    assert norms_table(chosen).columns[-1] == "their sum · pinned"


def test_a_pin_of_the_same_text_says_that_nothing_differs(small):
    figure = table_map(Chosen(looking(small, TEXT, pinned=(small, TEXT, "")).inputs))
    notes = [render(figure, Reader(difference=difference)).caption.note for difference in (True, False)]
    assert notes == ["nothing differs from the pin", ""]


def test_a_pin_of_another_vocabulary_of_the_same_size_is_not_compared(small):
    inputs = looking(small, TEXT, pinned=(small, TEXT, "")).inputs
    assert list(lines(nearest_chart(Chosen(inputs)))) == ["cosine", "cosine · pinned"]
    others = train_characters(["".join(chr(0x5000 + place) for place in range(len(small.source_tokenizer) - 4))])
    assert len(others) == len(small.source_tokenizer)
    stranger = type(small)("stranger", small.network, (others, small.target_tokenizer), {})
    figure = nearest_chart(Chosen(replace(inputs, pin=replace(inputs.pin, model=stranger))))
    assert list(lines(figure)) == ["cosine"]
    assert "another vocabulary" in figure.caption.sentence


def test_the_laboratory_follows_its_fields_and_explains_what_cannot_be(small):
    app = page("laboratory", experiment="wavelengths", bases="10000")
    assert "base 10,000: dimension 0 repeats after 6.28 positions" in said(app)
    app.text_input(key="bases").set_value("100, 50").run()
    assert "With base 50 instead of 100, 14 of 16 dimensions have a shorter wavelength." in said(sound(app))
    app.select_slider(key="bases_slider").set_value(500.0).run()
    assert app.text_input(key="bases").value == "500, 50"
    assert "base 500" in said(sound(app))
    app.text_input(key="bases").set_value("0, <b>").run()
    assert not app.exception
    assert "base 500" not in said(app)
    assert any("0 is out of range" in each.proto.body for each in app.get("html"))
    assert "no pin changes them" not in said(app)
    app.session_state["session"].keep()
    assert "no pin changes them" in said(app.run())


def test_every_experiment_has_its_figures_table_and_explanation(here):
    write_small(here / "small", position="learned")
    app = page("laboratory")
    for key in ("laboratory_explanation", "laboratory_data"):
        app.session_state[key] = True
    for experiment in EXPERIMENTS:
        app.segmented_control(key="experiment").set_value(experiment).run()
        sound(app)
        charts = app.get("plotly_chart")
        assert len(charts) == (3 if experiment == "relative" else 2), experiment
        assert all('"dragmode":false' in chart.proto.spec for chart in charts)  # a swipe scrolls the page
        assert said(app)
        assert len(app.dataframe[0].value) > 10
        assert app.code


def every_figure(inputs) -> list:
    """Figures of a text on this page."""
    sides = ["source", *(["target"] if inputs.target else [])]
    chosen = [Chosen(inputs, side, quantity) for side in sides for quantity in ("tokens", "output")]
    figures = [draw(each) for each in chosen for draw in (table_map, norms_chart, nearest_chart, plane_chart)]
    both, backwards = compare(inputs, vary(inputs.model, position="none")), order_of(inputs.trace, inputs.source)
    runs = reversals(inputs.model, inputs.model, inputs.source, backwards)
    maps = [cosine_map(inputs, backwards, each, None, on=True) for each in runs]
    changed, differences = changes_map(inputs, both), differences_chart(inputs, backwards, runs, None)
    return [*figures, losses_chart(inputs, both), changed, *maps, differences]


CONFIGS = {
    "decoder-only": {"position": "rotary", "norm": "rms"},
    "encoder-only": {"position": "learned", "norm": "rms"},
    "bare": {"norm": "none", "residual": False, "n_encoder_layers": 1},
    "alibi": {"position": "alibi"},
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_models_of_any_kind_have_all_figures_of_any_text(here, kind):
    if "only" in kind:
        model = one(here / "one", kind, **CONFIGS[kind])
    else:
        write_small(here / "small", **CONFIGS[kind])
        model = open_checkpoint(here / "small")
    for text in HOSTILE:
        for figure in every_figure(looking(model, text, *(() if "only" in kind else (text,))).inputs):
            assert render(figure, Reader("zh", difference=True)).data


def test_both_texts_of_the_reversal_light_up_with_the_tokens(small):
    inputs = looking(small, TEXT).inputs
    order = order_of(inputs.trace, inputs.source)
    figure = cosine_map(inputs, order, reversals(small, small, inputs.source, order)[0], None, on=False)
    assert (figure.rows.side, figure.columns.side) == ("source", "source")
    assert figure.columns.labels == [figure.rows.labels[place] for place in figure.columns.places]
    assert figure.columns.places != sorted(figure.columns.places)


@pytest.mark.parametrize("kind", ["decoder-only", "encoder-only"])
def test_a_causal_mask_tells_the_order(here, kind):
    model = one(here / "one", kind, position="none")
    inputs = looking(model, f"The {MASK} sees" if kind == "encoder-only" else "The cat").inputs
    runs = reversals(model, model, inputs.source, order_of(inputs.trace, inputs.source))
    assert ("A causal mask" in "".join(verdicts(model, *runs))) == (kind == "decoder-only")


def test_the_page_opens_on_the_side_and_the_token_that_were_chosen_elsewhere(small):
    app = opened("attention", source="The cat sees.", target="一七丞世")
    session = app.session_state["session"]
    assert session.selection.side == "target"
    session.select(query=2)
    app.switch_page("viz/pages/positions/page.py").run()
    assert app.segmented_control(key="side").value == "target"
    assert component(app, "heatmap")[0]["chosen"] == 2
    app.segmented_control(key="side").set_value("source").run()
    for name in ("attention", "positions"):
        app.switch_page(f"viz/pages/{name}/page.py").run()
    assert app.segmented_control(key="side").value == "source"
    assert not app.exception


def test_a_field_of_several_numbers_says_so_and_the_combination_that_is_drawn_alone_is_chosen(small):
    app = page("laboratory", bases="10000, 100", code="2")
    assert "base (several: a, b)" in [each.label for each in app.text_input]
    assert app.selectbox(key="code").value == 1
    assert app.selectbox(key="code").options == ["base 10,000", "base 100"]
    sound(app.text_input(key="bases").set_value("50").run())
    assert "code" not in [each.key for each in app.selectbox]


def test_the_positions_of_the_tokens_lead_to_the_curves(small):
    app = page("tokens", vectors="positions")
    next(each for each in app.button if each.label.startswith("Position curves")).click().run()
    assert sound(app).query_params["part"] == "laboratory"
