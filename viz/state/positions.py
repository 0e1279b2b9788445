"""Other positions than a checkpoint was trained with, as one session wishes: in the address bar, and in a note."""

from __future__ import annotations

import html
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import streamlit as st

from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.state.session import Session, current_session

if TYPE_CHECKING:
    from model.inference.text_model import TextModel
    from model.network.config import TransformerConfig


class Wished(StrEnum):
    """What can be wished for, by its name in the config and in the address bar."""

    POSITION = "position"
    BASE = "position_base"
    LENGTH = "max_length"


@dataclass(frozen=True)
class Varied:
    """A checkpoint as trained, what was wished for, and the checkpoint with it; `trained` again where that cannot be.

    refusal: why it cannot be, or nothing.
    """

    trained: TextModel
    wish: dict[str, Any]
    model: TextModel
    refusal: str = ""


KEY = "varied"
WITH_BASE = ("sinusoidal", "sinusoidal-halves", "rotary")  # positions that have wavelengths
NOTE = "background: rgba(245, 159, 0, 0.16); border-radius: 5px; padding: 3px 8px; font-size: 13px"


def look(session: Session, trained: TextModel) -> TextModel:
    """The model with the positions that were wished for, the same object for the same wish; a note says so."""
    known = st.session_state.get(KEY)
    if known is None:
        known = _made(trained, _from_address())
    elif known.trained.name != trained.name:  # a wish is for one model
        _say(session, {})
        known = _made(trained, {})
    elif known.trained is not trained:
        known = _made(trained, known.wish)
    st.session_state[KEY] = known
    if known.refusal or known.model is not trained:
        _show(known)
    return known.model


def varied() -> Varied:
    """What `look` has found for the run of the script that goes on."""
    known = st.session_state[KEY]
    assert isinstance(known, Varied)
    return known


def as_trained(model: TextModel) -> TextModel:
    """The checkpoint that `model` is with other positions; itself where it has its own, as while it is trained."""
    known = st.session_state.get(KEY)
    return known.trained if known is not None and known.model is model else model


def wish(**changes: Any) -> None:
    """Wish for other positions; None takes a wish back. For callbacks: before the script runs."""
    known = varied()
    config = known.trained.config
    asked = {
        name: value for name, value in (known.wish | changes).items() if value not in (None, getattr(config, name))
    }
    _say(current_session(), asked)
    st.session_state[KEY] = _made(known.trained, asked)


def restore() -> None:
    wish(**dict.fromkeys(Wished))


def words(config: TransformerConfig) -> str:
    """Type, base and longest input, as far as they say something."""
    parts = [position_name(config.position)]
    if config.position in WITH_BASE:
        parts.append(_("base {base}").format(base=f"{config.position_base:,.6g}"))
    return ", ".join([*parts, _("up to {length} tokens").format(length=f"{config.max_length:,}")])


def position_name(position: str) -> str:
    return {
        "sinusoidal": _("sinusoidal"),
        "sinusoidal-halves": _("sinusoidal, sines first"),
        "learned": _("learned"),
        "rotary": _("rotary"),
        "alibi": "ALiBi",
        "relative": _("relative (T5)"),
        "none": _("no positions"),
        "other": _("in a way of its own"),
    }[position]


def _made(trained: TextModel, asked: dict[str, Any]) -> Varied:
    from model.inference.copies import vary

    try:
        return Varied(trained, asked, vary(trained, **asked))
    except ValueError as error:
        return Varied(trained, asked, trained, translate_error(error))


def _show(known: Varied) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if known.refusal:
            sentence = _("These positions cannot be: {reason}. The model is shown as trained.")
            text = sentence.format(reason=known.refusal)
        else:
            sentence = _("positions: {now} — not as trained ({before})")
            text = sentence.format(now=words(known.model.config), before=words(known.trained.config))
        st.html(f'<span style="{NOTE}">{html.escape(text)}</span>', width="content")
        st.button(_("restore"), on_click=restore, key="restore", type="tertiary")


def _say(session: Session, asked: dict[str, Any]) -> None:
    for name in Wished:
        session.say(name, str(asked[name]) if name in asked else None)


def _from_address() -> dict[str, Any]:
    """The wish in the address bar; what is not a type or a number there is no wish."""
    from model.network.config import CHOICES

    found: dict[str, Any] = {}
    given = st.query_params
    if given.get(Wished.POSITION) in CHOICES["position"]:
        found[Wished.POSITION] = given[Wished.POSITION]
    for name, kind in ((Wished.BASE, float), (Wished.LENGTH, int)):
        try:
            found[name] = kind(given[name][:24])
        except (KeyError, ValueError):
            continue
    return found
