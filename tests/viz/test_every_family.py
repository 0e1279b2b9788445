"""Every page with every family of models that is tested: as users would open its folder, no page fails."""

from __future__ import annotations

import shutil

import pytest

import viz.state.checkpoints
from tests.app_reading import opened, sound
from tests.model.checkpoints.bridge.models import FAMILIES, PACKED, theirs, write_tokenizer
from tests.model.checkpoints.convert.twins import KINDS, saved

PAGES = ("map", "positions", "masks", "residual", "feed_forward", "predictions", "checkpoints", "lab", "attention")
WORDS, NUMBERS = "the cat sees a dog .", "5 6 7 8 9"  # of a model without a tokenizer

pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    return tmp_path


def open_every_page(text: str) -> None:
    app = sound(opened(source=text))
    for page in PAGES:
        sound(app.switch_page(f"viz/pages/{page}/page.py").run())


@pytest.mark.parametrize("name", sorted(FAMILIES | PACKED))
def test_pages_show_what_is_run_by_its_own_code(name, place):
    shutil.copytree(theirs(name)[1], place / name)
    write_tokenizer(place / name)
    open_every_page(WORDS)


@pytest.mark.parametrize("kind", KINDS)
def test_pages_show_what_is_put_together_as_ours(kind, place):
    (place / kind).mkdir()
    saved(kind, place / kind)
    open_every_page(NUMBERS)
