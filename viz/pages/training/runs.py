"""The runs of this training: a table, going back to a key frame, another course from one, the end."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.options import field_text
from model.training.settings import CHANGEABLE, RUN_OPTIONS
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, clauses, enumeration, literal, percent, significant
from viz.pages.training import saving
from viz.pages.training.start import give_up, offer_begin
from viz.state import training
from viz.state.session import Session, current_session, follow_language
from viz.ui.fields import MOST_LETTERS, choice_titles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from model.training.live.key_frames import KeyFrame
    from model.training.live.live_training import LiveTraining
    from model.training.live.runs import Run

WIDE = 130  # pixels of a column of figures: its name is seen whole
BRANCHES = ("rate", *(name for name in CHANGEABLE if name != "rate"))


class Part(StrEnum):
    """Names in the session state."""

    RUN = "runs_run"
    STEP = "runs_step"
    SETTING = "runs_setting"
    VALUE = "runs_value"
    REWIND = "runs_rewind"
    BRANCH = "runs_branch"
    STOP = "runs_stop"
    GIVE_UP = "runs_give_up"
    ASKED = "runs_asked"
    CONFIRM = "runs_confirm"
    CANCEL = "runs_cancel"
    MESSAGE = "runs_message"


def show(session: Session) -> None:
    """The table; beneath it what can be done from a key frame, and saving."""
    live = training.training(session)
    if live is None:
        offer_begin()
        return
    runs = live.runs
    if not runs:
        st.caption(_("The data is being prepared: the first run follows."))
        return
    frame = table(runs, live.current)
    figures = {name: st.column_config.Column(alignment="right", width=WIDE) for name in frame.columns[2:6]}
    st.dataframe(frame, hide_index=True, height=38 + 35 * len(runs), column_config=figures)
    if not training.is_own(session, live):
        return
    left, right = st.columns(2, gap="large")
    travel(left, live, runs)
    saving.show(right, live)


def table(runs: tuple[Run, ...], current: Run | None) -> pd.DataFrame:
    """A row for each run: where it came from, how far it is, how good it is, and with which settings."""
    rows = [
        {
            _("run"): f"{run.number} ●" if run is current else str(run.number),
            _("branched from"): ""
            if run.parent is None
            else _("{run} after step {step}").format(run=run.parent, step=f"{run.begins:,}"),
            _("steps"): run.curves.newest_step,
            _("training loss"): _figure(run, "loss"),
            _("validation loss"): _figure(run, "validation"),
            _("exact match"): _share(run.curves.latest("exact match")),
            _("its settings differ"): differences(run, runs),
        }
        for run in runs
    ]
    return pd.DataFrame(rows)


def differences(run: Run, runs: tuple[Run, ...]) -> str:
    """At the first step, from the oldest run that is kept; then what changed on the way."""
    parts = change_texts(runs[0].settings.differences(run.settings))
    for mark in run.changes:
        change = enumeration(change_texts(mark.changes))
        parts.append(_("after step {step}: {change}").format(step=f"{mark.step:,}", change=change))
    return clauses(parts)


def change_texts(changes: Mapping[str, tuple[Any, Any]]) -> list[str]:
    """Sentences on the changes of settings, before and after."""
    return [f"{name} {_value(old)} → {_value(new)}" for name, (old, new) in changes.items()]


def travel(place: DeltaGenerator, live: LiveTraining, runs: tuple[Run, ...]) -> None:
    """Go back to a key frame, or take another course from it with one thing changed."""
    place.markdown(f"**{_('Go back, or take another course')}**")
    numbers = [run.number for run in runs]
    left, right = place.columns(2, gap="small")
    current = live.current.number if live.current else numbers[-1]
    if st.session_state.get(Part.RUN) not in numbers:
        st.session_state[Part.RUN] = current
    number = left.selectbox(_("Run"), numbers, key=Part.RUN, persist_state="session")
    wish = right.number_input(_("Step"), 0, None, 0, step=10, key=Part.STEP, persist_state="session")
    run = next(run for run in runs if run.number == number)
    key = nearest(run, int(wish))
    steps = [f"{frame.step:,}" for frame in run.film.key_frames]
    place.caption(
        _("Key frames: {count}, from step {first} to step {last}. The one to go back to is of step {step}.").format(
            count=len(steps), first=steps[0], last=steps[-1], step=f"{key.step:,}"
        )
    )
    buttons = place.container(horizontal=True)
    buttons.button(
        _("Go back to step {step}").format(step=f"{key.step:,}"),
        key=Part.REWIND,
        on_click=_rewind,
        args=(number, key.step),
        help=_("What this run did after it is forgotten"),
    )
    buttons.button(
        _("Stop"),
        key=Part.STOP,
        on_click=_stop,
        disabled=live.snapshot.status in training.OVER,
        help=_("Ends the run; what it recorded stays"),
    )
    buttons.button(
        _("Give it up"),
        key=Part.GIVE_UP,
        on_click=_ask,
        args=(live.number,),
        help=_("Frees the training with its film and all its runs"),
    )
    if st.session_state.get(Part.ASKED) == live.number:
        ask_give_up(place, len(runs))
    setting, value = place.columns(2, gap="small", vertical_alignment="bottom")
    names = {each: option_title(each) for each in BRANCHES}
    follow_language(Part.SETTING)
    name = setting.selectbox(
        _("Change this"), BRANCHES, format_func=names.__getitem__, key=Part.SETTING, persist_state="session"
    )
    option, now = RUN_OPTIONS[name], getattr(key.settings, name)
    field: dict[str, Any] = {"key": f"{Part.VALUE}_{name}", "persist_state": "session"}
    # As a whole: a lone "0.001" would be escaped as a list's number, and its backslash be read aloud.
    label = literal(_("from {value} to").format(value=_value(now)))
    if option.choices:
        follow_language(field["key"])
        value.selectbox(
            label,
            option.choices,
            index=option.choices.index(now),
            format_func=choice_titles(option).__getitem__,
            **field,
        )
    else:
        value.text_input(label, field_text(now), max_chars=MOST_LETTERS, **field)
    place.button(
        _("Branch from step {step}").format(step=f"{key.step:,}"),
        key=Part.BRANCH,
        on_click=_branch,
        args=(number, key.step, name),
        help=_("The same batches with this one change, beside the run as it is"),
    )
    if message := st.session_state.get(Part.MESSAGE):
        place.error(as_sentence(translate_error(message)))


def option_title(name: str) -> str:
    """Label of an option, as on its field."""
    option = RUN_OPTIONS[name]
    return _(option.label)


def ask_give_up(place: DeltaGenerator, count: int) -> None:
    """The question before so many runs are given up, with a way back."""
    lost = _("This gives up {count} runs, and all that is not saved of them.").format(count=count)
    place.warning(lost if count > 1 else _("This gives up the run, and all that is not saved of it."))
    answers = place.container(horizontal=True)
    answers.button(_("Give it up now"), key=Part.CONFIRM, on_click=_give_up)
    answers.button(_("Cancel"), key=Part.CANCEL, on_click=_ask, args=(0,))


def nearest(run: Run, step: int) -> KeyFrame:
    """The last key frame that is not later than `step`."""
    keys = run.film.key_frames
    return next((key for key in reversed(keys) if key.step <= step), keys[0])


def _rewind(number: int, step: int) -> None:
    def act(live: LiveTraining, key: KeyFrame) -> None:
        live.rewind(key)
        live.settled(1.0)

    _from(number, step, act)


def _branch(number: int, step: int, name: str) -> None:
    def act(live: LiveTraining, key: KeyFrame) -> None:
        value = RUN_OPTIONS[name].parse(st.session_state[f"{Part.VALUE}_{name}"])
        if RUN_OPTIONS[name].unchanged(value, getattr(key.settings, name)):
            raise ValueError(
                _("{name} is {value} already: write another value to branch.").format(name=name, value=value)
            )
        runs_on = live.snapshot.status == "running"
        live.branch(key, **{name: value})
        if live.settled(1.0):  # then the table has it
            st.session_state[Part.RUN] = live.runs[-1].number
        if runs_on:
            live.run()

    _from(number, step, act)


def _from(number: int, step: int, act: Any) -> None:
    """Do something from a key frame, if it is still there."""
    live = training.steered(current_session())
    runs = [run for run in live.runs if run.number == number] if live else []
    if not live or not runs:
        st.session_state[Part.MESSAGE] = _("Run {number} is not kept any more.").format(number=number)
        return
    try:
        st.session_state[Part.MESSAGE] = ""
        act(live, nearest(runs[0], step))
        current_session().rerun_requested = True  # the sidebar too shows where it stands now
    except ValueError as error:
        st.session_state[Part.MESSAGE] = str(error)


def _stop() -> None:
    if live := training.steered(current_session()):
        live.stop()
        current_session().rerun_requested = True


def _ask(number: int) -> None:
    """Ask before the training of this number is given up; 0: none."""
    st.session_state[Part.ASKED] = number


def _give_up() -> None:
    give_up(current_session())


def _value(value: Any) -> str:
    return "–" if value is None else str(field_text(value))


def _figure(run: Run, name: str) -> str:
    value = run.curves.latest(name)
    return "" if value is None else significant(value)


def _share(value: float | None) -> str:
    return "" if value is None else percent(value)
