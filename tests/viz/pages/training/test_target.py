"""The target that a training is watched on, where none is typed."""

from __future__ import annotations

from model.training.demonstration import REVERSE
from tests.app_reading import model_list, opened, sound, type_in, typed
from tests.viz.pages.training.training_page import TABLE, begun, demonstrated, live, page, pasted
from viz.state import training


def test_the_target_is_the_right_answer_and_the_model_s_own_when_asked():
    app = pasted(TABLE, n_encoder_layers="1", n_decoder_layers="1")
    given = begun(app, steps="3", batch_tokens="40", validate_every="1")
    source = typed(app, "source")
    app.run()
    film = live(app).current.film
    assert source in TABLE
    assert film.probe.target == given.start.target_tokens(source[::-1])
    assert len(film) == 4  # from the first step on
    address = {name: app.query_params[name] for name in ("run", "model")}
    again = sound(opened("training", source=source, **address))
    assert live(again).current.film.edition == film.edition
    assert typed(again, "source") == source
    named(app, "Translate").click()
    sound(app.run())
    view = live(app).view()
    own = view.model.trace_generated(view.model.source_tokens(source))[1]
    assert app.session_state["session"].target == own
    after = sound(opened("training", source=source, **address))
    assert after.session_state["session"].target == own  # what is filmed goes on
    type_in(app, "source", "dcba")  # nobody knows the right answer
    written = app.session_state["session"].target
    assert written == view.model.trace_generated(view.model.source_tokens("dcba"))[1]


def test_what_is_asked_of_another_model_leaves_the_film_alone():
    app = demonstrated()
    film = live(app).current.film
    edition = film.edition
    model_list(app).set_value("small").run()
    named(app, "Translate").click()
    sound(app.run())
    model_list(app).set_value(training.ENTRY).run()
    assert live(sound(app)).current.film.edition == edition
    assert film.probe.target == film.model.target_tokens(REVERSE.text[::-1])


def test_the_demonstration_is_watched_on_its_own_text_whatever_was_changed_before():
    app = page(changes="encoder.0.0:remove")
    app.button(key="demonstration_begin").click()
    sound(app.run())
    assert live(app).current.film.probe.target.labels[1:] == list(REVERSE.text[::-1])
    assert typed(app, "target") == ""


def named(app, label):
    return next(each for each in app.button if each.label == label)
