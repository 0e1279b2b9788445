"""The page of norms and residual without a browser: what its script alone shows."""

from __future__ import annotations

import pytest

from tests.app_reading import opened, sound, type_in
from tests.viz.small import write_small
from viz.pages.residual.text import RESIDUAL_VIEWS

SOURCE, TARGET = "The cat sees the dog.", "一七丞世"


def page(**address):
    return sound(opened("residual", source=SOURCE, target=TARGET, **address))


def turned(app, **choices):
    """The same page with other choices made."""
    for name, value in choices.items():
        app.session_state[name] = value
    return sound(app.run())


def infos(app):
    return " ".join(info.value for info in app.info)


@pytest.mark.parametrize(
    "options",
    [
        {"norm": "none", "residual": False},
        {"norm": "rms", "norm_placement": "sandwich", "n_encoder_layers": 1, "n_decoder_layers": 3},
        {"norm_placement": "post", "embedding_norm": True, "bias": False, "activation": "swiglu"},
    ],
)
def test_every_config_is_shown_or_says_what_it_has_not(here, options):
    write_small(here / "small", **options)
    app = page(layer="9", query="99")
    bare = options["norm"] == "none" if "norm" in options else False
    for number, view in enumerate(RESIDUAL_VIEWS):
        says = infos(turned(app, residual_view=view, stack=("encoder", "decoder")[number % 2]))
        assert ("no norms" in says) == (bare and view not in ("stream", "dropout", "gradients")), view
        assert ("no residual" in says) == (bare and view == "stream"), view
        assert app.get("bidi_component")[1:] or "no norms" in says


def test_what_a_view_lacks_is_said(small):
    app = page(residual_view="dropout")
    assert app.number_input[0].value == 0.1
    assert "without dropout" in infos(app)  # the small model has none: an example's rate
    type_in(turned(app, residual_view="batch"), "source", "")
    assert "at least two tokens" in infos(sound(app))


def test_the_chosen_table_stays_while_a_view_has_it_and_no_other_takes_its_number(small):
    app = page(residual_view="norms")
    app = turned(app, residual_data=True, residual_data_of=2)
    assert len(app.selectbox(key="residual_data_of").options) > 2
    app = turned(app, residual_view="dropout")
    assert app.selectbox(key="residual_data_of").value == 0
    app = turned(app, residual_data_of=1)
    type_in(app, "source", "The cat sees the bird.")
    assert sound(app).selectbox(key="residual_data_of").value == 1
