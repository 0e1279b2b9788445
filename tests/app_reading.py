"""The application run without a browser, and what it sent to one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

from tests.viz.components.test_pack import unpack

APP = str(Path(__file__).resolve().parents[1] / "app.py")


def opened(**address: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=60)
    app.query_params.update(address)
    return app.run()


def component(app: AppTest, name: str) -> Any:
    """What a browser component was sent: JSON, or a header and arrays."""
    (proto,) = [e.proto for e in app.get("bidi_component") if e.proto.component_name == f"vitrine_{name}"]
    return json.loads(proto.json) if proto.WhichOneof("data") == "json" else unpack(proto.bytes)


def labels(app: AppTest, side: str) -> list[str]:
    return [token["label"] for token in component(app, "token_bar")[side]]
