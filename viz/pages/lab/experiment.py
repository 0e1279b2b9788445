"""Instruments of the laboratory, and the one way in which findings of these and of experiments are drawn.

An instrument has a claim of tutorials and what is true whatever is measured. Findings judge it, that are there at once,
follow the text, or come out of a measurement: begun by a button, seen growing, stopped, begun again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

import pandas as pd
import streamlit as st

from model.experiments.runner import Report, explained
from model.inference.text_model import TextModel
from model.message import Message
from model.runtime import cancellation
from model.runtime.errors import MissingQuantityError
from viz.i18n.catalogue import _
from viz.i18n.errors import absent_words, translate_error, unless_absent
from viz.i18n.format import as_sentence, literal
from viz.jobs import Job, Turns
from viz.render.view import FigureView
from viz.state.serving import by_channel
from viz.ui.job_view import show_job
from viz.ui.parts import Drawing, Placed, Views, data_table, expander, explanation, mount, no_views, under_figures

if TYPE_CHECKING:
    from streamlit.elements.lib.mutable_expander_container import ExpanderContainer

Result = TypeVar("Result")
MANY = 5  # sentences, above which they stand in two columns
WHOLE = 20  # rows of a table that needs no scrolling


@dataclass(frozen=True, kw_only=True)
class Instrument:
    """Claim of tutorials, what is true of it anyhow, and the ways to find it out by hand.

    key: what the keys of its lines begin with. parts: each draws its controls and gives a way of finding, or None where
    its controls hold nothing that can be tried; two stand side by side, widths: of them. plain: two sentences for a
    beginner. explanation: of the formulas, with the paper's section. code: what has run.
    """

    key: str
    claim: str
    truth: str
    parts: Sequence[Callable[[], Finding | None]]
    widths: Sequence[int] = (1, 1)
    plain: str
    formulas: Sequence[str]
    explanation: str
    code: Sequence[Any]

    def show(self) -> Views:
        claim_place, true = st.columns(2, gap="medium")
        claim_place.markdown(f"**{_('Tutorials say:')}** {self.claim}")
        true.markdown(f"**{_('More exactly:')}** {self.truth}")
        places = st.columns(self.widths, gap="large") if len(self.parts) > 1 else [st.container()]
        drawn = []
        for number, (place, part) in enumerate(zip(places, self.parts, strict=True)):
            with place:
                explain = None if number else self.explain
                if finding := part():
                    drawn.append(finding.show(self.key, explain))
                elif explain:
                    explain()
        return partial(together, drawn)

    def explain(self) -> None:
        explanation(f"{self.key}_explanation", self.plain, self.formulas, self.explanation, *self.code)


def together(drawn: Sequence[Views], model: TextModel) -> Drawing:
    """One part after the other; then what only the script draws of each."""
    rests = []
    for views in drawn:
        rests.append((yield from views(model)))

    def rest() -> None:
        for each in rests:
            if each:
                each()

    return rest


class Finding(Protocol):
    """A way of finding something out."""

    def show(self, key: str, explain: Callable[[], None] | None) -> Views:
        """Draw it here, and beneath it the line of its numbers and the experiment's explanation, where it has one."""


@dataclass(frozen=True)
class Titled:
    """A table under its title."""

    title: str
    table: pd.DataFrame


