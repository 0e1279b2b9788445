"""Two users of one server, each with a training; and one whose model is gone meanwhile."""

from __future__ import annotations

import shutil

from tests.app_reading import model_list, sound, type_in
from tests.viz.pages.training.training_page import begun, demonstrated, live, page, part, words
from tests.viz.small import write_small
from viz.state import training


def test_two_sessions_train_side_by_side_and_neither_sees_the_other():
    apps = demonstrated(), demonstrated()
    assert live(apps[0]) is not live(apps[1])
    assert len(training.trainings()) == 2
    for app, clip, text in zip(apps, ("0.5", "0.25"), ("abc", "edcba"), strict=True):
        part(app, "settings").text_input(key="setting_clip").set_value(clip).run()
        type_in(app, "source", text)
        live(app).reset()
        live(app).run()
    for app, clip, text in zip(apps, (0.5, 0.25), ("abc", "edcba"), strict=True):
        given, session = live(app), sound(app.run()).session_state["session"]
        assert (given.snapshot.step, len(given.runs)) == (3, 2)
        assert given.settings.clip == clip
        assert app.text_input(key="setting_clip").value == f"{clip:g}"
        assert session.source.labels == [*text, "</s>"]
        assert session.model is given.view().model
        assert given.current.film.probe.source.labels == [*text, "</s>"]
    first, second = (each.current.curves.get("loss")[1].tolist() for each in map(live, apps))
    assert first[0] == second[0]  # the same task and seed; only what they were told differs
    training.trainings().end(apps[0].session_state["session"].training.run)
    assert live(apps[1]).snapshot.step == 3


def test_two_tabs_of_one_training_with_two_texts_leave_its_film_alone():
    first = demonstrated()
    given, key = live(first), first.session_state["session"].training.run
    second = page(run=key, model=f"训练中：{given.start.name}")  # as addresses of before have it
    assert first.query_params["model"] == second.query_params["model"] == "training"
    type_in(second, "source", "abc")
    assert live(second) is given
    assert given.current.film.probe.source.labels == [*"abc", "</s>"]
    edition = given.current.film.edition
    for app, text in ((first, "transformer"), (second, "abc"), (first, "transformer")):
        assert sound(app.run()).session_state["session"].source.labels == [*text, "</s>"]
        assert given.settled(20.0)
    assert given.current.film.edition == edition  # of the text that was chosen last
    type_in(first, "source", "edcba")
    assert live(first).current.film.probe.source.labels == [*"edcba", "</s>"]


def test_a_training_whose_model_was_deleted_goes_on_and_is_saved(here):
    app = page(begin="on", training_data="phrases")
    begun(app)
    shutil.rmtree(here / "bundled" / "small")
    type_in(app, "source", "")
    part(sound(app), "runs").text_input(key="saving_name").set_value("kept").run()
    app.button(key="saving_save").click().run()
    assert "Saved as kept" in words(sound(app))
    app.button(key="runs_give_up").click().run()
    app.button(key="runs_confirm").click().run()
    assert sound(app.run()).session_state["model"] == "kept"


def test_a_model_that_is_shown_stays_shown_when_a_training_of_another_is_given_up(here):
    write_small(here / "bundled" / "other")
    app = sound(part(demonstrated(), "runs"))
    model_list(app).set_value("small").run()
    app.button(key="runs_give_up").click().run()
    app.button(key="runs_confirm").click().run()
    assert sound(app).session_state["model"] == "small"
    assert "No training has begun" in words(app)
