"""What a page file has of places that are closed on the page: their content, and no more than there is room for."""

from __future__ import annotations

from tests.app_reading import opened, sound
from viz.state.session import Key


def test_a_run_for_a_page_file_draws_what_is_closed_and_the_next_no_longer():
    app = sound(opened("masks", source="<img src=x onerror=alert(1)> &"))
    assert not any("<table" in each.proto.body for each in app.get("html"))
    before = [each.value for each in app.markdown]
    app.session_state[Key.SESSION].saving = 7
    sound(app.run())
    assert app.session_state[Key.SESSION].saving == 0
    assert any("section 3.2.3" in each.value for each in app.markdown)
    assert app.latex
    tables = [
        each.proto.body for each in app.get("html") if "saved_table" in each.proto.body and "<table" in each.proto.body
    ]
    assert tables
    assert not any("<img" in each for each in tables)
    sound(app.run())
    assert [each.value for each in app.markdown] == before
