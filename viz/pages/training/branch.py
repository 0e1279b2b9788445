"""Another course from a key frame of the film: the settings it begins with there, to be changed before it runs on."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.message import field_of
from model.training.settings import DROPOUTS, RUN_OPTIONS
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence
from viz.state.session import current_session
from viz.state.training import steered
from viz.ui.fields import Form

if TYPE_CHECKING:
    from model.training.live.key_frames import KeyFrame
    from model.training.live.live_training import LiveTraining

NAMES = (
    *("rate", "batch_tokens", "warmup", "schedule", "label_smoothing", "clip", "weight_decay", "accumulation"),
    *(*DROPOUTS, "seed"),
)


class Part(StrEnum):
    """Names in the session state."""

    PLACE = "branch_place"
    WRONG = "branch_wrong"
    RUN = "branch_run"
    CLOSE = "branch_close"


def form() -> Form:
    return Form("branch", {name: RUN_OPTIONS[name] for name in NAMES})


def offer(live: LiveTraining, key: KeyFrame) -> None:
    """Show the settings of this key frame, to be changed; in a callback."""
    form().put({name: getattr(key.settings, name) for name in NAMES})
    st.session_state[Part.PLACE] = (live.number, key.run, key.step)
    st.session_state[Part.WRONG] = {}


def show(place: DeltaGenerator, live: LiveTraining) -> None:
    """The settings of the key frame that was chosen, if one was, and the button that lets the other course begin."""
    key = chosen(live)
    if key is None:
        return
    panel = place.container(border=True)
    panel.markdown(
        _("**Branch from step {step}**: change what you want, and both futures lie over each other.").format(
            step=f"{key.step:,}"
        )
    )
    wrong: dict[str, str] = st.session_state.get(Part.WRONG, {})
    form().refill()
    changes, broken = _read(key)
    if not broken:
        try:
            key.settings.with_changes(changes)
        except ValueError as error:
            broken = {field_of(error, NAMES): translate_error(error)}
    form().draw(panel, NAMES, {name: translate_error(text) for name, text in wrong.items()} | broken, columns=4)
    if text := (wrong | broken).get(""):
        panel.error(as_sentence(translate_error(text)))
    row = panel.container(horizontal=True, vertical_alignment="center")
    row.button(_("Branch and run"), key=Part.RUN, type="primary", on_click=_branch, disabled=bool(broken))
    row.button(_("Close"), key=Part.CLOSE, on_click=_close)
    row.caption(
        _("The same weights and the same seed; the same batches too, as long as their size and the seed stay."),
        width="content",
    )


def chosen(live: LiveTraining) -> KeyFrame | None:
    """The key frame that another course is to begin from; none if it is gone, or was another training's."""
    training, number, step = st.session_state.get(Part.PLACE) or (None, None, None)
    runs = live.runs if live.number == training else ()
    keys = (key for run in runs if run.number == number for key in run.film.key_frames)
    return next((key for key in keys if key.step == step), None)


def _read(key: KeyFrame) -> tuple[dict[str, Any], dict[str, str]]:
    """Changes of a key frame's settings in the fields, and the faults of those that have no value, by name."""
    values, wrong = form().read(NAMES)
    changes = {
        name: value
        for name, value in values.items()
        if not RUN_OPTIONS[name].unchanged(value, getattr(key.settings, name))
    }
    return changes, wrong


def _branch() -> None:
    session = current_session()
    live = steered(session)
    key = chosen(live) if live else None
    if live is None or key is None:
        return
    changes, wrong = _read(key)
    if wrong:
        return
    try:
        if not changes:
            raise ValueError(_("Nothing is changed yet: write another value into one of the fields."))
        live.branch(key, **changes)
    except ValueError as error:
        st.session_state[Part.WRONG] = {field_of(error, list(changes)): str(error)}
        return
    live.run()
    session.rerun_requested = True  # the sidebar too shows where it stands now
    _close()


def _close() -> None:
    st.session_state[Part.PLACE] = None
