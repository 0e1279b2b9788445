"""What all ways to add to the list of checkpoints share: what is said of it, and the new entry."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import streamlit as st

from viz.i18n.catalogue import _
from viz.i18n.format import as_sentence
from viz.state import checkpoints
from viz.state.workbench import Workbench


class Part(StrEnum):
    """Names in the session state."""

    FILES = "adding_files"
    SENT = "adding_sent"
    SEND = "adding_send"
    HUB = "adding_hub"
    ASK = "adding_ask"
    OFFER = "adding_offer"
    QUESTION = "adding_question"
    GIVE_UP = "adding_give_up"
    FETCH = "adding_fetch"
    CANCEL = "adding_cancel"
    PATH = "adding_path"
    LOOK = "adding_look"
    SAID = "adding_said"


def refusal(where: Part) -> None:
    """Beside the field that it is about, which would hide it elsewhere."""
    _how, text, place = st.session_state.get(Part.SAID) or ("", "", "")
    if place == where:
        st.error(as_sentence(text))


def added(bench: Workbench, name: str, path: Path, left_out: Sequence[str] = ()) -> None:
    from model.checkpoints.catalog import listed

    name = checkpoints.add(bench, name, path)
    found = listed(path)
    text = _("{name} is in the list.").format(name=name)
    if found.problem:
        text = _("{name} is in the list, which says why it cannot be opened.").format(name=name)
    elif found.part:
        text = _("{name} is in the list, which says why only its tensors can be read.").format(name=name)
    elif not found.computes:
        text += " " + _("It is no model that is known here: its tensors can be read.")
    if left_out:
        text += " " + _("Files that no checkpoint needs are left out: {names}.").format(
            names=", ".join(left_out[:5]) + (" …" if len(left_out) > 5 else "")
        )
    say("wrong" if found.problem else "good", text)
    close()
    bench.begun = True  # the sidebar's list too


def close() -> None:
    """What is open gets another key, and is another one then."""
    st.session_state[Part.SENT] = st.session_state.get(Part.SENT, 0) + 1


def say(how: str, text: str, where: Part | None = None) -> None:
    st.session_state[Part.SAID] = (how, text, where or "")
