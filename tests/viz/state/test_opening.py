"""A model that is opened beside the script: it tells its seconds, is found again, and can be given up."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from model.checkpoints.load import open_checkpoint
from model.runtime import cancellation
from tests.viz.small import write_small
from viz.state import shown_model
from viz.state.shown_model import Opening


def test_seconds_are_told_until_it_is_open_and_what_opens_it_is_raised(monkeypatch):
    monkeypatch.setattr(shown_model, "TICK", 0.01)
    told: list[float] = []
    wait = threading.Event()
    made = Opening("a", lambda: wait.wait(5) and "model")  # type: ignore[arg-type, return-value]

    def waiting(seconds: float) -> None:
        told.append(seconds)
        if len(told) == 3:
            wait.set()

    assert made.model(waiting) == "model"
    assert told == sorted(told)
    assert len(told) == 3
    with pytest.raises(ZeroDivisionError):
        Opening("b", lambda: 1 / 0).model(waiting)  # type: ignore[arg-type, return-value]


def test_what_is_given_up_ends_and_says_so(monkeypatch):
    monkeypatch.setattr(shown_model, "TICK", 0.01)

    def endless() -> Any:
        while True:
            cancellation.check()

    made = Opening("a", endless)
    with pytest.raises(ValueError, match="was given up before it was open: choose it again"):
        made.model(lambda seconds: made.cancel())


@pytest.mark.parametrize("kind", ["ours", "weights alone"])
def test_a_checkpoint_is_given_up_at_its_next_tensor(tmp_path, kind):
    folder = write_small(tmp_path / "small")
    path = folder if kind == "ours" else folder / "model.safetensors"
    stale = threading.Event()
    with cancellation.watch(stale):
        assert open_checkpoint(path).config.n_heads == 2 if kind == "ours" else True
        stale.set()
        with pytest.raises(cancellation.SupersededError):
            open_checkpoint(path)
