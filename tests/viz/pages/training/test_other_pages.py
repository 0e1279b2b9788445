"""Whatever page is open while a model is trained: what it shows is of the newest step."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from tests.app_reading import body, opened, sound
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
    run = demonstrated().session_state["session"].run
    for page, drawn in VIEWS.items():
        app = opened(page, run=run)
        app.selectbox(key="model").set_value(training.ENTRY).run()
        given = live(app)
        given.rewind(given.current.film.key_frames[0])
        live(app)
        before = views(app.run())
        given.advance(1)
        live(app)
        after = views(app.run())
        session = app.session_state["session"]
        assert session.step == 1
        assert session.trace is given.view().trace
        changed = {name for place, (name, data) in after.items() if before.get(place, ("", b""))[1] != data}
        assert drawn in changed, (page, changed)
