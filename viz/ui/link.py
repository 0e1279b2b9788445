"""Button that gives the link to what its window shows, with its QR code, see web/link.js."""

from __future__ import annotations

from typing import Any

import streamlit as st

from viz.components.registry import trigger_value
from viz.i18n.catalogue import _
from viz.ui.qr import code_data

CODE = "link_code"  # in the session state: the address whose code is shown


def wanted_code() -> dict[str, Any] | None:
    """QR code of the address that a link's button has asked for."""
    return code_data(st.session_state.get(CODE, ""))


def on_code(component: str) -> None:
    """The QR code of a link is drawn in the next run. component: key of the one whose button was pressed."""
    st.session_state[CODE] = str(trigger_value(component, "code"))


def link_words(name: str) -> dict[str, str]:
    """Words of a link's button. name: on the button."""
    return {
        "link": name,
        "copy": _("Copy"),
        "copied": _("Copied"),
        "code": _("QR code of this link"),
        "here": _("This address leads to this machine alone: on another one, open Vitrine by the name of this one."),
    }
