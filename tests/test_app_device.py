"""The application when memory is exhausted or the device is gone: a sentence, and on it goes with the next text."""

from __future__ import annotations

import pytest
import torch

from model.inference.models import Translator
from tests.app_reading import component, opened, sound
from viz.pages.attention import page

TROUBLES = [
    (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"), "This does not fit into memory"),
    (MemoryError(), "This does not fit into memory"),
    (
        RuntimeError("[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory"),
        "This does not fit",
    ),
    (RuntimeError("CUDA error: device-side assert triggered\nmore"), "The device no longer computes (CUDA error"),
]


def failing(error: Exception):
    def fail(*_given: object, **_more: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(("error", "sentence"), TROUBLES)
def test_a_text_that_cannot_be_computed_is_a_sentence_and_the_next_one_is_drawn(error, sentence, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Translator, "trace_generated", failing(error))
        app = opened()
        assert not app.exception
        assert [each.value.lower().startswith(sentence.lower()) for each in app.error] == [True]
    assert component(sound(app.run()), "token_bar")["source"]


@pytest.mark.parametrize(("error", "sentence"), TROUBLES)
def test_views_that_cannot_be_computed_say_so_in_place_of_the_rest(error, sentence, monkeypatch):
    monkeypatch.setattr(page, "heads_grid", failing(error))
    app = opened()
    assert not app.exception
    assert [each.value.lower().startswith(sentence.lower()) for each in app.error] == [True]
    assert component(app, "token_bar")["source"]


def test_any_other_error_is_none_of_these(monkeypatch):
    monkeypatch.setattr(Translator, "trace_generated", failing(RuntimeError("a fault of ours")))
    assert opened().exception
