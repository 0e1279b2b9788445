"""The settings of a training on its page: the schedule that they make, and each of them changed while it lasts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from model.options import field_text
from model.training.schedule import learning_rate
from model.training.settings import CHANGEABLE
from tests.app_reading import sent, sound
from tests.viz.pages.training.training_page import demonstrated, live, page, part, words
from viz.pages.training import settings as training_settings


def test_the_schedule_is_that_of_the_settings():
    app = sound(part(page(), "settings"))
    _header, (steps, rates) = sent(app, "training_schedule")
    settings = training_settings.BEGINNING
    expected = [learning_rate(int(step), settings.steps, settings) for step in steps]
    assert np.allclose(rates, expected, rtol=1e-6)
    app.text_input(key="setting_rate").set_value("fast").run()
    assert "drawn once" in words(app)
    assert not app.exception


@pytest.mark.parametrize(("times", "said"), [(14.2, True), (0.5, False)])
def test_a_precision_that_is_slow_here_is_said(monkeypatch, times, said):
    monkeypatch.setattr("model.runtime.device.slowdown", lambda *_: times)
    app = sound(part(page(), "settings"))
    app.selectbox(key="setting_precision").set_value("bfloat16").run()
    sound(app)
    assert any("bfloat16 takes 14.2 times" in warning.value for warning in app.warning) == said


def test_a_setting_changes_the_training_and_is_marked():
    app = sound(part(demonstrated(), "settings"))
    assert app.text_input(key="setting_steps").value == "3"
    app.text_input(key="setting_clip").set_value("0.5").run()
    given = live(sound(app))
    assert [mark.changes for mark in given.current.marks] == [{"clip": (1.0, 0.5)}]
    app.text_input(key="setting_clip").set_value("0").run()
    live(app)
    assert given.settings.clip == 0.5
    app.text_input(key="setting_dropout").set_value("0.25").run()
    assert live(app).settings.dropout == 0.25


def test_what_is_wrong_stays_said_while_another_field_is_changed():
    app = sound(part(demonstrated(), "settings"))
    for name, value in {"label_smoothing": "2", "clip": "-1", "seed": "5"}.items():
        app.text_input(key=f"setting_{name}").set_value(value).run()
    said = alerts(app)
    assert "label_smoothing (2" in said
    assert "clip (-1" in said
    assert live(app).settings.seed == 5
    app.text_input(key="setting_clip").set_value("1").run()
    said = alerts(app)
    assert "label_smoothing (2" in said
    assert "clip (-1" not in said


def test_what_was_refused_is_forgotten_where_going_back_writes_the_field(monkeypatch):
    app = sound(part(demonstrated(), "settings"))
    app.text_input(key="setting_batch_tokens").set_value("60").run()
    monkeypatch.setattr("model.training.cost.left_memory", lambda: 0)
    app.text_input(key="setting_batch_tokens").set_value("9000").run()
    assert "GB are free" in alerts(app)
    monkeypatch.setattr("model.training.cost.left_memory", lambda: 1 << 40)
    given = live(app)
    given.rewind(given.current.film.key_frames[0])
    assert given.settled(20.0)
    app.run()
    assert app.text_input(key="setting_batch_tokens").value == str(given.settings.batch_tokens)
    assert not alerts(app)


def alerts(app):
    """What is said beside the fields."""
    return " ".join(each.proto.body for each in app.get("html") if 'role="alert"' in each.proto.body)


def test_every_setting_and_dropout_is_changed_from_its_field(monkeypatch):
    monkeypatch.setattr("model.runtime.device.slowdown", lambda *_: 1.0)  # of bfloat16, whatever else runs here
    app = sound(part(demonstrated(), "settings"))
    given = live(app)
    wanted = {"batch_tokens": 40, "accumulation": 2, "rate": 0.02, "warmup": 7, "schedule": "constant", "steps": 9}
    wanted |= {"label_smoothing": 0.1, "weight_decay": 0.2, "clip": 0.5, "precision": "bfloat16", "seed": 5}
    wanted |= {"validate_every": 3, "dropout": 0.25, "attention_dropout": 0.1, "activation_dropout": 0.05}
    assert {*wanted, "epochs"} == {*CHANGEABLE}
    for name, value in wanted.items():
        fields = app.selectbox if isinstance(value, str) else app.text_input
        fields(key=f"setting_{name}").set_value(field_text(value))
    sound(app.run())
    changes = [mark.changes for mark in live(app).current.marks]
    assert {name: new for change in changes for name, (_old, new) in change.items()} == wanted
    app.text_input(key="setting_warmup").set_value("9").run()
    assert not sound(app).warning  # the last step has the whole rate
    app.text_input(key="setting_warmup").set_value("10").run()
    (said,) = [each.value for each in sound(app).warning]
    assert "The warm-up has 10 steps and the training 9: the rate ends at 1.8e-02" in said
    wanted["warmup"] = 10
    assert wanted.items() <= dataclasses.asdict(given.settings).items()
