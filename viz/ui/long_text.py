"""Job of a long text, beside its pass: maps of all heads, a head at a time, and then the checks.

The page shows at once what is asked for, and the rest as it comes; the next text cancels it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from model.message import Message
from viz.components.progress import progress
from viz.components.view import View, live
from viz.i18n.catalogue import _, ngettext
from viz.i18n.errors import translate_error
from viz.i18n.format import bytes_text
from viz.jobs import TableJob, TableTask
from viz.state.session import Session, current_session
from viz.ui.job_view import LiveRegion, job_words

if TYPE_CHECKING:
    from model.analysis.attention_maps import Maps
    from model.analysis.checks import Check
    from model.analysis.finite import NotFinite
    from model.capture.trace import Trace

KEY = "long_text"
SOON = 1 << 25  # cells of all maps of a text, above which they are not waited for: about a second
HEAD, COMBINED, CHECKS, CHANGES = "head", "combined", "checks", "changes"  # first parts of tasks' keys


class Checked(NamedTuple):
    """Checks of a trace, and its tensors that are not finite."""

    checks: Sequence[Check]
    odd: NotFinite | None


class LongTextJob(TableJob):
    """Job of one trace. paused: by the visitor, and not because nobody looked. chosen: the head that is shown
    large, behind its key.
    """

    patience = 20.0
    paused = False
    chosen: tuple[Any, Any] = None, None

    def __init__(self, session: Session, trace: Trace, tasks: Sequence[TableTask], values: Mapping[Any, Any]) -> None:
        self.trace = trace
        every = all_maps(trace)
        self.largest = max(every, key=lambda maps: maps.queries * maps.keys)
        self.cells = sum(maps.cells for maps in every)
        self.heads = sum(task.key[0] == HEAD for task in tasks)
        work = partial(checked, trace, self.largest, weakref.ref(self))  # weak: it would keep the trace in memory
        checking = TableTask((CHECKS,), sum(maps.layers * maps.heads for maps in every), work)
        compared: list[TableTask] = []
        if (comparison := session.comparison) is not None:
            compared = [TableTask((CHANGES, comparison.pinned), self.heads or 1, lambda: comparison.changes is None)]
        wanted = {task.key for task in tasks}
        # A combination is large: only the wanted one stays.
        known_values = {key: value for key, value in values.items() if key[0] != COMBINED or key in wanted}
        super().__init__([*tasks, checking, *compared], known_values)

    def compute(self) -> None:
        from model.runtime.room import asking

        with asking():
            super().compute()

    @property
    def keys(self) -> list[Any]:
        """Keys of its tasks."""
        return [task.key for task in self.tasks]

    @property
    def drawn(self) -> int:
        """Number of heads that are computed."""
        return sum(key in self.values for key in self.keys if key[0] == HEAD)

    @property
    def combined(self) -> bool:
        """True if several heads together are there, where they are wanted."""
        return any(key in self.values for key in self.keys if key[0] == COMBINED)

    @property
    def compared(self) -> bool:
        """True if all is there that the pin asks for."""
        return all(key in self.values for key in self.keys if key[0] == CHANGES)

    def pause(self) -> None:
        self.paused = True
        self.cancel()

    def continued(self) -> LongTextJob:
        """It goes on, unless it was paused: nobody had looked for a while, or the text was another for a moment."""
        if not self.paused:
            self.start()
        return self

    @property
    def sentence(self) -> Message:
        drawn = self.drawn
        if drawn < self.heads:
            return Message("{done} of {count} head", plural="{done} of {count} heads", done=drawn, count=self.heads)
        return Message("checks follow") if (CHECKS,) not in self.values else Message("what changed follows")


def checked(trace: Trace, largest: Maps, job: weakref.ref[LongTextJob]) -> Checked:
    """The checks of a trace. job: which is told how far they are.

    Raises:
        ValueError: there is no room for its largest map.
    """
    from model.analysis.checks import checks
    from model.analysis.finite import first_not_finite

    def count(heads: int) -> None:
        if (going := job()) is not None:
            going.advance(heads)

    largest.require_room()
    return Checked(checks(trace, count), first_not_finite(trace))


def all_maps(trace: Trace) -> list[Maps]:
    """Maps of each kind of attention that a trace has."""
    from model.analysis.attention_maps import Maps

    return [Maps(trace, kind) for kind in trace.attention_kinds]


def is_very_long(session: Session) -> bool:
    """True if the maps of the shown text are not waited for; while a model is trained, they are."""
    if session.traced_input is None or session.training.step is not None:
        return False
    return sum(maps.cells for maps in all_maps(session.trace)) > SOON


def long_text_job(
    session: Session, tasks: Sequence[TableTask] | None = None, values: Mapping[Any, Any] = {}
) -> LongTextJob:
    """Job of the shown text, begun where there is none yet.

    tasks: what the page wants of it; None: what it has. values: those that are known already; what was computed before
    stays.
    """
    before: LongTextJob | None = session.long_text_job
    if before is not None:
        if before.trace is session.trace:
            pinned = session.comparison and session.comparison.pinned
            wanted = [task.key for task in tasks] if tasks is not None else None
            own = [key for key in before.keys if key[0] not in (CHECKS, CHANGES)]
            same_pin = [key[1] for key in before.keys if key[0] == CHANGES] == [pinned][: pinned is not None]
            if (wanted is None or set(wanted) == set(own)) and same_pin:
                before.values.update({key: value for key, value in values.items() if key not in before.values})
                return before.continued()
            values = {**before.values, **values}
            tasks = before.tasks[: len(own)] if tasks is None else tasks
        before.cancel()
    job = session.long_text_job = LongTextJob(session, session.trace, tasks or (), values)
    return job


def bar(session: Session) -> View:
    """Progress bar with a button to pause, or to go on; None where there is nothing to wait for."""
    job: LongTextJob | None = session.long_text_job
    if not is_very_long(session) or job is None or job.trace is not session.trace:
        return progress(KEY, None, "")
    job.continued().look(session.wake_for_job)
    if not job.ended and not job.paused:
        memory = _("one map at a time takes {one}, all would be {every}")
        memory = memory.format(one=bytes_text(job.largest.memory), every=bytes_text(4 * job.cells))
        return progress(KEY, job.share, f"{job_words(job)} · {memory}", (_("Cancel"), on_cancel))
    if job.error:
        return progress(KEY, None, _("Not computed: {reason}").format(reason=translate_error(job.error)))
    if not job.paused:
        return progress(KEY, None, "")
    drawn, text = job.drawn, _("Cancelled before the checks were made")
    if drawn < job.heads:
        text = ngettext(
            "Cancelled: {done} of {count} head is drawn; press it to see it",
            "Cancelled: {done} of {count} heads are drawn; press another one to see it",
            job.heads,
        )
    return progress(KEY, None, text.format(done=drawn, count=job.heads), (_("Go on"), on_go_on))


def bars(session: Session) -> list[View]:
    """The bar, where something is to be waited for, or it is on the page."""
    return [bar(session)] if session.long_text_job is not None or KEY in session.views else []


@live
def on_cancel(_pressed: bool) -> None:
    if (job := current_session().long_text_job) is not None:
        job.pause()


@live
def on_go_on(_pressed: bool) -> None:
    if (job := current_session().long_text_job) is not None:
        job.wait(5.0)
        job.paused = False
        job.start()


def watch_job(session: Session, view: Callable[[], View | None]) -> None:
    """Draw a view again as long as it goes on. view: None where nothing is new in it."""
    job: LongTextJob | None = session.long_text_job
    if job is None or job.trace is not session.trace or job.ended:
        return

    def state() -> tuple[bool, ...]:
        now: LongTextJob | None = session.long_text_job
        return (True,) if now is None else (now.ended, now.paused, now.combined)

    session.live_regions.append(LiveRegion(state, state(), lambda: [bar_view for bar_view in [view()] if bar_view]))
