"""The pin on the page of norms and the residual stream: what stands beside, or why nothing does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.app_reading import opened, sent, sound
from tests.test_app_kinds import write
from tests.viz.pages.positions_page import TEXT

OTHER = "The cat sees the bird."


@pytest.fixture
def pinned(small):
    app = opened("residual", source=TEXT, target="一七丞世", layer="0", query="1")
    bench = app.session_state["workbench"]
    bench.keep()
    app.text_input(key="source").set_value(OTHER).run()
    return sound(app), bench


def turned(app, **choices):
    for name, value in choices.items():
        app.session_state[name] = value
    return sound(app.run())


def test_dropout_is_measured_on_the_pinned_vector_too(pinned):
    app, _bench = pinned
    header, arrays = sent(turned(app, residual_view="dropout"), "residual_second")
    assert header["series"][-1]["name"] == "measured, pinned"
    (table,) = [each.value for each in app.dataframe if "measured, pinned" in each.value]
    assert len(table) == 4
    rate = float(table["expected"].iloc[0])
    assert rate == pytest.approx(1 - app.number_input[0].value)
    assert np.isfinite(arrays[-1]).all()


def test_placement_is_said_and_measured_for_the_pinned_model(pinned, tmp_path):
    app, bench = pinned
    header, _arrays = sent(turned(app, residual_view="placement", residual_data=True), "residual_wires")
    assert header["sentence"].endswith(", pinned")
    other = write(tmp_path / "other", "encoder-only")
    bench.pin = replace(bench.pin, lens=other, trace=other.trace(TEXT))
    header, _arrays = sent(turned(app, stack="decoder"), "residual_second")
    assert "values are shown" in header["sentence"]
