"""Training on with a model that is there: what it learns from, and with what, is said before the first click."""

from __future__ import annotations

import pytest

from tests.app_reading import opened, sent, sound
from tests.viz.pages.training.training_page import begun, page, words
from viz.frame import training_strip
from viz.state import training
from viz.state.session import Key


@pytest.fixture(autouse=True)
def no_training_left():
    yield
    trainings = training.trainings()
    for key in list(trainings._trainings):
        trainings.end(key)


def strip_of(app):
    return sent(app, training_strip.STRIP)[0]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("eng-cmn", "Trains on sentences made by rule: the data of its run, tatoeba-eng-cmn.tsv, are not here"),
        ("reverse", "Trains on its run's own data: the task reverse, 20,000 pairs."),
        ("shakespeare", "Trains on sentences made by rule: the data of its run, tinyshakespeare.txt, are not here"),
    ],
)
def test_the_strip_says_what_the_first_click_trains_on_and_with_what(name, sentence):
    app = sound(opened("map", model=name))
    strip = strip_of(app)
    assert strip["about"][0].startswith(sentence)
    plan = training.usual_plan(app.session_state[Key.SESSION].model)
    assert "Rate 0.0003" in strip["about"][0]
    full = plan.settings.batch_tokens
    assert strip["batches"]["sentence"] == f"Batches of {{size}} tokens, quick to watch; ▶ takes {full:,}"
    assert strip["batches"]["chosen"] == 256
    assert strip["batches"]["sizes"][-1] == [full, f"{full:,}"]


def test_going_on_takes_the_runs_settings_and_its_own_data_where_they_are_here():
    app = page(model="reverse", begin="on")
    assert app.segmented_control(key="training_data").value == "run"
    assert "split as in its run: 1\N{NO-BREAK SPACE}%\N{NO-BREAK SPACE}for validation" in words(app)
    assert not app.warning
    given = begun(app, steps="1")
    settings, own = given.settings, given.start.training["settings"]
    assert settings.batch_tokens == own["batch_tokens"]
    assert settings.average == own["average"]
    assert given.source.data == "task:reverse:20000"
    assert given.material.record()["validation_percent"] == 1


def test_another_split_or_other_data_are_said_not_to_be_comparable():
    app = page(model="reverse", begin="on", training_data="task")
    assert any("a part" in each.value for each in app.warning)
    app = page(model="eng-cmn", begin="on")
    assert app.segmented_control(key="training_data").value == "phrases"
    assert any("tatoeba-eng-cmn.tsv" in each.value for each in app.warning)


def test_settings_that_were_written_stay_where_another_model_is_chosen():
    app = page(model="reverse")
    app.session_state["setting_clip"] = "0.5"
    app.session_state["begin"] = "on"
    sound(app.run())
    assert app.session_state["setting_clip"] == "0.5"
    assert app.session_state["setting_rate"] == "0.0003"


def test_a_target_from_the_data_is_marked_as_the_reference():
    app = page(model="reverse", begin="on", source="abcd")
    given = begun(app, steps="1")
    app.run()
    session = app.session_state[Key.SESSION]
    assert session.origin == "data"
    assert session.target == given.start.target_tokens("dcba")
    bar = sent(app, Key.TOKENS)[0]
    assert bar["notes"]["target"].startswith("from the data")
    assert sent(app, Key.TARGET)[0]["label"] == "Target, from the data"
    app.button[0].click().run()  # Translate: the model itself writes now
    assert app.session_state[Key.SESSION].origin != "data"
