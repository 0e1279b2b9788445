"""A job as a page shows it: how far it is, the time that is left, a button that cancels it, why it failed.

And what else goes on beside a page.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from viz.components.progress import progress
from viz.components.view import View
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, duration, literal
from viz.i18n.messages import filled
from viz.jobs import Job, TableJob
from viz.state.session import current_session

AT_ONCE = 0.12  # seconds that a page waits for a small file
LONG = 5.0  # seconds that are left, from which on there is a button to cancel what a table measures


@dataclass(frozen=True)
class LiveRegion:
    """Part of a page that goes on without the script: the channel draws its views again and again.

    state: of what only the script draws; where it is another than `drawn`, the script runs again.
    """

    state: Callable[[], Hashable]
    drawn: Hashable
    views: Callable[[], Sequence[View]] = tuple

    @property
    def is_old(self) -> bool:
        """True if the script is to draw it again."""
        return self.state() != self.drawn


def watch(region: LiveRegion) -> None:
    """Draw its views here, and follow it as long as this page is shown."""
    current_session().live_regions.append(region)
    for view in region.views():
        view()


def show_job(
    job: Job[Any],
    key: str,
    cancel: str,
    *,
    on_cancel: Callable[[], None] | None = None,
    state: Callable[[], Hashable] = lambda: None,
) -> bool:
    """Progress of a job, with a button that cancels it; or the reason why it failed. True while it goes on.

    key: of its bar; its button has `key`_cancel. cancel: the button's word. state: where it changes, the script runs
    again, as at the job's end.
    """
    drawn = job.ended, job.cancelled, state()
    if drawn[0]:
        if job.error:
            st.error(as_sentence(translate_error(job.error)))
        return False

    def views() -> Sequence[View]:
        return [view for view in [job_bar(key, job)] if view is not None]

    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(cancel, key=f"{key}_cancel", on_click=on_cancel or job.cancel, disabled=job.cancelled)
        watch(LiveRegion(lambda: (job.ended, job.cancelled, state()), drawn, views))
    return True


def job_bar(key: str, job: Job[Any]) -> View | None:
    """Progress bar of a job, until it ends."""
    job.look(current_session().wake_for_job)
    return None if job.ended else progress(key, job.share, job_words(job))


def job_progress(job: Job[Any]) -> dict[str, Any] | None:
    """Progress for a figure that shows it itself; None at the end."""
    return None if job.ended else {"share": job.share, "text": job_words(job)}


def job_words(job: Job[Any]) -> str:
    """Progress of a job, and the time that is left, as far as that is known."""
    sentence, left = job.sentence, job.seconds_left
    words = ["" if sentence is None else filled(sentence), "" if left is None else remaining(left)]
    return " · ".join(filter(None, words))


def remaining(seconds: float) -> str:
    """The time that is left of a job."""
    return _("{time} left").format(time=duration(max(1.0, seconds)))


def follow(
    tables: Sequence[TableJob], view: Callable[[], View | None], also: Callable[[], Hashable] = lambda: None
) -> bool:
    """Draw what is known while tables are being filled, with buttons to cancel what takes long and to go on.

    view: made in any thread; None where there is nothing to be seen. also: where it changes, the script runs again.
    Returns whether one still goes on.
    """
    for table in tables:
        table.look()
        table.wait(max(0.0, AT_ONCE - table.seconds))

    def state() -> Hashable:
        return [(each.ended, each.cancelled, is_long(each), bool(each.error)) for each in tables], also()

    def views() -> Sequence[View]:
        for table in tables:
            table.look(wake)
        return [region for region in [view()] if region is not None]

    drawn, wake = state(), current_session().wake_for_job
    if going := not all(each.ended for each in tables):
        watch(LiveRegion(state, drawn, views))
    elif region := view():
        region()
    for number, table in enumerate(tables):
        buttons(table, number)
    return going


def is_long(job: Job[Any]) -> bool:
    """True if it goes on for so long that somebody may want to cancel it."""
    return not job.ended and (job.seconds_left or 0.0) > LONG


def buttons(table: TableJob, number: int) -> None:
    """Buttons to cancel a long job or to go on with it, beside its progress, and what could not be read."""
    if is_long(table):
        st.button(_("Stop measuring"), on_click=table.cancel, key=f"stop_measuring_{number}")
    if table.ended and table.cancelled:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button(_("Measure the rest"), on_click=table.start, key=f"go_on_measuring_{number}")
            st.caption(literal(job_words(table)))
    if table.error:
        st.caption(_("Not measured: {reason}").format(reason=literal(translate_error(table.error))))
