"""What a long text takes beside its pass: maps of all heads, a head at a time, and then the checks, in a thread.

The page shows at once what is asked for, and the rest as it comes; the next text ends it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from viz.components.progress import progress
from viz.components.view import View, live
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import bytes_text
from viz.state.session import Session, current_session
from viz.ui.background import Filling, Job, Watched

if TYPE_CHECKING:
    from model.analysis.attention_maps import Maps
    from model.analysis.checks import Check
    from model.analysis.finite import NotFinite
    from model.capture.trace import Trace

KEY = "long_text"
SOON = 1 << 25  # cells of all maps of a text, above which they are not waited for: about a second
HEAD, COMBINED, CHECKS, CHANGES = "head", "combined", "checks", "changes"  # what a job's key begins with


class Checked(NamedTuple):
    """What was checked of a trace, and what of it is not finite."""

    checks: Sequence[Check]
    odd: NotFinite | None


class RestOfText(Filling):
    """What one trace takes. cancelled: by the visitor, and not because nobody looked. chosen: the head that is shown
    large, behind its key.
    """

    patience = 20.0
    cancelled = False
    chosen: tuple[Any, Any] = None, None

    def __init__(self, session: Session, trace: Trace, jobs: Sequence[Job], found: Mapping[Any, Any]) -> None:
        self.trace = trace
        every = all_maps(trace)
        self.largest = max(every, key=lambda maps: maps.queries * maps.keys)
        self.cells = sum(maps.cells for maps in every)
        self.heads = sum(key[0] == HEAD for key, _size, _compute in jobs)
        work = partial(checked, trace, self.largest, weakref.ref(self))  # weak: it would keep the trace in memory
        checking: Job = (CHECKS,), sum(maps.layers * maps.heads for maps in every), work
        compared: list[Job] = []
        if (comparison := session.comparison) is not None:
            compared = [((CHANGES, comparison.pinned), self.heads or 1, lambda: comparison.changes is None)]
        wanted = {key for key, _size, _compute in jobs}
        kept = {key: value for key, value in found.items() if key[0] != COMBINED or key in wanted}  # which is large
        super().__init__([*jobs, checking, *compared], kept)

    def _work(self) -> None:
        from model.runtime.room import asking

        with asking():
            super()._work()

    @property
    def keys(self) -> list[Any]:
        """What its jobs are."""
        return [key for key, _size, _compute in self._jobs]

    @property
    def drawn(self) -> int:
        """How many heads are there."""
        return sum(key in self.found for key in self.keys if key[0] == HEAD)

    @property
    def combined(self) -> bool:
        """Whether several heads together are there, where they are wanted."""
        return any(key in self.found for key in self.keys if key[0] == COMBINED)

    @property
    def compared(self) -> bool:
        """Whether all is there that the pin asks for."""
        return all(key in self.found for key in self.keys if key[0] == CHANGES)

    def cancel(self) -> None:
        self.cancelled = True
        self.stop()

    def continued(self) -> RestOfText:
        """It goes on, unless it was cancelled: nobody had looked for a while, or the text was another for a moment."""
        if not self.cancelled:
            self.go_on()
        return self

    def words(self, left: float | None) -> str:
        drawn = self.drawn
        parts = [_("{done} of {all} heads").format(done=drawn, all=self.heads)] if drawn < self.heads else []
        parts = parts or [_("checks follow") if (CHECKS,) not in self.found else _("what changed follows")]
        if left is not None:
            parts.append(_("{seconds} s left").format(seconds=f"{max(1, left):.0f}"))
        taken = _("one map at a time takes {one}, all would be {every}")
        parts.append(taken.format(one=bytes_text(self.largest.memory), every=bytes_text(4 * self.cells)))
        return " · ".join(parts)


def checked(trace: Trace, largest: Maps, rest: weakref.ref[RestOfText]) -> Checked:
    """The checks of a trace. rest: which is told how far they are.

    Raises:
        ValueError: there is no room for its largest map.
    """
    from model.analysis.checks import checks
    from model.analysis.finite import first_not_finite

    def count(heads: int) -> None:
        if (told := rest()) is not None:
            told.advance(heads)

    largest.require_room()
    return Checked(checks(trace, count), first_not_finite(trace))


def all_maps(trace: Trace) -> list[Maps]:
    """Maps of each kind of attention that a trace has."""
    from model.analysis.attention_maps import Maps
    from model.capture.trace import AttentionKind

    return [Maps(trace, kind) for kind in get_args(AttentionKind) if trace.attention_paths(kind)]


def is_very_long(session: Session) -> bool:
    """Whether the maps of the shown text are not waited for; while a model is trained, they are."""
    if session.shown is None or session.training.step is not None:
        return False
    return sum(maps.cells for maps in all_maps(session.trace)) > SOON


def rest_of_text(session: Session, jobs: Sequence[Job] | None = None, found: Mapping[Any, Any] = {}) -> RestOfText:
    """What is computed of the shown text, begun where it is not yet.

    jobs: what the page wants of it; None: what it has. found: what is known already; what was found before stays.
    """
    before: RestOfText | None = session.rest
    if before is not None:
        if before.trace is session.trace:
            pinned = session.comparison and session.comparison.pinned
            wanted = [key for key, _size, _compute in jobs] if jobs is not None else None
            own = [key for key in before.keys if key[0] not in (CHECKS, CHANGES)]
            same_pin = [key[1] for key in before.keys if key[0] == CHANGES] == [pinned][: pinned is not None]
            if (wanted is None or set(wanted) == set(own)) and same_pin:
                before.found.update({key: value for key, value in found.items() if key not in before.found})
                return before.continued()
            found = {**before.found, **found}
            jobs = before._jobs[: len(own)] if jobs is None else jobs
        before.stop()
    rest = session.rest = RestOfText(session, session.trace, jobs or (), found)
    return rest


def rest_bar(session: Session) -> View:
    """How far it is, with a button to cancel it, or to go on; nothing where nothing is to be waited for."""
    rest: RestOfText | None = session.rest
    if not is_very_long(session) or rest is None or rest.trace is not session.trace:
        return progress(KEY, None, "")
    told = rest.continued().progress
    if told is not None and not rest.cancelled:
        return progress(KEY, told["share"], told["text"], (_("Cancel"), on_cancel))
    if rest.failed:
        reason = translate_error(next(iter(rest.failed.values())))
        return progress(KEY, None, _("Not computed: {reason}").format(reason=reason))
    if not rest.cancelled:
        return progress(KEY, None, "")
    drawn, text = rest.drawn, _("Cancelled before the checks were made")
    if drawn < rest.heads:
        text = _("Cancelled: {done} of {all} heads are drawn; a click on another one shows it")
    return progress(KEY, None, text.format(done=drawn, all=rest.heads), (_("Go on"), on_go_on))


def rest_bars(session: Session) -> list[View]:
    """The bar, where something is to be waited for, or it is on the page."""
    return [rest_bar(session)] if session.rest is not None or KEY in session.views else []


@live
def on_cancel(_pressed: bool) -> None:
    if (rest := current_session().rest) is not None:
        rest.cancel()


@live
def on_go_on(_pressed: bool) -> None:
    if (rest := current_session().rest) is not None:
        rest.wait_for_end(5.0)
        rest.cancelled = False
        rest.go_on()


def watch_rest(session: Session, view: Callable[[], View | None]) -> None:
    """Draw a view again as long as it goes on. view: None where nothing is new in it."""
    rest: RestOfText | None = session.rest
    if rest is None or rest.trace is not session.trace or rest.finished:
        return

    def stands() -> tuple[bool, ...]:
        now: RestOfText | None = session.rest
        return (True,) if now is None else (now.finished, now.cancelled, now.combined)

    session.watched.append(Watched(stands, stands(), lambda: [shown for shown in [view()] if shown]))