@dataclass(frozen=True)
class Findings:
    """Knowledge so far: sentences, rows of plots and tables under them, and every number behind these as a table.

    file: of the numbers. info: what cannot be known, and why.
    """

    verdicts: Sequence[str] = ()
    rows: Sequence[Sequence[FigureView | Titled | pd.DataFrame]] = ()
    numbers: Callable[[], pd.DataFrame] | None = None
    file: str = ""
    info: str = ""

    def draw(self) -> None:
        mount(self.placed())

    def placed(self) -> list[Placed]:
        """Plots in their places, among what the script has drawn here."""
        if self.info:
            st.info(self.info)
        if len(self.verdicts) > MANY:
            half = -(-len(self.verdicts) // 2)
            for place, lines in zip(st.columns(2), (self.verdicts[:half], self.verdicts[half:]), strict=True):
                place.text("\n".join(lines))
        elif self.verdicts:
            st.text("\n".join(self.verdicts))
        figures: list[Placed] = []
        for row in self.rows:
            places = st.columns(len(row), gap="medium") if len(row) > 1 else [st.container()]
            for place, element in zip(places, row, strict=True):
                if isinstance(element, FigureView):
                    figures.append((place, element))
                    continue
                with place:
                    if isinstance(element, Titled):
                        st.markdown(f"**{literal(element.title)}**")
                    show_table(element.table if isinstance(element, Titled) else element)
        return figures

    def draw_numbers(self, key: str, place: ExpanderContainer | None = None) -> None:
        if self.numbers:
            data_table(f"{key}_data", self.numbers, self.file, place=place)

    def show(self, key: str, explain: Callable[[], None] | None) -> Views:
        self.draw()
        self.draw_numbers(key, beneath(key, explain))
        return no_views


def beneath(key: str, explain: Callable[[], None] | None) -> ExpanderContainer:
    """The place of the numbers, beside the explanation where there is one."""
    return under_figures(explain, f"{key}_data") if explain else expander(f"{key}_data", _("Data"))


def show_table(table: pd.DataFrame) -> None:
    """Numbers that are not written out already have three digits."""
    three = st.column_config.NumberColumn(format="%.3g")
    floats = {str(name): three for name in table.select_dtypes("float")}
    st.dataframe(table, hide_index=True, column_config=floats, height="content" if len(table) <= WHOLE else "auto")


@dataclass(frozen=True)
class Live:
    """Findings that follow what is typed. find: may raise MissingQuantityError. numbers: whether there are any."""

    find: Callable[[], Findings]
    numbers: bool = True

    def show(self, key: str, explain: Callable[[], None] | None) -> Views:
        place = st.container()
        data = beneath(key, explain) if self.numbers else None
        if explain and not self.numbers:
            explain()

        def views(_model: TextModel) -> Drawing:
            findings, lacking = unless_absent(self.find)
            findings = findings or Findings(info=lacking)
            if by_channel():
                yield [(place, element) for row in findings.rows for element in row if isinstance(element, FigureView)]
                return None
            with place:
                placed = findings.placed()
            yield placed
            return partial(findings.draw_numbers, key, data)

        return views


@dataclass(frozen=True, kw_only=True)
class Measurement(Generic[Result]):
    """Measurement that takes a while, as a job: a button that begins it, progress, findings so far.

    settings: what `measure` is called with; after others were chosen, results are still shown, and said to be of those
    before. findings: of the result so far. forecast: how long it will take, in words. begin: words of the button.
    at_once: it begins of itself, and again with other settings; for what takes a second or two.
    """

    measure: Callable[..., Iterator[Report[Result]]]
    settings: tuple[Hashable, ...]
    findings: Callable[[Result], Findings]
    forecast: str
    begin: str
    at_once: bool = False

    def show(self, key: str, explain: Callable[[], None] | None) -> Views:
        run = f"{key}_run"
        job = job_of(run)
        if self.at_once and (job is None or job.settings != self.settings):
            self.start(run)
        self.look(key)
        if explain:
            explain()
        return no_views

    def look(self, key: str) -> None:
        """Its button or its progress, and the newest result."""
        run = f"{key}_run"
        job = job_of(run)
        if job:
            job.look()
        result = job.result if job else None
        with st.container(horizontal=True, vertical_alignment="center", key=f"{run}_row"):
            if not (self.at_once and job and job.status == "finished"):
                self.controls(run, job)
        if job and result is not None:
            if job.settings != self.settings:
                st.caption(_("These are the results of the settings before."))
            findings = self.findings(result)
            findings.draw()
            findings.draw_numbers(key)

    def controls(self, run: str, job: ExperimentJob[Result] | None) -> None:
        if (
            job
            and not job.ended
            and show_job(job, f"{run}_bar", _("Stop"), state=lambda: (job.done, job.result is None))
        ):
            return
        kind: Literal["primary", "secondary"] = "secondary" if job else "primary"
        st.button(self.begin, type=kind, key=f"{run}_begin", on_click=self.start, args=(run,))
        if job is None or job.settings != self.settings:
            st.caption(self.forecast, width="content")
        elif isinstance(job.exception, MissingQuantityError):
            st.error(absent_words(job.exception))
        elif job.error:
            st.error(as_sentence(translate_error(job.error)))
        elif job.cancelled:
            st.caption(_("Stopped: what is shown was found until then."), width="content")

    def start(self, run: str) -> None:
        if before := job_of(run):
            before.cancel()
        st.session_state[run] = ExperimentJob(self.settings, partial(self.measure, *self.settings))


EXPERIMENTS = Turns()  # one at a time in this process: two would measure one another


class ExperimentJob(Job[Result]):
    """An experiment that was begun: its newest result, and the settings that it was begun with.

    It pauses when nobody has looked for a while, and lets others compute; `patience` later it ends.
    """

    pause, patience = 10.0, 600.0

    def __init__(self, settings: Hashable, experiment: Callable[[], Iterator[Report[Result]]], **options: Any) -> None:
        self.settings, self._experiment = settings, experiment
        super().__init__(total=1.0, **options)

    @property
    def sentence(self) -> Message | None:
        if self.status == "waiting":
            return Message("waits for another experiment on this machine")
        return Message("begins") if self.seconds_left is None else None

    def look(self, wake: Callable[[], None] | None = None) -> None:
        super().look(wake)
        with self._changed:
            self._changed.notify_all()

    def explain(self, error: Exception) -> str:
        return explained(error)

    def compute(self) -> Result | None:
        from model.runtime.device import compute_alone

        compute_alone()
        reports, since = self._experiment(), self.clock()
        while True:
            self.status = "waiting"
            with EXPERIMENTS.turn(self):
                self.status = "running"
                self.skip(self.clock() - since)
                for report in reports:
                    self.result = report.result
                    self.advance(report.share - self.done)
                    cancellation.check()
                    if self.cancellation.unseen > self.pause:
                        break
                else:
                    return self.result
            since = self.clock()
            with self._changed:
                self._changed.wait_for(
                    lambda: self.cancellation.unseen <= self.pause or self.cancelled, self.cancellation.due
                )
            cancellation.check()

    def release(self) -> None:
        from model.runtime.device import give_back_memory

        give_back_memory()  # before anybody asks whether the next one fits


def job_of(run: str) -> ExperimentJob[Any] | None:
    """Measurement of this session under this key; None before it was begun."""
    job: ExperimentJob[Any] | None = st.session_state.get(run)
    return job
