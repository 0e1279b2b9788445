"""What tests of the laboratory's arithmetic start from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from model.inference.text_model import TextModel
from tests.app_reading import opened, sound
from tests.viz.small import looking
from viz.state.serving import serving
from viz.state.session import Session

TEXT = "The cat sees the dog."


def page(claim: str, **address: str):
    return sound(opened("lab", **({"source": TEXT, "lab_part": "arithmetic", "arithmetic": claim} | address)))


def said(app) -> str:
    return "\n".join(each.value for each in app.text)


@contextmanager
def looked_at(model: TextModel, source: str = TEXT, **options: Any) -> Iterator[Session]:
    """A session that shows a model this text, as the channel serves it; options: see `looking`."""
    session = looking(model, source, **options)
    with serving(session):
        yield session
