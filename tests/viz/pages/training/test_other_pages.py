"""Whatever page is open while a model is trained: what it shows is of the newest step."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from tests.app_reading import body, model_list, opened, sound
from tests.viz.pages.training.training_page import demonstrated, live
from viz.state import training

VIEWS = {
    "map": "model_map",
    "attention": "head_grid",
    "residual": "chart",
    "feed_forward": "heatmap",
    "predictions": "ranking",
}


def views(app: AppTest) -> dict[str, tuple[str, bytes]]:
    """What each browser component was sent, by its place: its name, and the data without its stamp."""
    found = [each.proto for each in sound(app).get("bidi_component") if each.proto.WhichOneof("data") == "bytes"]
    return {proto.id: (proto.component_name.removeprefix("vitrine_"), body(proto.bytes)) for proto in found}


def test_the_open_view_is_of_the_newest_step():
    run = demonstrated().session_state["session"].training.run
    for page, drawn in VIEWS.items():
        app = opened(page, run=run)
        model_list(app).set_value(training.ENTRY).run()
        given = live(app)
        given.rewind(given.current.film.key_frames[0])
        live(app)
        before = views(app.run())
        given.advance(1)
        live(app)
        after = views(app.run())
        session = app.session_state["session"]
        assert session.training.step == 1
        assert session.trace is given.view().trace
        changed = {name for place, (name, data) in after.items() if before.get(place, ("", b""))[1] != data}
        assert drawn in changed, (page, changed)


def test_the_model_in_training_is_evaluated_as_it_stands():
    run = demonstrated().session_state["session"].training.run
    app = opened("checkpoints", run=run, checkpoints_part="evaluate", evaluate_from="paste")
    model_list(app).set_value(training.ENTRY).run()
    given = live(app)
    given.rewind(given.current.film.key_frames[0])
    live(app)
    app.run().text_area(key="evaluate_paste").set_value("ab\tba\nabc\tcba\n").run()
    model = given.view().model
    app.button(key="evaluate_begin").click().run()
    job = app.session_state["evaluate_job"].job
    assert job.wait(60)
    assert "step 0" in app.session_state["evaluate_job"].name
    assert list(job.written.values()) == [made.text for made in model.generate_batch(["ab", "abc"])]
    given.advance(1)
    live(app)
    sound(app.run().run())
    assert any("begun before" in each.value for each in app.caption)  # the weights are others now
