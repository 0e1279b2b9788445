"""A job on a page: its words, its bar, the buttons that cancel it and let it go on, and when the script runs again."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from model.message import Message
from model.runtime import cancellation
from tests.viz.components.test_registry import unpack
from tests.viz.no_server import no_server
from tests.viz.test_jobs import Clock, Work
from viz.components.view import View
from viz.i18n.catalogue import use
from viz.i18n.format import duration
from viz.jobs import KNOWN_AFTER, TableJob, TableTask
from viz.state.serving import serving
from viz.state.session import Session, current_session
from viz.ui.job_view import LONG, follow, job_bar, job_words, remaining


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s left"), (41.6, "42 s left"), (89, "89 s left"), (90, "2 min left"), (922, "15 min left")],
)
def test_remaining_time_is_in_minutes_from_ninety_seconds_on(seconds, words):
    assert remaining(seconds) == words


def test_a_long_time_is_in_hours_or_days():
    assert [duration(seconds) for seconds in (5399, 5400, 200_000)] == ["1 h 29 min", "1 h 30 min", "2 days"]
    use("zh")
    assert remaining(922) == "剩余 15 分钟"
    use("en")


def test_a_bar_says_how_far_it_is_and_then_how_long_it_takes():
    clock = Clock()
    with serving(Session()):
        job = TableJob([TableTask("a", 100, lambda: 1), TableTask("b", 300, threading.Event().wait)], clock=clock)
        while not job.values:
            job.wait(0.001)
        assert unpack(job_bar("bar", job).data)[0]["text"] == "measured 1 of 2"
        clock.now += KNOWN_AFTER
        job._began -= 10
        assert unpack(job_bar("bar", job).data)[0] | {"button": ""} == {
            "share": 0.25,
            "text": "measured 1 of 2 · 29 s left",
            "button": "",
        }
        assert job_words(SimpleNamespace(seconds_left=None, sentence=Message("checks follow"))) == "checks follow"
        job.cancel()


def test_windows_are_woken_by_a_job_that_they_show_and_no_session_is_kept_for_it():
    session, job = Session(), Work(total=2.0)
    woken = threading.Event()
    session.channels.add(woken.set)
    with serving(session):
        job_bar("bar", job)
    job.advance(1.0)
    assert woken.is_set()
    assert session.job_news
    with serving(session):
        job_bar("bar", job)
    gone = session.token
    del session
    from viz.state.session import SESSIONS

    assert gone not in SESSIONS
    job.go.set()
    assert job.wait(20)  # it calls whoever has gone


def test_a_page_is_watched_until_all_values_are_there_and_drawn_again_where_its_buttons_change(monkeypatch):
    no_server(monkeypatch)
    monkeypatch.setattr("viz.ui.job_view.AT_ONCE", 0)
    go, clock = threading.Event(), Clock()
    table = TableJob([TableTask("a", 1, lambda: 1), TableTask("b", 1, lambda: go.wait(20))], clock=clock)
    drawn: list[int] = []

    def view() -> View | None:
        drawn.append(len(table.values))
        return job_bar("bar", table)

    while not table.values:
        table.wait(0.001)
    assert follow([table], view, lambda: "b" in table.values)
    (region,) = current_session().live_regions
    assert not region.is_old
    assert [shown.key for shown in region.views()] == ["bar"]
    clock.now += 2 * LONG + KNOWN_AFTER
    table._advanced = clock.now
    assert region.is_old  # there is a button to cancel it
    go.set()
    assert table.wait(20)
    assert region.is_old
    assert list(region.views()) == []
    current_session().live_regions.clear()
    assert not follow([table], view)
    assert current_session().live_regions == []
    assert drawn == [1, 1, 2, 2]


JOBS: list[Any] = []


def script() -> None:
    import streamlit as st

    from tests.viz.ui.test_job_view import JOBS
    from viz.ui.job_view import show_job

    st.text("it goes on" if show_job(JOBS[0], "bar", "Cancel") else "it has ended")


@pytest.mark.parametrize("end", ["result", "error", "cancel"])
def test_the_widget_has_a_button_that_cancels_and_says_what_failed(end):
    job = Work(ValueError("d_ff (0) must be at least 1") if end == "error" else None)
    JOBS[:] = [job]
    app = AppTest.from_function(script, default_timeout=60).run()
    assert app.text[0].value == "it goes on"
    button = app.button(key="bar_cancel")
    if end == "cancel":
        button.click().run()
    else:
        job.go.set()
    assert job.wait(20)
    app.run()
    assert not app.exception
    assert app.text[0].value == "it has ended"
    assert [each.value for each in app.error] == (["d_ff (0) must be at least 1."] if end == "error" else [])
    assert not app.button


def table_script() -> None:
    from tests.viz.ui.test_job_view import JOBS
    from viz.ui.job_view import follow

    follow([JOBS[0]], lambda: None)


def test_a_table_that_is_cancelled_says_how_far_it_is_beside_the_button_that_goes_on():
    def endless() -> None:
        while True:
            cancellation.check()

    job = TableJob([TableTask("a", 1, lambda: 1), TableTask("b", 1, endless)])
    JOBS[:] = [job]
    while not job.values:
        job.wait(0.001)
    job.cancel()
    assert job.wait(20)
    app = AppTest.from_function(table_script, default_timeout=60).run()
    assert [button.label for button in app.button] == ["Measure the rest"]
    assert [caption.value for caption in app.caption] == ["measured 1 of 2"]
