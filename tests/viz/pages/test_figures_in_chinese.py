"""No English is left where figures of inputs are drawn for a Chinese reader."""

from __future__ import annotations

import re

import pytest

from model.inference.decoding import Sampling
from tests.viz.small import looking, small_model
from viz.pages.feed_forward import layer, units
from viz.pages.predictions import attribution, beam_tree, decoding_film, logit_lens, positions, sampling
from viz.render.reader import Reader
from viz.render.render import render
from viz.ui.prediction import Subject

TOKENS = ("labels", "label", "last", "special", "text", "texts")  # what a model reads and writes
WORD = re.compile(r"(?<!\{)\b[a-z]{4,}\b(?!\})")
SAME = {"logit", "softmax"}  # written so in Chinese too
NAMES = ("file", "stamp", "side", "mark", "formula", "fate", "type")  # for the browser, not for a reader


def untranslated(english, chinese, name=""):
    """Chinese texts in which an English word of the same text is left."""
    if isinstance(english, dict):
        pairs = ((english[key], chinese[key], key) for key in english if key not in (*TOKENS, *NAMES))
    elif isinstance(english, list):
        pairs = ((*pair, name) for pair in zip(english, chinese, strict=True))
    elif isinstance(english, str) and not english.startswith("rgb"):
        left = set(WORD.findall(english)) & set(WORD.findall(chinese)) - SAME
        return [f"{name}: {chinese}"] if left else []
    else:
        return []
    return [text for pair in pairs for text in untranslated(*pair)]


def of_feed_forward(session):
    inputs = session.inputs
    chosen = units.choose_units(inputs, units.UnitSelection("decoder", "activation", "strength"))
    charts = (units.layer_map, units.unit_map, units.all_units, units.unit_chart, units.token_chart, layer.histogram)
    yield from (chart(inputs, chosen) for chart in charts)
    yield from layer.direction_charts(inputs, chosen)[0].values()


def of_predictions(session):
    for differing in (False, True):
        subject, chosen = Subject(session.inputs, differing), Sampling(temperature=0.5, top_k=5)
        yield from (make(subject) for make in (positions.losses_chart, positions.top_map, positions.position_ranking))
        drawn = sampling.draw(subject, chosen)
        yield sampling.drawn_ranking(subject, chosen, drawn)
        yield sampling.rank_chart(subject, drawn)
        yield sampling.saturation_chart(subject, 0.5)
        readings = logit_lens.read(subject)
        yield from (logit_lens.lens_map(subject, readings, shade) for shade in logit_lens.SHADES)
        charts = logit_lens.probability_chart, logit_lens.rank_chart, logit_lens.entropy_chart
        yield from (chart(subject, readings) for chart in charts)
        for of in attribution.OF:
            parts = attribution.found_of(session, subject, of)
            yield from (attribution.tokens_map(subject, parts, of, lowered) for lowered in (False, True))
        yield decoding_film.film_figure(subject)
    yield beam_tree.tree_figure(session.inputs, session.model.generate("The cat sees", beam=4).tree)


@pytest.mark.parametrize("figures", [of_feed_forward, of_predictions])
@pytest.mark.parametrize("difference", [False, True])
def test_no_english_is_left_in_a_chinese_figure(tmp_path, figures, difference):
    one, other = (small_model(tmp_path / str(seed), seed=seed) for seed in (0, 1))
    session = looking(one, "The cat sees.", "一七丞", (other, "The dog sees.", "一七世"), query=1, layer=1)
    for figure in figures(session):
        english, chinese = (render(figure, Reader(language, difference=difference)) for language in ("en", "zh"))
        assert not untranslated(english.header, chinese.header), figure.caption.name
        assert not untranslated(english.columns, chinese.columns), figure.caption.name
