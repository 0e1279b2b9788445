"""Curves of a training, as the page sends them to the browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

from model.training.live.live_training import LiveTraining
from tests.app_reading import body
from tests.model.training.live.live_examples import SETTINGS, live
from tests.viz.components.test_registry import unpack
from viz.pages.training import curves
from viz.pages.training.curves import hue


def curves_page() -> None:
    from tests.viz.pages.training.training_page import draw
    from viz.pages.training import curves

    draw(curves.page())


@pytest.fixture(scope="module")
def trained() -> Iterator[LiveTraining]:
    """Eight steps, and after the fourth of them a branch with another rate, which is changed once more."""
    training = live()
    training.advance(8)
    training.settled()
    assert training.current
    training.branch(training.current.film.key_frames[1], rate=1e-3)
    training.advance(2)
    training.settled()
    training.change(rate=2e-3)
    training.advance(2)
    training.settled()
    yield training
    training.close()


@pytest.fixture
def opened(trained, monkeypatch):
    monkeypatch.setattr(curves, "training", lambda session: trained)
    return AppTest.from_function(curves_page, default_timeout=240).run()


def more(app: AppTest) -> AppTest:
    """The page with what stands behind More."""
    app.query_params["more"] = "open"
    return app.run()


def components(app: AppTest, name: str) -> list:
    assert not app.exception
    found = [each.proto for each in app.get("bidi_component") if each.proto.component_name == f"vitrine_{name}"]
    return [unpack(body(proto.bytes)) for proto in found]


def test_the_runs_are_drawn_over_each_other_with_what_was_changed(opened, trained):
    first, second = trained.runs
    charts = {header["name"]: (header, arrays) for header, arrays in components(opened, "chart")}
    assert list(charts) == [
        "Training and validation loss",
        "Tokens predicted rightly",
        "Learning rate",
        "Gradient norm",
    ]
    header, arrays = charts["Learning rate"]
    assert [each.get("dash") for each in header["series"]] == [True, False]  # the run that was left, the present one
    for run, xs, ys in zip((first, second), arrays[::2], arrays[1::2], strict=True):
        assert_allclose(xs, run.curves.get("rate")[0])
        assert_allclose(ys, run.curves.get("rate")[1], rtol=1e-6)
    assert header["marks"] == [
        {"x": 4, "text": "run 2 · rate 0.005 → 0.001"},  # where the run left the other one
        {"x": 6, "text": "rate 0.001 → 0.002"},
    ]
    loss, arrays = charts["Training and validation loss"]
    quiet = [each["quiet"] for each in loss["series"]]
    assert len({each["name"] for each in loss["series"]}) == len(quiet)  # read under the pointer
    raw = arrays[1::2][quiet.index(True)]
    assert_allclose(raw, first.curves.get("loss")[1], rtol=1e-6)
    assert "0.9" in loss["sentence"]


def test_validation_is_drawn_with_the_label_smoothing_of_the_training_too(monkeypatch):
    training = live(replace(SETTINGS, label_smoothing=0.2), steps=5)
    monkeypatch.setattr(curves, "training", lambda session: training)
    app = AppTest.from_function(curves_page, default_timeout=240).run()
    more(app).button_group(key="smoothing").set_value("0").run()
    header, arrays = components(app, "chart")[0]
    drawn = dict(zip([each["name"] for each in header["series"]], arrays[1::2], strict=True))
    bare, smoothed = drawn["validation loss"][-1], drawn["validation loss, smoothed labels"][-1]
    assert training.current
    assert bare == pytest.approx(training.current.curves.latest("validation"))
    assert smoothed == pytest.approx(training.recorded.trainer.smoothed)
    assert smoothed > bare  # at the beginning the surprise of all others is larger than that of the right ones
    assert "label smoothing" in header["sentence"]
    training.close()


def test_every_layer_and_head_has_its_curve(opened, trained):
    app = opened
    app.button_group(key="curves").set_value("layers").run()
    names = {series["name"] for header, _ in components(app, "chart") for series in header["series"]}
    assert {"encoder embedding", "decoder 1", "decoder 2", "encoder 1 feed-forward"} <= names
    app.button_group(key="curves").set_value("heads").run()
    charts = components(app, "chart")
    assert [header["name"] for header, _ in charts] == ["decoder 1", "decoder 2"]  # cross-attention
    _, arrays = charts[1]
    run = trained.current
    assert run
    expected = run.curves.get("entropy/decoder.layers.1.cross_attention/0")[1]
    assert_allclose(arrays[1], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("group", "titles"),
    [
        ("whole", {"loss", "accuracy", "rate", "gradient norm"}),
        ("layers", {"gradient norm", "update ratio", "γ drift", "dead units"}),
        ("heads", {"decoder 1", "decoder 2"}),
    ],
)
def test_without_smoothing_each_curve_is_what_was_measured(opened, trained, group, titles):
    app = opened
    app.button_group(key="curves").set_value(group).run()
    more(app).button_group(key="smoothing").set_value("0").run()
    charts = components(app, "chart")
    assert {header["file"].removeprefix("curves-") for header, _arrays in charts} == {
        title.replace(" ", "-") for title in titles
    }
    measured = {(run.number, name): run.curves.get(name) for run in trained.runs for name in run.curves.names}
    for header, arrays in charts:
        assert "smoothed" not in header["sentence"]
        for xs, ys in zip(arrays[::2], arrays[1::2], strict=True):
            assert any(
                len(ys) == len(values) and np.allclose(xs, steps) and np.allclose(ys, values, rtol=1e-5, atol=1e-7)
                for steps, values in measured.values()
            ), header["name"]
    for run in trained.runs:
        steps, table = run.curves.table()
        assert steps.tolist() == list(range(len(steps)))  # each step is filmed, so that each has each figure
        named = zip(run.curves.names, table[1:].T, strict=False)  # the others are not of every step
        assert [name for name, column in named if not np.isfinite(column).all()] == [], run.number
    if group == "whole":
        labels = {series["name"].partition(" · ")[0] for header, _arrays in charts for series in header["series"]}
        assert {"training loss", "validation loss"} <= labels
        for run in trained.runs:
            assert len(measured[run.number, "validation"][0]) > 0
            assert len(measured[run.number, "exact match"][0]) > 0
    elif group == "layers":
        for title in titles - {"dead units"}:
            for run in trained.runs:
                names = [name for name in run.curves.names if name.startswith(f"{title}/")]
                assert max(measured[run.number, name][1].max() for name in names) > 0


@pytest.mark.parametrize(
    ("scale", "axes"), [("linear", (False, False)), ("log", (False, True)), ("log-log", (True, True))]
)
def test_axes_are_logarithmic_where_a_logarithm_says_something(opened, scale, axes):
    app = opened
    more(app).button_group(key="axes").set_value(scale).run()
    charts = {header["file"]: header for header, _arrays in components(app, "chart")}
    loss, share = charts["curves-loss"], charts["curves-accuracy"]
    assert (bool(loss["x"]["log"]), bool(loss["y"]["log"])) == axes
    assert (bool(share["x"]["log"]), bool(share["y"]["log"])) == (axes[0], False)
    assert (share["y"]["low"], share["y"]["high"]) == (0, 1)
    assert ("low" in loss["x"]) != axes[0]  # 0 has no logarithm


def test_more_smoothing_leaves_less_of_the_noise(opened, trained):
    roughness = []
    for keep in ("0", "0.9", "0.98"):
        app = opened
        more(app).button_group(key="smoothing").set_value(keep).run()
        header, arrays = next(each for each in components(app, "chart") if each[0]["file"] == "curves-loss")
        lines = zip(header["series"], arrays[1::2], strict=True)
        loss = next(ys for series, ys in lines if series["name"].startswith("training loss") and not series["quiet"])
        roughness.append(np.abs(np.diff(loss)).max())
    assert roughness[0] > roughness[1] > roughness[2] > 0


def test_the_file_has_every_figure(opened, trained):
    assert [each.proto.label for each in more(opened).get("download_button")] == ["CSV"]
    lines = curves.table_of(trained.runs).decode("utf-8-sig").splitlines()
    assert lines[0] == "run,step,name,value"
    count = sum(len(run.curves.get(name)[0]) for run in trained.runs for name in run.curves.names)
    assert len(lines) == 1 + count
    step, loss = trained.runs[1].curves.get("loss")
    assert f"2,{step[-1]},loss,{loss[-1]!r}" in lines or f"2,{step[-1]},loss,{float(loss[-1])!r}" in lines


def test_without_a_training_there_are_no_curves(monkeypatch):
    monkeypatch.setattr(curves, "training", lambda session: None)
    assert "from the sidebar" in AppTest.from_function(curves_page).run().caption[0].value


def test_what_is_not_measured_yet_says_when_it_comes(monkeypatch):
    training = live()
    training.settled()
    monkeypatch.setattr(curves, "training", lambda session: training)
    app = AppTest.from_function(curves_page, default_timeout=240).run()
    said = {header["file"].removeprefix("curves-"): header["sentence"] for header, _arrays in components(app, "chart")}
    assert "every 5 steps" in said.pop("accuracy")
    assert len(said) == 3
    assert all("not measured yet: train a step" in sentence for sentence in said.values())
    training.close()


def test_smoothing_and_axes_stand_behind_more_and_hold_while_it_is_closed(opened):
    assert {each.key for each in opened.button_group} == {"curves"}
    app = more(opened)
    assert {each.key for each in app.button_group} == {"curves", "smoothing", "axes"}
    app.button_group(key="axes").set_value("log").run()
    app.button(key="more_curves").click().run()
    assert {each.key for each in app.button_group} == {"curves"}
    assert app.button(key="more_curves").label == "More · 1 changed"
    loss, *_others = [header for header, _arrays in components(app, "chart")]
    assert loss["y"]["log"]


def test_no_curve_is_blue():
    """Which is attention's; the first one has the colour of a loss, and others are far from the one before."""
    hues = [hue(number, turn) for number in range(12) for turn in (0, 65, 130)]
    assert not [each for each in hues if 195 < each < 260]
    assert hue(1) == 40
    assert all(abs(hue(number) - hue(number + 1)) > 60 for number in range(12))
