"""The pin on the page of tokens and positions: the text backwards at the same tokens, and why formulas have no pin."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np

from model.analysis.positions import order_difference, reversed_order, states_beside
from tests.app_reading import type_in
from tests.test_app_kinds import write
from tests.viz.pages.positions.positions_page import TEXT, page, pinned, said, series, sound, views

OTHER = "The cat sees the bird."


def test_the_text_backwards_stands_beside_the_pinned_one(small):
    app = page("order")
    session = pinned(app)
    type_in(app, "source", OTHER)
    header, arrays = views(sound(app))["order-differences"]
    names = [each["name"] for each in header["series"]]
    assert names[2:] == ["positions off, pinned", "positions as they are, pinned"]
    ids, places = session.pin.texts[0].ids, session.comparison.source.places
    special = [label in session.pin.trace.special_labels for label in session.pin.trace.source_tokens]
    order = reversed_order(special)
    by_token = dict(zip(order, order_difference(small.network, ids, order).tolist(), strict=True))
    expected = [by_token.get(place, np.nan) for place in places]
    assert np.isnan(expected).any()
    assert np.allclose(arrays[7], expected, equal_nan=True, atol=1e-6)
    own = views(app)["order_on"][1][0]
    session.differing = True
    header, (values, _visible) = views(sound(app.run()))["order_on"]
    assert header["scale"]["difference"]
    cosines = states_beside(small.network, ids, order).numpy()
    backwards = reversed_order([label in session.trace.special_labels for label in session.trace.source_tokens])
    for row, place in enumerate(places):
        for column, at in enumerate(backwards):
            if place < 0 or places[at] < 0:
                assert np.isnan(values[row, column])
            else:
                before = cosines[place, order.index(places[at])]
                assert abs(values[row, column] - (own[row, column] - before)) < 1e-5


def test_a_released_pin_is_kept_by_nothing(small):
    app = page("order")
    session = pinned(app)
    type_in(app, "source", OTHER)
    assert "positions off, pinned" in [each["name"] for each in series(sound(app), "order-differences")]
    trace = weakref.ref(session.pin.trace)
    session.release()
    sound(app.run())
    gc.collect()
    assert trace() is None


def test_norms_nearest_and_plane_say_why_a_stranger_is_not_beside(small, tmp_path):
    app = page("tokens")
    session = pinned(app)
    other = write(tmp_path / "other", "decoder-only")
    session.pin = replace(session.pin, model=other, trace=other.trace(TEXT))
    app.run()
    assert not any("pinned" in each["name"] for name in ("norms", "plane", "nearest") for each in series(app, name))
    sentences = {header["file"].split("-")[0]: header["sentence"] for header, _arrays in views(app).values()}
    assert "another vocabulary" in sentences["nearest"]
    assert all("values are shown" in sentences[name] for name in ("norms", "plane"))


def test_a_formula_says_that_no_pin_changes_it(small):
    app = page("laboratory", experiment="shift")
    assert "no pin changes them" not in said(app)
    pinned(app)
    assert "no pin changes them" in said(sound(app.run()))
