"""What tests of the page of tokens and positions start from."""

from __future__ import annotations

from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from tests.app_reading import body, opened
from tests.model.examples import one_stack
from tests.model.network.test_kinds import TOKENIZERS
from tests.viz.components.test_registry import unpack

TEXT = "The cat sees the dog."
HOSTILE = ["", "</script><script>alert(1)</script>🙂مرحبا\x00" + 99 * "x"]


def page(part: str, **address: str):
    return sound(opened("positions", **({"source": TEXT, "part": part} | address)))


def sound(app):
    assert not app.exception
    assert not app.error
    assert not app.warning
    return app


def views(app) -> dict[str, tuple[dict, list]]:
    """The heatmaps and charts that were sent, by the name of what they save."""
    protos = [each.proto for each in app.get("bidi_component")]
    sent = [unpack(body(each.bytes)) for each in protos if each.component_name in ("vitrine_heatmap", "vitrine_chart")]
    return {header["file"]: (header, arrays) for header, arrays in sent}


def pinned(app):
    """The session of a page whose trace is kept as the pin."""
    session = app.session_state["session"]
    session.keep()
    return session


def said(app) -> str:
    return "\n".join(each.value for each in app.text)


def one(folder, kind, **options):
    made = TOKENIZERS[kind]
    save_checkpoint(folder, one_stack(kind, vocabulary=len(made), **options), (made, made))
    return open_checkpoint(folder)


def series(app, name: str) -> list[dict]:
    headers = [header for header, _arrays in views(sound(app)).values()]
    (found,) = [header["series"] for header in headers if header["file"].startswith(name) and "series" in header]
    return found
