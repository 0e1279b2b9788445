"""Trained side by side, on the page: three steps of each claim, its verdict, its charts, its table; what cannot be."""

from __future__ import annotations

import numpy as np
import pytest

import viz.state.checkpoints
from tests.app_reading import experimented, opened, sent, sound
from tests.viz.small import write_small

FEW = {"steps": "3", "d_model": "8", "depth": "1"}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """One small checkpoint, few pairs."""
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path / "bundled")
    monkeypatch.setattr("model.experiments.side_by_side.PAIRS", 100)
    monkeypatch.setattr("model.experiments.training_claims.SOURCES", 3)
    write_small(tmp_path / "bundled" / "small")


def page(name: str, **address):
    fields = {f"{name}_{key}": value for key, value in FEW.items()}
    return sound(opened("lab", lab_part="trainings", lab_training=name, **(fields | address)))


def words(app) -> str:
    return " ".join(each.value for kind in (app.markdown, app.caption, app.text) for each in kind)


@pytest.mark.parametrize(
    ("name", "beside", "verdict"),
    [
        ("norms", "gradients", "Loss of wrong pre-norm"),
        ("residual", "gradients", "cannot be compared: there is one layer"),
        ("tying", "accuracy", "fewer"),
        ("smoothing", "accuracy", "With smoothing the perplexity is"),
        ("recipe", "rates", "Loss of no Adam"),
    ],
)
def test_a_claim_is_tried(name: str, beside: str, verdict: str) -> None:
    app = page(name)
    assert "Tutorials say:" in words(app)
    assert "More exactly:" in words(app)
    assert "by a step just measured" in words(app)
    app = experimented(app, f"lab_{name}_run")
    assert verdict in words(app)
    header, arrays = sent(app, f"lab_{name}_loss")
    result = app.session_state[f"lab_{name}_run"].running.look().result
    assert np.allclose(arrays[1], result.courses[0].losses, rtol=1e-5)
    assert header["stamp"] == f"{name} 3 0"
    _header, arrays = sent(app, f"lab_{name}_{beside}")
    if beside == "gradients":
        expected = [norm for part, norm in result.courses[0].first.items() if ".layers." in part]
        assert np.allclose(arrays[1], expected, rtol=1e-5)
    table = app.dataframe[0].value
    assert table["parameters"].tolist() == [f"{each.parameters:,}" for each in result.courses]


def test_longer_texts_are_drawn_with_the_trained_range() -> None:
    app = experimented(page("positions", positions_trained="4", positions_longest="6"), "lab_positions_run")
    header, arrays = sent(app, "lab_positions_lengths")
    assert header["marks"] == [{"x": 4, "text": "trained up to 4"}]
    assert arrays[0].tolist() == [3, 4, 5, 6]
    assert "right to the character: up to length 4" in words(app)


def test_several_seeds_have_curves_of_their_own() -> None:
    app = experimented(page("tying", tying_seeds="1, 7"), "lab_tying_run")
    header, _arrays = sent(app, "lab_tying_loss")
    assert [each["name"] for each in header["series"] if not each.get("quiet")][-1] == "frequency of tokens alone"
    assert any(each["name"].endswith(" · 7") for each in header["series"])
    assert "one seed" not in words(app)


def test_other_settings_say_that_the_results_are_old() -> None:
    app = experimented(page("tying"), "lab_tying_run")
    assert "settings before" not in words(app)
    app.text_input(key="tying_rate").set_value("0.001").run()
    assert "settings before" in words(sound(app))


def test_what_cannot_be_is_one_sentence() -> None:
    fields = {"lab_part": "trainings", "lab_training": "norms", "norms_d_model": "10"}
    app = opened("lab", **fields)
    assert not app.exception
    assert "d_model (10) must be divisible by n_heads (4)" in app.error[0].value
    assert not [each for each in app.button if each.key == "lab_norms_run_begin"]
    app = opened("lab", lab_part="trainings", lab_training="positions", positions_longest="6")
    assert "beyond the lengths trained on" in app.error[0].value
    assert not app.exception


def test_the_whole_part_speaks_chinese() -> None:
    app = sound(opened("lab", lab_part="trainings", lab_training="recipe", language="zh", recipe_steps="3"))
    assert "据说" in words(app)
