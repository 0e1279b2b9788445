"""Film and strip of a training by themselves, without the application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from tests.browser.alone import mount
from tests.model.training.live.live_examples import watched
from viz.components.registry import pack
from viz.pages.training.film import described, film_words, norm_groups
from viz.state.film_feed import FilmCursor, film_data

KIND = "cross"
NO_BATCHES = {"sentence": "", "chosen": 0, "sizes": []}
STRIP = {
    "status": "paused",
    "step": 0,
    "summary": "",
    "about": [],
    "facts": [],
    "losses": [],
    "sentence": "",
    "possible": [],
    "question": [],
    "batches": NO_BATCHES,
}
STRIP |= {"words": dict.fromkeys(("one", "advance", "run", "pause", "reset", "curve", "more"), "a")}


class ShownFilm:
    """The strip, the film, and a head grid, on one page; `sent` is what the strip has been sent of the film."""

    def __init__(self, page: Page, own: Any) -> None:
        self.page, self.own, self.sent = page, own, FilmCursor()
        self.strip()
        film = own.run.film
        rows, columns = film.shape(KIND)[2:]
        self.visible = np.ones((rows, columns), np.uint8)
        self.header = {**described(film, KIND, {}), "chosen": [1, 0], "norms": norm_groups(film), "others": []}
        self.header |= {"run": own.run.number, "words": film_words()}
        self.show_film()

    def show_film(self, **parts: Any) -> None:
        data = pack({**self.header, **parts}, [self.visible])
        mount(self.page, "pages/training/film", data, 1200)

    def strip(self, step: int = 0, runs: Mapping[str, Any] = {}) -> None:
        film, frames = film_data(self.own.run, self.sent)
        header = {**STRIP, "film": film and {**film, "runs": runs}, "step": step}
        mount(self.page, "frame/training_strip", pack(header, frames), 1200)

    def grid(self, kind: str) -> None:
        film = self.own.run.film
        layers, heads, rows, columns = film.shape(KIND)
        named = described(film, KIND, {})
        order = [[layer, head] for layer in range(layers) for head in range(heads)]
        sizes = {"rows": rows, "cells": columns, "low": 0, "high": 1, "tops": [1] * len(order), "count": len(order)}
        said = dict.fromkeys(
            ("layer", "head", "metric", "masked", "caption", "missing", "hidden", "block", "place"), "a"
        )
        header = {
            **sizes,
            "kind": kind,
            "words": said | {"film": "film: step {step}"},
            "order": order,
            "columns": heads,
        }
        header |= {"notes": ["H 0.5"] * len(order), "best": [], "chosen": [0, 0], "block": [1, 1], "difference": False}
        header |= {"labels": named["labels"], "sides": named["sides"], "stamp": "a"}
        data = pack(header, [np.zeros((len(order), rows, columns), np.uint16), self.visible])
        host = "document.body.insertAdjacentHTML('beforeend', '<section id=grid></section>')"
        self.page.evaluate(host)
        mount(self.page, "pages/attention/head_grid", data, 1200, "#grid")

    @property
    def film(self) -> Any:
        return self.page.locator(".vitrine.training-film")

    def press(self, name: str) -> None:
        self.film.locator(f".step.{name}").click()


@pytest.fixture(scope="module")
def own() -> Any:
    """A training of twelve steps."""
    made = watched()
    for _ in range(12):
        made.step()
    return made


@pytest.fixture
def shown(page: Page, own: Any) -> ShownFilm:
    return ShownFilm(page, own)
