"""Script, channel and saved page draw a figure through one door: the bytes are the same."""

from __future__ import annotations

import json

import pytest

from tests.app_reading import opened, sound
from tests.viz.components.test_registry import unpack
from viz.frame import drawing
from viz.i18n import catalogue
from viz.pages.attention.page import Part
from viz.state.serving import serving
from viz.state.session import Key

FIGURES = (Part.HEADS, Part.HEAD, Part.STAGES, Part.VECTORS)


@pytest.fixture(scope="module")
def app():
    return sound(opened("attention", source="I am a teacher.", target="我是老师。", language="zh"))


def test_the_channel_sends_what_the_script_mounts(app):
    session = app.session_state[Key.SESSION]
    mounted = {key: session.views[key].data for key in FIGURES}
    with serving(session), catalogue.speaking(session.stage.language):
        sent = {view.key: view.data for group, _more in drawing.frames(session, session.stage) for view in group}
    assert {key: sent[key] for key in FIGURES} == mounted


def test_a_saved_page_shows_at_a_click_on_the_chosen_head_what_is_shown_of_it(app):
    session = app.session_state[Key.SESSION]
    session.saving = 1
    sound(app.run())
    header, arrays = unpack(session.views["learnt"].data)
    chosen = session.fit_selection(3, 8, 99)
    click = f"{Part.HEADS} head {json.dumps({'layer': chosen.layer, 'head': chosen.head}, separators=(',', ':'))}"
    saved = {
        shown: array.tobytes() for (by, shown), array in zip(header["choices"], arrays, strict=True) if by == click
    }
    assert saved == {key: session.views[key].data for key in FIGURES[1:]}
