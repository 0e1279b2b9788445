"""What tests of the page Training start from."""

from __future__ import annotations

import dataclasses

import viz.pages.training.data
import viz.pages.training.demonstration
import viz.pages.training.start
import viz.state.checkpoints
from model.training.demonstration import REVERSE
from tests.app_reading import opened, sound
from tests.viz.small import write_small
from viz.frame import drawing
from viz.frame.drawing import PageLayout
from viz.state import training
from viz.state.session import current_session
from viz.ui.parts import mount

TABLE = "source,target\n" + "".join(f"{word},{word[::-1]}\n" for word in ("ab", "abc", "bcd", "dab", "cab", "bad"))
SMALL = {"d_model": 8, "n_heads": 2, "d_ff": 8, "dropout": 0.0}
TINY = {"d_model": "8", "n_heads": "2", "d_ff": "8", "n_encoder_layers": "1", "n_decoder_layers": "1"}


def short_trainings(tmp_path, monkeypatch):
    """One small checkpoint, a place to save in, a demonstration that is soon over; no training is left behind."""
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path / "bundled")
    monkeypatch.setenv(viz.state.checkpoints.SAVED, str(tmp_path / "saved"))
    write_small(tmp_path / "bundled" / "small")
    monkeypatch.setattr(viz.pages.training.data, "TASK_PAIRS", 60)
    short = dataclasses.replace(
        REVERSE, pairs=60, settings=dataclasses.replace(REVERSE.settings, steps=3, validate_every=1), network=SMALL
    )
    monkeypatch.setattr(viz.pages.training.start, "REVERSE", short)
    monkeypatch.setattr(viz.pages.training.demonstration, "REVERSE", short)
    training.trainings.clear()
    yield tmp_path
    trainings = training.trainings()
    for key in list(trainings._trainings):
        trainings.end(key)


def page(**address):
    return sound(opened("training", **address))


def draw(views):
    """A part of the page by itself, as the frame draws it: pictures, then what only the script can draw."""
    stage = PageLayout(None, False, views, "en")
    rest = drawing.views(current_session(), stage, None, mount)
    if rest:
        rest()


def part(app, name):
    app.session_state["training_part"] = name
    return app.run()


def begun(app, **settings):
    """The training that begins with these settings, of one step if they do not say how many."""
    for name, value in ({"steps": "1"} | settings).items():
        app.session_state[f"setting_{name}"] = value
    app.run().button(key="begin_button").click().run()
    return live(sound(app))


def words(app):
    return " ".join(each.value for kind in (app.markdown, app.caption, app.info, app.toast) for each in kind)


def live(app):
    found = training.trainings().get(app.session_state["session"].training.run)
    assert found is not None
    assert found.settled(20.0)
    return found


def pasted(text, **fields):
    app = page(training_data="own", own_from="paste")
    app.text_area(key="own_paste").set_value(text).run()
    for name, value in ({"d_model": "8", "n_heads": "2", "d_ff": "8"} | fields).items():
        app.text_input(key=f"network_{name}").set_value(value)
    return app.run()


def demonstrated():
    app = page()
    app.button(key="demonstration_begin").click()
    sound(app.run())
    live(app)
    return sound(app.run())
