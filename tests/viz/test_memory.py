"""Every page keeps to the memory that the server may take: what does not fit is refused, with the numbers."""

from __future__ import annotations

import gc
import threading

import pytest
import streamlit as st

from model.inference import pass_memory
from model.runtime import file_pages, memory
from model.runtime.device import give_back_memory
from tests.app_reading import opened, sound, type_in
from tests.resident import forget_peak, highest_resident
from tests.viz.small import write_small
from viz.state import checkpoints
from viz.state import session as session_module
from viz.state.session import Key

PAGES = "map positions attention masks residual feed_forward predictions".split()
WIDE = {"d_model": 256, "n_heads": 8, "d_ff": 1024, "max_length": 500, "dropout": 0.0}
SPARE = 28 << 20  # bytes: what Python and NumPy have beside the tensors, and the C library keeps between them


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
    del app.session_state[Key.SESSION].traced_input
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


# What the page Checkpoints does with files, each several times as large as the room that is left.
LARGE = {"d_model": 512, "n_heads": 8, "d_ff": 2048, "n_encoder_layers": 3, "n_decoder_layers": 3}
READING = {
    "tensors": {"checkpoints_part": "read", "checkpoint": "{}"},
    "health": {"checkpoints_part": "read", "checkpoint": "{}", "weights_view": "health"},
    "heads": {"checkpoints_part": "read", "checkpoint": "{}", "weights_view": "heads"},
    "compared": {"checkpoints_part": "compare", "compare_a": "{}", "compare_b": "{}-later"},
    "moved heads": {
        "checkpoints_part": "compare",
        "compare_a": "{}",
        "compare_b": "{}-later",
        "compare_view": "heads",
    },
    "over steps": {"checkpoints_part": "compare", "compare_view": "steps"},
}


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    for seed, name in enumerate(("", "-later")):
        write_small(folder / f"small{name}", seed)
        write_small(folder / f"large{name}", seed, **LARGE)
    return folder


def read(name: str, address: dict[str, str]):
    """The page after all that it measures of the checkpoints of this name is there."""
    app = opened("checkpoints", model="small", **{key: value.format(name) for key, value in address.items()})
    if address.get("compare_view") == "steps":
        app.segmented_control(key="compare_part").set_value("tensors").run()
        app.multiselect[0].set_value([name, f"{name}-later"]).run()
    for thread in threading.enumerate():
        if thread.name == "filling":
            thread.join()
    return sound(app.run())


@pytest.mark.parametrize("what", READING)
def test_reading_and_comparing_files_stays_within_the_limit(what, large, monkeypatch):
    monkeypatch.setattr(checkpoints, "CHECKPOINTS", large)
    monkeypatch.setattr(file_pages, "PIECE", 1 << 22)
    st.cache_resource.clear()  # what another test has measured
    read("small", READING[what])  # what is imported for it is there now
    gc.collect()
    give_back_memory()
    forget_peak()
    book, before = memory.ledger(), highest_resident()
    monkeypatch.setattr(book, "limit", before + (40 << 20))
    monkeypatch.setattr(book, "_base", before)
    monkeypatch.setattr(book, "_free", lambda: None)
    read("large", READING[what])
    assert highest_resident() < book.limit + SPARE
