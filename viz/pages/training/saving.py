"""Keep what was trained: as a checkpoint that the list of models shows, or as a file to take away."""

from __future__ import annotations

from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.checkpoints import manage
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import literal
from viz.state import checkpoints, permissions, shown_model, training
from viz.state.checkpoints import saved_folder, saved_names
from viz.state.permissions import Permission
from viz.state.session import current_session
from viz.ui.parts import tell
from viz.ui.save_name import NAME, free_name, refused, saved_as

if TYPE_CHECKING:
    from model.training.live.live_training import LiveTraining


class Part(StrEnum):
    """Names in the session state."""

    NAME = "saving_name"
    REPLACE = "saving_replace"
    SAVE = "saving_save"
    ZIP = "saving_zip"
    CURVES = "saving_curves"
    DELETE = "saving_delete"
    GONE = "saving_gone"
    SAID = "saving_said"


def show(place: DeltaGenerator, live: LiveTraining) -> None:
    """A name, then the folder or the file."""
    place.markdown(f"**{_('Keep the model')}**")
    name = place.text_input(
        _("Name: letters, digits, - and _"),
        free_name(live.start.name),
        max_chars=64,
        key=Part.NAME,
        persist_state="session",
    )
    sentence = refused(name or "", bool(st.session_state.get(Part.REPLACE)), checkpoints.own_names(current_session()))
    if name in saved_names():
        place.checkbox(_("Replace the saved model of this name"), key=Part.REPLACE)
    if sentence:
        place.caption(sentence)
    buttons = place.container(horizontal=True)
    buttons.button(
        _("Save as a checkpoint"),
        key=Part.SAVE,
        disabled=bool(sentence),
        on_click=_save,
        help=literal(str(saved_folder())),
    )
    installed = find_spec("tensorboard") is not None
    curves = place.checkbox(
        _("With the curves of all runs, for TensorBoard"),
        key=Part.CURVES,
        disabled=not installed,
        help=None if installed else _("TensorBoard is not installed: pip install tensorboard"),
        persist_state="session",
    )
    valid = bool(NAME.fullmatch(name or ""))
    buttons.download_button(
        _("Download as .zip"),
        lambda: live.zip(name or "", curves and installed),
        f"{name if valid else 'model'}.zip",
        "application/zip",
        key=Part.ZIP,
        disabled=not valid or not live.runs,
        on_click="ignore",
    )
    with place:
        tell(Part.SAID)
    if (names := saved_names()) and permissions.may(Permission.SAVING):
        delete(place, list(names))


def delete(place: DeltaGenerator, names: list[str]) -> None:
    """Remove a saved model again."""
    row = place.expander(_("Saved models: {count}").format(count=len(names)), key=f"{Part.GONE}_open")
    gone = row.selectbox(_("Model to delete"), names, key=Part.GONE)
    row.button(
        _("Delete {name} from the disk").format(name=literal(str(gone))),
        key=Part.DELETE,
        on_click=_delete,
        args=(gone,),
        disabled=gone is None,
    )


def _save() -> None:
    live, name = training.steered(current_session()), str(st.session_state[Part.NAME])
    if live is None or refused(
        name, bool(st.session_state.get(Part.REPLACE)), checkpoints.own_names(current_session())
    ):
        return
    folder = saved_folder() / name
    try:
        live.save(folder)
    except (ValueError, OSError) as error:
        st.session_state[Part.SAID] = (
            "wrong",
            _("It could not be saved: {reason}").format(reason=translate_error(error)),
        )
        return
    st.session_state[Part.REPLACE] = False
    st.session_state[Part.SAID] = ("good", saved_as(name, folder))
    current_session().rerun_requested = True  # the list is drawn again


def _delete(name: str) -> None:
    if name not in saved_names() or not permissions.may(Permission.SAVING):
        return
    try:
        manage.delete(saved_folder() / name)
    except ValueError as error:
        st.session_state[Part.SAID] = ("wrong", translate_error(error))
        return
    st.session_state[Part.SAID] = ("good", _("{name} is deleted.").format(name=name))
    shown_model.forget(current_session(), name)
