"""Position settings of one session in the place of the checkpoint's: kept in the address bar, named in a note."""

from __future__ import annotations

import html
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import streamlit as st

from model.message import Message
from viz.figures.colours import NOTICE
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import enumeration, grouped
from viz.i18n.messages import in_language
from viz.state.address import Address
from viz.state.session import Session, current_session

if TYPE_CHECKING:
    from model.inference.text_model import TextModel
    from model.network.config import TransformerConfig


class PositionSetting(StrEnum):
    """Settings that can be overridden, by their names in the config and in the address bar."""

    POSITION = "position"
    BASE = "position_base"
    LENGTH = "max_length"


@dataclass(frozen=True)
class PositionOverride:
    """A checkpoint as trained, the settings that override its own, and the model with them.

    model: `trained` again where the settings cannot be. refusal: why they cannot be, or nothing.
    """

    trained: TextModel
    settings: dict[str, Any]
    model: TextModel
    refusal: str = ""


WITH_BASE = ("sinusoidal", "sinusoidal-halves", "rotary")  # positions that have wavelengths
NOTE = f"background: {NOTICE}29; border-radius: 5px; padding: 3px 8px; font-size: 13px"


def overridden(session: Session, trained: TextModel) -> TextModel:
    """The model with this session's position settings, one object as long as they stay; a note says so."""
    current: PositionOverride | None = session.override
    if current is None:
        current = _override(trained, _from_address(session.address))
    elif current.trained.name != trained.name:  # an override is for one model
        _write_address(session, {})
        current = _override(trained, {})
    elif current.trained is not trained:
        current = _override(trained, current.settings)
    session.override = current
    if current.refusal or current.model is not trained:
        _show(current)
    return current.model


def current_override() -> PositionOverride:
    """The override as the last run of the script left it."""
    current = current_session().override
    assert isinstance(current, PositionOverride)
    return current


def as_trained(model: TextModel) -> TextModel:
    """The checkpoint that `model` is with other positions; itself where it has its own, as while it is trained."""
    current = current_session().override
    return current.trained if current is not None and current.model is model else model


def override(**changes: Any) -> None:
    """Override position settings; None restores the checkpoint's. For callbacks: before the script runs."""
    current = current_override()
    config = current.trained.config
    merged = (current.settings | changes).items()
    settings = {name: value for name, value in merged if value not in (None, getattr(config, name))}
    _write_address(current_session(), settings)
    current_session().override = _override(current.trained, settings)


def restore() -> None:
    override(**dict.fromkeys(PositionSetting))


def words(config: TransformerConfig) -> str:
    """Type, base and longest input, as far as they say something."""
    parts = [in_language(position_name(config.position))]
    if config.position in WITH_BASE:
        parts.append(_("base {base}").format(base=grouped(config.position_base)))
    return enumeration([*parts, _("up to {length} tokens").format(length=f"{config.max_length:,}")])


def position_name(position: str) -> str:
    return {
        "sinusoidal": Message("sinusoidal"),
        "sinusoidal-halves": Message("sinusoidal, sines first"),
        "learned": Message("learned"),
        "rotary": Message("rotary"),
        "alibi": "ALiBi",
        "relative": Message("relative (T5)"),
        "none": Message("no positions"),
        "other": Message("in a way of its own"),
    }[position]


def _override(trained: TextModel, settings: dict[str, Any]) -> PositionOverride:
    from model.inference.copies import vary

    try:
        return PositionOverride(trained, settings, vary(trained, **settings))
    except ValueError as error:
        return PositionOverride(trained, settings, trained, translate_error(error))


def _show(current: PositionOverride) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="position_note"):
        if current.refusal:
            sentence = _("These positions cannot be: {reason}. The model is shown as trained.")
            text = sentence.format(reason=current.refusal)
        else:
            sentence = _("positions: {now} — not as trained ({before})")
            text = sentence.format(now=words(current.model.config), before=words(current.trained.config))
        st.html(f'<span style="{NOTE}">{html.escape(text)}</span>', width="content")
        st.button(_("restore"), on_click=restore, key="restore", type="tertiary")


def _write_address(session: Session, settings: dict[str, Any]) -> None:
    for name in PositionSetting:
        session.address.set(name, str(settings[name]) if name in settings else None)


def _from_address(address: Address) -> dict[str, Any]:
    """Settings that the address bar names; what is no type or number there is left out."""
    from model.network.config import NETWORK_OPTIONS

    settings: dict[str, Any] = {}
    if (position := address.get(PositionSetting.POSITION)) in NETWORK_OPTIONS["position"].choices:
        settings[PositionSetting.POSITION] = position
    for name, kind in ((PositionSetting.BASE, float), (PositionSetting.LENGTH, int)):
        try:
            settings[name] = kind((address.get(name) or "")[:24])
        except ValueError:
            continue
    return settings
