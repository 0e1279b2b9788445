"""Every page keeps to the memory that the server may take: what does not fit is refused, with the numbers."""

from __future__ import annotations

import gc

import pytest

from model.inference import pass_memory
from model.runtime import memory
from model.runtime.device import give_back_memory
from tests.app_reading import opened, type_in
from tests.resident import forget_peak, highest_resident
from tests.viz.small import write_small
from viz.state import checkpoints
from viz.state import session as session_module
from viz.state.session import Key

PAGES = "map positions attention masks residual feed_forward predictions".split()
WIDE = {"d_model": 256, "n_heads": 8, "d_ff": 1024, "max_length": 500, "dropout": 0.0}
SPARE = 12 << 20  # bytes: what Python and NumPy have beside the tensors


@pytest.fixture
def asks_early(monkeypatch):
    """Of what is small elsewhere memory is asked, too."""
    for module, name in ((pass_memory, "SMALL"), (pass_memory, "LARGE"), (session_module, "LARGE")):
        monkeypatch.setattr(module, name, 1 << 20)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    return write_small(tmp_path_factory.mktemp("checkpoints") / "wide", **WIDE)


@pytest.mark.parametrize("page", PAGES)
def test_a_long_text_stays_within_the_limit_on_each_page(page, wide, asks_early, monkeypatch):
    monkeypatch.setattr(checkpoints, "CHECKPOINTS", wide.parent)
    app = opened(page, model="wide", source="The dog.", target="狗")
    type_in(app, Key.SOURCE, "The dog sees. " * 10)  # what is imported for a long text is there now
    del app.session_state[Key.SESSION].shown
    gc.collect()
    give_back_memory()
    forget_peak()
    book, before = memory.ledger(), highest_resident()
    monkeypatch.setattr(book, "limit", before + (24 << 20))
    monkeypatch.setattr(book, "_base", before)
    monkeypatch.setattr(book, "_free", lambda: None)
    type_in(app, Key.SOURCE, "dog " * 490)
    assert not app.exception
    assert highest_resident() < book.limit + SPARE
