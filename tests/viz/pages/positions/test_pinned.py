"""The pin on the page of tokens and positions: the text backwards at the same tokens, and what has no counterpart."""

from __future__ import annotations

import gc
import weakref

import numpy as np

from model.analysis.positions import order_difference, states_beside
from tests.app_reading import type_in
from tests.test_app_kinds import write
from tests.viz.pages.positions.positions_page import TEXT, page, sound
from tests.viz.small import looking
from viz.pages.positions.order import cosine_map, differences_chart, order_of, pinned_reversals, reversals
from viz.pages.positions.tokens import Chosen, nearest_chart, norms_chart, plane_chart

OTHER = "The cat sees the bird."


def test_the_text_backwards_stands_beside_the_pinned_one(small):
    inputs = looking(small, OTHER, pinned=(small, TEXT, "")).inputs
    order = order_of(inputs.trace, inputs.source)
    runs, (before, sentence) = reversals(small, small, inputs.source, order), pinned_reversals(inputs)
    assert not sentence
    chart = differences_chart(inputs, order, runs, before)
    assert [each.name for each in chart.series][2:] == ["positions off, pinned", "positions as they are, pinned"]
    ids, places = inputs.pin.texts[0].ids, inputs.comparison.source.places
    pinned_order = order_of(inputs.pin.trace, inputs.pin.texts[0])
    by_token = dict(zip(pinned_order, order_difference(small.network, ids, pinned_order).tolist(), strict=True))
    expected = [by_token.get(place, np.nan) for place in places]
    assert np.isnan(expected).any()
    assert np.allclose(chart.series[3].ys, expected, equal_nan=True, atol=1e-6)
    values = cosine_map(inputs, order, runs[1], before[1], on=True).values
    cosines = states_beside(small.network, ids, pinned_order).numpy()
    for row, place in enumerate(places):
        for column, at in enumerate(order):
            if place < 0 or places[at] < 0:
                assert np.isnan(values.before[row, column])
            else:
                assert abs(values.before[row, column] - cosines[place, pinned_order.index(places[at])]) < 1e-5


def test_a_released_pin_is_kept_by_nothing(small):
    app = page("order")
    session = app.session_state["session"]
    session.keep()
    type_in(app, "source", OTHER)
    assert "positions off, pinned" in str(session.views["order_differences"].table())
    trace = weakref.ref(session.pin.trace)
    session.release()
    sound(app.run())
    gc.collect()
    assert trace() is None


def test_norms_nearest_and_plane_say_why_a_stranger_is_not_beside(small, tmp_path):
    other = write(tmp_path / "other", "decoder-only")
    chosen = Chosen(looking(small, TEXT, pinned=(other, TEXT, "")).inputs)
    for draw, sentence in (
        (norms_chart, "cannot be compared"),
        (plane_chart, "cannot be compared"),
        (nearest_chart, "another vocabulary"),
    ):
        figure = draw(chosen)
        assert not any("pinned" in each.name for each in figure.series)
        assert sentence in figure.caption.sentence
