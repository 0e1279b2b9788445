"""The application run without a browser, and what it sent to one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Selectbox
from streamlit.util import calc_hash

from tests.viz.components.test_registry import unpack
from tests.viz.render.header_checks import BY_COMPONENT, misfits
from viz.pages.attention.components import LEVELS
from viz.state.session import Key, Session
from viz.state.shown_model import Part
from viz.state.texts import accept_edit

APP = str(Path(__file__).resolve().parents[1] / "app.py")


def opened(page: str = "attention", /, **address: str) -> AppTest:
    """The application at an address: on the page of that name, and no other is drawn before; "": on the first."""
    app = AppTest.from_file(APP, default_timeout=240)
    if page:
        app._page_hash = calc_hash(
            page
        )  # before its first run, AppTest.switch_page looks for pages by their files' names
    app.query_params.update(address)
    return app.run()


def model_list(app: AppTest) -> Selectbox:
    """The list of models."""
    return next(each for each in app.selectbox if str(each.key).startswith(Part.LIST))


def sound(app: AppTest) -> AppTest:
    """The same, if nothing has failed, and what the browser was sent is what its types say."""
    assert not app.exception
    assert not app.error
    for each in app.get("bidi_component"):
        if each.proto.WhichOneof("data") == "bytes":
            header, _arrays = unpack(body(each.proto.bytes))
            assert not list(misfits(header, BY_COMPONENT[each.proto.component_name])), each.proto.component_name
    return app


def experimented(app: AppTest, key: str) -> AppTest:
    """The same after the laboratory's experiment of this key has been begun and has ended well."""
    app.button(key=f"{key}_begin").click().run()
    job = app.session_state[key]
    while not job.wait(0.5):
        job.look()
    assert job.status == "finished", job.error
    return sound(app.run())


def type_in(app: AppTest, key: str, text: str) -> AppTest:
    """The same after this was typed into the field of that key, and the script has learnt it."""
    session: Session = app.session_state[Key.SESSION]
    assert accept_edit(session, key, text, session.texts.edits.get(key, 0) + 1), "it is there already"
    return app.run()


def typed(app: AppTest, key: str) -> str:
    """What the field of this key shows; empty where it shows what the model wrote."""
    text: str = sent(app, key)[0]["text"]
    return text


def body(frame: bytes) -> bytes:
    """A view's bytes behind its stamp."""
    return frame[4 + int.from_bytes(frame[:4], "little") :]


def sent(app: AppTest, key: str) -> Any:
    """The header and the arrays that the component of this key was sent."""
    (found,) = [e.proto for e in app.get("bidi_component") if e.proto.id.endswith(f"-{key}")]
    return unpack(body(found.bytes))


def component(app: AppTest, name: str) -> Any:
    """What a browser component was sent: JSON, or a header and arrays, if there are any."""
    (proto,) = [e.proto for e in app.get("bidi_component") if e.proto.component_name == f"vitrine_{name}"]
    if proto.WhichOneof("data") == "json":
        return json.loads(proto.json)
    header, arrays = unpack(body(proto.bytes))
    return (header, arrays) if arrays else header


def heads(app: AppTest) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """The thumbnails' header, their values (thumbnail, row, column), NaN where nothing is drawn, and the states of
    their cells; where every head is there in its order, (layer, head, row, column).
    """
    header, (levels, states) = component(app, "head_grid")
    values = unpacked_heads(header, levels)
    order = header["order"]
    layers = len({layer for layer, _head in order})
    if order and len(order) == layers * header["columns"] and order == sorted(order):
        values = values.reshape(layers, -1, *values.shape[1:])
    return header, values, states


def unpacked_heads(header: dict[str, Any], levels: np.ndarray) -> np.ndarray:
    """Values of thumbnails from their 16 bits, NaN where nothing is drawn."""
    values = header["low"] + levels / LEVELS * (header["high"] - header["low"])
    values[levels > LEVELS] = np.nan
    return values


def labels(app: AppTest, side: str) -> list[str]:
    return [token["label"] for token in component(app, "token_bar")[side]]


def number(text: str) -> float:
    """A number as it is written on the screen."""
    digits, _times, power = text.replace("−", "-").partition("×10")
    return float(digits) * 10.0 ** int(power.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")) or 0)
