"""Every page where the model computes on a device that is not the CPU: as it is, beside a pin, while it is trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
from streamlit.delta_generator import DeltaGenerator
from streamlit.testing.v1 import AppTest

import viz.pages.training.demonstration
import viz.pages.training.start
import viz.state.checkpoints
from model.network.config import Kind
from model.training.demonstration import REVERSE
from tests.app_reading import component, heads, opened, sound, type_in
from tests.pretended_device import NAME, pretending
from tests.test_app_kinds import write
from tests.viz.small import write_small
from viz.frame.app import PAGES
from viz.state import training

TEXTS = {
    "encoder-decoder": ("The cat sees a dog. The dog likes.", "The dog sees a cat. It likes"),
    "decoder-only": ("The cat sees. A dog likes", "The dog sees a cat. It"),
    "encoder-only": ("The cat sees. A dog <mask> likes.", "The dog sees. The <mask> likes it."),
}
OWN = "language"  # a choice that is not of the page


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("VITRINE_DEVICE", NAME)
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    monkeypatch.setenv(viz.state.checkpoints.SAVED, str(tmp_path / "saved"))
    small = {"d_model": 8, "n_heads": 2, "d_ff": 8, "dropout": 0.0}
    short = dataclasses.replace(REVERSE.settings, steps=2, validate_every=1)
    demonstration = dataclasses.replace(REVERSE, pairs=60, settings=short, network=small)
    for section in (viz.pages.training.start, viz.pages.training.demonstration):
        monkeypatch.setattr(section, "REVERSE", demonstration)
    training.trainings.clear()
    yield tmp_path
    for key in list(training.trainings()._trainings):
        training.trainings().end(key)


def begun(folder, kind: Kind) -> AppTest:
    if kind == "encoder-decoder":
        write_small(folder / "small", n_key_value_heads=1, position="learned")
        app = opened(source=TEXTS[kind][0], target="师学")
    else:
        write(folder / "small", kind, position="rotary", activation="swiglu")
        app = opened(source=TEXTS[kind][0])
    assert app.session_state["session"].model.device.type == NAME
    return sound(app)


def pinned(app: AppTest, kind: Kind) -> AppTest:
    app.session_state["session"].keep()
    sound(type_in(app, "source", TEXTS[kind][1]))
    app.session_state["session"].differing = True
    return sound(app.run())


@pytest.mark.parametrize("kind", ["encoder-decoder", pytest.param("decoder-only", marks=pytest.mark.slow)])
def test_every_page_alone_and_beside_a_pin(here, kind):
    with pretending(float64=False):
        app = begun(here, kind)
        assert all(badge["passed"] for badge in component(app, "token_bar")["badges"])
        assert np.isfinite(heads(app)[1]).any()
        for page in PAGES.values():
            sound(app.switch_page(page).run())
        app = pinned(app.switch_page(PAGES["attention"]), kind)
        for page in PAGES.values():
            sound(app.switch_page(page).run())


def test_a_training_is_begun_and_ends(here):
    write_small(here / "small")
    with pretending(float64=False):
        app = sound(opened("training"))
        app.button(key="demonstration_begin").click()
        sound(app.run())
        live = training.trainings().get(app.session_state["session"].training.run)
        assert live is not None
        assert live.settled(60.0)
        assert (live.snapshot.status, live.snapshot.step) == ("finished", 2)
        assert live.start.device.type == NAME
        sound(app.run())
        sound(app.switch_page(PAGES["attention"]).run())
        assert app.session_state["session"].model.device.type == NAME


@pytest.fixture
def options(monkeypatch) -> dict[str, list[str]]:
    """What every row of buttons on a page has offered, by its key."""
    offered: dict[str, list[str]] = {}
    ordinary = DeltaGenerator.segmented_control

    def control(self, label, options, **named):
        offered[named["key"]] = list(options)
        return ordinary(self, label, options, **named)

    monkeypatch.setattr(DeltaGenerator, "segmented_control", control)
    return offered


def walk(app: AppTest, offered: dict[str, list[str]], page: str, done: set[str], depth: int = 0) -> Iterator[str]:
    """Choose each button of every row, and of the rows that come then; open what can be opened."""
    for fold in [each.key for each in app.get("expander") if each.key and not each.key.endswith("explanation")]:
        if fold not in done:
            done.add(fold)
            app.session_state[fold] = True
            app.run()
            yield f"{page} {fold}"
    for key in [each.key for each in app.get("button_group") if each.key in offered and each.key != OWN]:
        if key in done:
            continue
        done.add(key)
        for value in offered[key]:
            app.session_state[key] = value
            try:
                app.run()
            except ValueError:  # a choice of the data changes another choice's words under the test's feet
                app.switch_page(page).run()
            yield f"{page} {key}={value}"
            if depth < 2:
                yield from walk(app, offered, page, done, depth + 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(TEXTS))
def test_every_choice_of_every_page(here, options, pretended, kind):
    app = begun(here, kind)
    for beside in (False, True):
        if beside:
            app = pinned(app.switch_page(PAGES["attention"]), kind)
        for page in PAGES.values():
            sound(app.switch_page(page).run())
            for where in walk(app, options, page, set()):
                assert not app.exception, where
