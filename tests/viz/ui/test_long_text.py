"""What a long text takes beside its pass: it comes by itself, can be cancelled and gone on with, and ends with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from model.analysis.checks import checks
from model.runtime import cancellation
from tests.viz.components.test_registry import unpack
from tests.viz.small import looking, small_model
from viz.frame import token_bar
from viz.jobs import TableTask
from viz.state import texts
from viz.state.serving import serving
from viz.state.session import Session
from viz.ui import long_text
from viz.ui.long_text import CHECKS, HEAD, LongTextJob, long_text_job, watch_job


@pytest.fixture
def session(tmp_path, monkeypatch) -> Iterator[Session]:
    monkeypatch.setattr(long_text, "SOON", 0)
    made = looking(small_model(tmp_path / "small"), "The cat sees.")
    with serving(made):
        yield made


class Held:
    """Two heads, of which the second waits until it may come or is not wanted."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.computed: list[int] = []

    def tasks(self) -> list[TableTask]:
        return [TableTask((HEAD, 0, head), 1, lambda head=head: self.compute(head)) for head in (0, 1)]

    def compute(self, head: int) -> int:
        if head:
            self.begun.set()
            while not self.go.wait(0.01):
                cancellation.check()
        self.computed.append(head)
        return head


def bar(session: Session) -> dict[str, object]:
    return unpack(long_text.bar(session).data)[0]


def ended(job: LongTextJob) -> None:
    assert job.wait(20)


def test_heads_come_first_and_then_the_checks_of_this_trace(session):
    held = Held()
    job = long_text_job(session, held.tasks())
    assert held.begun.wait(20)
    shown = bar(session)
    assert shown["button"] == "Cancel"
    assert "1 of 2 heads" in str(shown["text"])
    assert "all would be" in str(shown["text"])  # the forecast
    badges = unpack(token_bar.token_bar(session).data)[0]["badges"]
    assert [badge["text"] for badge in badges] == ["checks follow"]
    held.go.set()
    ended(job)
    assert job.values[(CHECKS,)].checks == checks(session.trace)
    assert bar(session)["text"] == ""
    badges = unpack(token_bar.token_bar(session).data)[0]["badges"]
    assert all(badge["passed"] for badge in badges)


def test_cancelled_keeps_what_is_there_and_goes_on(session):
    held = Held()
    job = long_text_job(session, held.tasks())
    assert held.begun.wait(20)
    long_text.on_cancel(True)
    ended(job)
    assert job.values == {(HEAD, 0, 0): 0}
    shown = bar(session)
    assert (shown["text"], shown["button"]) == (
        "Cancelled: 1 of 2 heads are drawn; press another one to see it",
        "Go on",
    )
    badges = unpack(token_bar.token_bar(session).data)[0]["badges"]
    assert [(badge["text"], badge["passed"]) for badge in badges] == [("not checked: cancelled", None)]
    assert long_text_job(session, held.tasks()) is job
    assert job.ended  # looking at it does not begin it again
    held.go.set()
    long_text.on_go_on(True)
    ended(job)
    assert held.computed == [0, 1]
    assert (CHECKS,) in job.values


def test_a_keystroke_ends_it_at_once(session):
    held = Held()
    job = long_text_job(session, held.tasks())
    assert held.begun.wait(20)
    began = time.monotonic()
    texts.accept_edit(session, "source", "The dog sees.", 1)
    ended(job)
    assert time.monotonic() - began < 5
    assert not job.paused
    texts.trace_fields(session, session.model)
    assert bar(session) == {"share": None, "text": "", "button": ""}  # nothing of the text before
    assert long_text_job(session).trace is session.trace


def test_what_only_nobody_looked_at_goes_on_by_itself(session):
    held = Held()
    job = long_text_job(session, held.tasks())
    assert held.begun.wait(20)
    job.cancel()
    ended(job)
    held.go.set()
    assert long_text_job(session) is job
    ended(job)
    assert held.computed == [0, 1]


def test_another_view_keeps_what_is_known(session):
    first, second = Held(), Held()
    second.go.set()
    job = long_text_job(session, first.tasks())
    assert first.begun.wait(20)
    other = long_text_job(session, [TableTask((HEAD, 0, 2), 1, lambda: 2), *second.tasks()])
    assert other is not job
    ended(job)
    ended(other)
    assert second.computed == [1]  # the first head was there
    assert other.values[(HEAD, 0, 0)] == 0


def test_a_failure_is_said(session):
    def fails() -> None:
        raise ValueError("no room")

    ended(long_text_job(session, [TableTask((HEAD, 0, 0), 1, fails)]))
    assert bar(session)["text"] == "Not computed: no room"


def test_the_script_follows_it_until_it_is_there(session):
    held = Held()
    job = long_text_job(session, held.tasks())
    watch_job(session, lambda: None)
    (region,) = session.live_regions
    assert not region.is_old
    held.go.set()
    ended(job)
    assert region.is_old
    watch_job(session, lambda: None)
    assert session.live_regions == [region]
