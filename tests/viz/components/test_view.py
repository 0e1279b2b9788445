"""A view: the stamp before its bytes, and what a click on it does where the script answers."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from tests.app_reading import body
from tests.viz.frame.window import stamp
from tests.viz.no_server import no_server
from viz.components import registry
from viz.components.registry import pack
from viz.components.view import PackedView, live
from viz.state.serving import serving
from viz.state.session import Key, Session


def unmounted(**_given: Any) -> None:
    raise AssertionError("the channel mounts nothing")


@pytest.fixture
def session():
    """The current one, where no script runs."""
    session = Session()
    with serving(session):
        yield session


def drawn(key: str, text: str, **acts: Any) -> PackedView:
    return PackedView(unmounted, key, pack({"text": text}), acts)


def moment(key: str, text: str) -> int:
    return stamp(drawn(key, text).frame())["moment"]


@pytest.mark.usefixtures("session")
def test_a_frame_is_the_bytes_behind_a_stamp_and_they_stay_aligned():
    for key in ("a", "ab", "abcdefghi", "键"):
        shown = drawn(key, "text")
        frame = shown.frame()
        assert stamp(frame)["key"] == key
        assert body(frame) == shown.data
        assert (len(frame) - len(shown.data)) % 8 == 0


@pytest.mark.usefixtures("session")
def test_a_moment_grows_when_the_bytes_change_and_stays_when_they_are_the_same():
    moments = [moment("one", text) for text in ("a", "a", "b", "b", "a")]
    assert moments[0] == moments[1] < moments[2] == moments[3] < moments[4]  # what was before is drawn anew
    other = moment("two", "a")
    assert other > moments[4]
    assert (moment("one", "a"), moment("two", "a")) == (moments[4], other)


@pytest.mark.usefixtures("session")
def test_a_later_session_draws_later():
    """Its window may have what an earlier one drew."""
    first = moment("one", "a")
    time.sleep(0.01)
    with serving(Session()):
        assert moment("one", "a") > first


@pytest.mark.usefixtures("session")
def test_the_channel_answers_what_is_marked_and_nothing_else():
    @live
    def marked(_clicked: Any) -> None: ...

    @live
    def of_model(_model: str, _clicked: Any) -> None: ...

    def plain(_clicked: Any) -> None: ...

    acts = {"row": marked, "act": plain, "made": partial(of_model, "small"), "plain": partial(print, "small")}
    assert stamp(drawn("one", "text", **acts, none=None).frame())["live"] == ["row", "made"]
    assert stamp(drawn("one", "text").frame())["live"] == []


def test_a_click_that_comes_by_the_script_is_answered_with_what_was_clicked(monkeypatch):
    fake = no_server(monkeypatch, registry)
    session = fake.session_state[Key.SESSION] = Session()
    with serving(session):
        session.address.set("layer", "3")  # the channel did
    assert fake.query_params == {}
    mounted: dict[str, Any] = {}
    clicked: list[Any] = []
    shown = PackedView(lambda **given: mounted.update(given), "one", pack({}), {"row": clicked.append, "cell": None})
    shown()
    assert (mounted["key"], body(mounted["data"])) == ("one", shown.data)
    assert session.views == {"one": shown}
    fake.session_state["one"] = {"row": {"number": 5}, "cell": {"number": 6}}
    mounted["on_row_change"]()
    mounted["on_cell_change"]()  # only the browser needs it
    assert clicked == [{"number": 5}]
    assert fake.query_params == {"layer": "3"}
