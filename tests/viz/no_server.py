"""Streamlit without a server: the address bar and a session state, for `viz.state.session` to read and write."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import viz.state.address
import viz.state.opened_page
import viz.state.session


class Address(dict[str, str]):
    """What `st.query_params` is to the session."""

    def to_dict(self) -> dict[str, str]:
        return dict(self)


def no_server(monkeypatch: pytest.MonkeyPatch, *modules: Any) -> SimpleNamespace:
    """What stands in place of Streamlit in the session's module and in these: `query_params` and `session_state`."""
    fake = SimpleNamespace(query_params=Address(), session_state={})
    for module in (viz.state.session, viz.state.address, viz.state.opened_page, *modules):
        monkeypatch.setattr(module, "st", fake)
    return fake
