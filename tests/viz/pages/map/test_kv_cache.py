"""The panel of the KV cache on the map: the loaded model's numbers, what its cache holds, and its absence."""

from __future__ import annotations

import numpy as np
import pytest

import viz.state.checkpoints
from model.checkpoints.native import save_checkpoint
from tests.app_reading import component, opened
from tests.model.elsewhere import model_of
from tests.model.examples import one_stack
from tests.model.network.test_kinds import TOKENIZERS
from tests.viz.no_server import no_server  # noqa: F401 - a fixture
from tests.viz.small import looking, small_model
from viz.pages.map import kv_cache

TEXT = "The cat sees."


@pytest.mark.parametrize("options", [{}, {"n_key_value_heads": 1}])
def test_the_panel_has_the_models_numbers_and_its_caches_bytes(tmp_path, options) -> None:
    model = small_model(tmp_path / "small", **options)
    session = looking(model, TEXT)
    config = model.config
    each = 2 * config.n_decoder_layers * config.kv_heads * config.d_head * 4
    formula, chart = kv_cache.latex(model), kv_cache.chart_of(session, model)
    said = kv_cache.sentence(model, kv_cache.sizes(session, model)[-1])
    assert f"{each:,}".replace(",", "{,}") in formula
    assert rf"2 \cdot {config.n_decoder_layers} \cdot {config.kv_heads} \cdot {config.d_head} \cdot 4" in formula
    assert chart is not None
    assert session.target is not None
    tokens, source = len(session.target.ids), len(session.source.ids)
    assert f"After the {tokens} tokens" in said
    assert f"{source} tokens, once" in said
    assert "exactly these bytes" in said
    line, dots = chart.series
    assert dots.ys[-1] * 1e3 == pytest.approx(each * (tokens + source))
    assert np.interp(dots.xs, line.xs, line.ys) == pytest.approx(dots.ys)


def test_the_panel_follows_the_text(tmp_path) -> None:
    model = small_model(tmp_path / "small")
    short = kv_cache.sizes(looking(model, TEXT, "ab"), model)
    long = kv_cache.sizes(looking(model, TEXT, "abab"), model)
    assert long[-1].own > short[-1].own
    assert long[-1].cross == short[-1].cross


def test_layers_that_keep_unequal_numbers_are_summed(monkeypatch) -> None:
    model = model_of("decoder-only")
    monkeypatch.setattr(type(model.config), "cached_of", lambda _config, layer: 10 + layer)
    formula = kv_cache.latex(model)
    assert r"4 \cdot (1 \cdot 10 + 1 \cdot 11" in formula


@pytest.mark.parametrize("kind", ["encoder-only", "decoder-only"])
def test_only_a_model_that_writes_has_the_panel(tmp_path, monkeypatch, kind) -> None:
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    made = TOKENIZERS[kind]
    save_checkpoint(tmp_path / "one", one_stack(kind, vocabulary=len(made)), (made, made), {"example": TEXT})
    app = opened("map", source=TEXT)
    assert not app.exception
    assert bool([each for each in app.expander if "KV" in each.label]) == (kind == "decoder-only")
    if kind == "encoder-only":
        return
    app.session_state[kv_cache.KEY] = True
    app.run()
    assert not app.exception
    header, _arrays = component(app, "chart")
    assert [each["name"] for each in header["series"]] == ["formula", "measured"]
    assert [each.value for each in app.latex if "h_{kv}" in each.value]
