"""The film on its way to the browser: every frame comes, each once, and as it is on the film."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from model.training.live.frame_recorder import LOSS, TOKENS
from tests.model.training.live.live_examples import probe, watched
from viz.state import film_feed
from viz.state.film_feed import FilmCursor, film_data, thinned


class Browser:
    """What film_store.js keeps of all that comes."""

    def __init__(self, own: Any) -> None:
        self.run, self.sent = own.run, FilmCursor()
        self.edition, self.frames, self.names = 0, {}, {}

    def receive(self) -> int:
        header, arrays = film_data(self.run, self.sent)
        if header["edition"] != self.edition:
            self.edition, self.frames, self.names = header["edition"], {}, {}
        self.frames |= {int(step): row for step, *row in zip(*arrays, strict=True)}
        self.frames = {step: self.frames[step] for step in header["steps"]}
        self.names |= header["names"]
        self.header = header
        return len(arrays[0])

    def attention(self, kind: str) -> np.ndarray:
        place = self.header["kinds"][kind]
        count = int(np.prod(place["shape"]))
        rows = [row[0][place["first"] : place["first"] + count] for row in self.frames.values()]
        return np.array(rows).reshape(len(rows), *place["shape"])


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only", "encoder-only"])
def test_each_frame_comes_once_and_as_it_is(kind):
    own = watched(kind=kind)
    browser = Browser(own)
    assert browser.receive() == 1
    assert browser.receive() == 0
    for _ in range(3):
        own.step()
    assert browser.receive() == 3
    film = own.run.film
    assert list(browser.frames) == film.steps.tolist()
    for attention in film.kinds:
        assert_array_equal(browser.attention(attention), film.attention(attention))
        rows = browser.header["tokens"][browser.header["kinds"][attention]["rows"]]
        assert len(rows) == film.shape(attention)[2]
    assert_allclose([row[1] for row in browser.frames.values()], film.series(LOSS), rtol=1e-6)
    tokens = film.series(TOKENS).astype(int)
    assert_array_equal([row[2] for row in browser.frames.values()], tokens)
    assert browser.names == {token: film.model.target_tokenizer.label(token) for token in np.unique(tokens).tolist()}
    assert browser.header["answers"] == film.probe.labels(film.model)


def test_all_comes_again_when_the_film_is_another_one():
    own = watched()
    browser = Browser(own)
    for _ in range(5):
        own.step()
    browser.receive()
    own.rewind(own.run.film.key_frames[1])  # step 4
    browser.receive()
    assert list(browser.frames) == [0, 1, 2, 3, 4]
    own.step()
    own.show(probe(own.model, "dcba"))
    assert browser.receive() == 1
    assert browser.header["tokens"]["source"][:4] == list("dcba")
    list(own.run.film.rerender(own.probe))
    assert browser.receive() == len(own.run.film)
    assert list(browser.frames) == [0, 4, 5]
    browser.sent.begin()  # it says that something is missing
    assert browser.receive() == 3


def test_what_does_not_fit_is_thinned_and_nothing_is_asked_for_that_is_not_there(monkeypatch):
    own = watched()
    browser = Browser(own)
    size = sum(int(np.prod(own.run.film.shape(kind))) for kind in own.run.film.kinds)
    monkeypatch.setattr(film_feed, "MOST", 6 * size)
    for _ in range(20):
        own.step()
        browser.receive()  # raises KeyError where a frame was never sent
        assert len(browser.frames) <= 6
    assert list(browser.frames) == [0, 4, 8, 12, 16, 20]


@pytest.mark.parametrize(
    ("count", "most", "expected"),
    [
        (1, 5, [0]),
        (5, 5, [0, 1, 2, 3, 4]),
        (6, 5, [0, 2, 4, 5]),
        (9, 5, [0, 2, 4, 6, 8]),
        (10, 5, [0, 4, 8, 9]),
        (10, 2, [0, 9]),
    ],
)
def test_every_second_frame_goes_and_the_last_stays(count, most, expected):
    assert thinned(count, most).tolist() == expected


def test_no_training_has_no_film():
    assert film_data(None, FilmCursor()) == (None, [])
