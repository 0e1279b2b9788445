"""What tests of the page Checkpoints, where checkpoints are opened, start from."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch

import viz.state.checkpoints
from model.checkpoints.export import folder_zipped
from tests.app_reading import component, opened
from tests.viz.small import write_small
from viz.state import browsers
from viz.state import checkpoints as session

ZIP = "application/zip"


@pytest.fixture(autouse=True)
def here(places, monkeypatch):
    """One bundled checkpoint, one saved, and a folder with a file of tensors and one that is none."""
    models = places / "models"
    monkeypatch.setenv(viz.state.checkpoints.MODELS, str(models))
    write_small(places / "saved" / "mine", seed=1, n_heads=4)
    models.mkdir()
    torch.save({"a": torch.zeros(3, 5)}, models / "plain.pt")
    (models / "bad.safetensors").write_bytes(b"x")
    (models / "notes.txt").write_text("none")
    monkeypatch.setattr(browsers, "browser", lambda: "this one")
    session.sessions.clear()
    yield places
    session.sessions().close()


def page(**address):
    return opened("checkpoints", **address)


def rows(app) -> dict[str, dict]:
    return {row["name"]: row for group in component(app, "checkpoint_list")["groups"] for row in group["rows"]}


def packed(folder: Path) -> bytes:
    return folder_zipped(folder, folder.name)


def tensors(**values) -> bytes:
    """A file of PyTorch with these tensors."""
    held = io.BytesIO()
    torch.save(values, held)
    return held.getvalue()


def uploaded(app, name: str, content: bytes, kind: str = ZIP):
    app.file_uploader[0].set_value([(name, content, kind)]).run()
    return app.button(key="adding_send").click().run()


def said(app) -> str:
    return " ".join(each.value for each in (*app.toast, *app.error))


def looked_for(app, path: str):
    return app.text_input(key="adding_path").set_value(path).run()


def asked_for(app, name: str):
    app.text_input(key="adding_hub").set_value(name).run()
    return app.button(key="adding_ask").click().run()
