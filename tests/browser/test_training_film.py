"""The film of a training by itself: the strip receives it, and everything else happens in the browser."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.alone import MOUNT
from tests.browser.looking import PIXELS
from tests.model.live_examples import watched
from viz.components import pack, sources
from viz.film_feed import Sent, film_data
from viz.packing.film_norms import norm_groups
from viz.sections.training_film import described, words

pytestmark = pytest.mark.browser
KIND = "cross"
STRIP = {"status": "paused", "step": 0, "facts": [], "losses": [], "sentence": "", "possible": []}
STRIP |= {"words": dict.fromkeys(("advance", "run", "pause", "reset", "curve"), "a")}

TIMERS = """
window.waits = [];
window.setTimeout = (act, wait) => ((window.tick = act), window.waits.push(wait));
window.clearTimeout = () => (window.tick = null);
"""

LACKS = "window.__vitrine.film = undefined; window.__vitrine.dispatchEvent(new CustomEvent('film'))"


class Shown:
    """The strip, the film, and a head grid, on one page; `sent` is what the strip has been sent of the film."""

    def __init__(self, page: Page, own: Any) -> None:
        self.page, self.own, self.sent = page, own, Sent()
        self.strip()
        film = own.run.film
        rows, columns = film.shape(KIND)[2:]
        self.visible = np.ones((rows, columns), np.uint8)
        self.header = {**described(film, KIND), "chosen": [1, 0], "norms": norm_groups(film), "others": []}
        self.header |= {"words": words()}
        self.show_film()

    def show_film(self, **parts: Any) -> None:
        data = pack({**self.header, **parts}, [self.visible])
        self.mount(data, "training_film", "plot", "heat", "film_store", "film_norms", "thumbnails")

    def mount(self, data: bytes, *parts: str) -> None:
        self.page.evaluate(MOUNT, [*sources(*parts), list(data), 1200])

    def strip(self, at: float = 0, step: int = 0) -> None:
        film, frames = film_data(SimpleNamespace(current=self.own.run), self.sent)  # type: ignore[arg-type]
        header = {**STRIP, "film": film, "at": at, "step": step}
        self.mount(pack(header, frames), "training_strip", "film_store")

    def grid(self, kind: str) -> None:
        film = self.own.run.film
        layers, heads, rows, columns = film.shape(KIND)
        named = described(film, KIND)
        order = [[layer, head] for layer in range(layers) for head in range(heads)]
        sizes = {"rows": rows, "cells": columns, "low": 0, "high": 1, "tops": [1] * len(order), "count": len(order)}
        said = dict.fromkeys(("layer", "head", "metric", "masked", "caption", "missing", "hidden", "block"), "a")
        header = {
            **sizes,
            "kind": kind,
            "words": said | {"film": "film: step {step}"},
            "order": order,
            "columns": heads,
        }
        header |= {"notes": ["H 0.5"] * len(order), "chosen": [0, 0], "block": [1, 1], "difference": False}
        header |= {"labels": named["labels"], "sides": named["sides"], "stamp": "a"}
        data = pack(header, [np.zeros((len(order), rows, columns), np.uint16), self.visible])
        host = "document.body.insertAdjacentHTML('beforeend', '<section id=grid></section>')"
        self.page.evaluate(host)
        mount = MOUNT.replace("parentElement: document.body", "parentElement: document.querySelector('#grid')")
        self.page.evaluate(
            mount, [*sources("head_grid", "plot", "picture", "film_store", "thumbnails"), list(data), 1200]
        )

    @property
    def film(self) -> Any:
        return self.page.locator(".vitrine.training-film")

    def press(self, name: str) -> None:
        self.film.locator(f".step.{name}").click()


@pytest.fixture(scope="module")
def own():
    made = watched()
    for _ in range(12):
        made.step()
    return made


@pytest.fixture
def shown(browser, own):
    context = browser.new_context(viewport={"width": 1200, "height": 1100}, device_scale_factor=1)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_content("<body></body>")
    yield Shown(page, own)
    context.close()
    assert not errors


def test_it_is_scrubbed_by_keys_and_by_the_strips_slider(shown):
    film, line = shown.film, shown.film.get_by_role("slider")
    expect(film).to_have_attribute("data-step", "12")
    line.focus()
    for key, step in (("Home", 0), ("ArrowRight", 1), ("End", 12), ("ArrowLeft", 11)):
        line.press(key)
        expect(film).to_have_attribute("data-step", str(step))
    shown.page.locator(".vitrine.strip input").fill("5")
    expect(film).to_have_attribute("data-step", "5")
    loss = shown.own.run.film.series("loss")[5]
    expect(film.locator(".standing")).to_contain_text(f"loss {loss:.2f}")
    box = line.bounding_box()
    shown.page.mouse.click(box["x"] + box["width"] - 3, box["y"] + 20)
    expect(film).to_have_attribute("data-step", "12")
    assert shown.page.evaluate("window.rows") == []  # nothing was asked of the server


def test_older_news_do_not_replace_newer_ones(shown):
    strip = shown.page.locator(".vitrine.strip")
    for at, step, expected in ((20, 12, 12), (10, 5, 12), (30, 13, 13)):
        shown.strip(at, step)
        expect(strip).to_have_attribute("data-step", str(expected))


def test_it_plays_to_the_end_without_the_server(shown):
    shown.press("play")
    expect(shown.film.locator(".play")).to_have_text("▶")
    expect(shown.film).to_have_attribute("data-step", "12")
    assert shown.film.evaluate("(film) => film.painted") >= 5
    assert shown.page.evaluate("window.rows") == []


def test_the_largest_change_is_the_films_and_the_difference_that_of_its_frames(shown):
    film = shown.own.run.film
    change = film.largest_change(KIND, 1, 0)
    shown.press("largest")
    expect(shown.film).to_have_attribute("data-step", str(film.steps[change.after]))
    expect(shown.film.locator(".note")).to_contain_text(f"{change.variation:.3g}"[:5])
    shown.press("difference")
    before, after = film.steps[[change.before, change.after]]
    expect(shown.film.locator(".large .heading")).to_contain_text(f"step {after} minus step {before}")
    shown.film.locator(".opener").click()
    with shown.page.expect_download() as download:
        shown.page.get_by_role("button", name="CSV", exact=True).click()
    lines = download.value.path().read_text("utf-8-sig").splitlines()[1:]
    expected = film.frame_difference(change.before, change.after)[KIND][1, 0]
    written = np.array([line.split(",")[-2] for line in lines], float).reshape(expected.shape)
    assert np.allclose(written, expected, atol=1e-6)


def test_guesses_are_those_of_the_frame_and_the_right_one_is_marked(shown):
    film = shown.own.run.film
    shown.film.locator(".places .chip").nth(1).click()
    labels = [film.lens.target_tokenizer.label(int(token)) for token in film.series("predictions.tokens")[-1, 1]]
    answer = film.lens.target_tokenizer.label(film.probe.labels(film.lens)[1])
    tokens = shown.film.locator(".guess .token")
    expect(tokens).to_have_text([f"{label} ✓" if label == answer else label for label in labels])


def test_norms_are_those_of_the_frame_and_move_with_it(shown):
    film = shown.own.run.film
    expect(shown.film.locator(".standing")).to_contain_text("every step")
    shown.film.get_by_role("slider").press("Home")
    for quantity, name, last in (
        ("std", "decoder norm", "decoder.norm.std"),
        ("mean", "encoder 1 self-attention", "encoder.layers.0.self_attention_block.norm.mean"),
        ("stream", "decoder 2 feed-forward", "decoder.layers.1.feed_forward_block.residual"),
    ):
        shown.film.locator(".norms select").select_option(quantity)
        for frame, key in ((0, "Home"), (3, "ArrowRight")):
            for _ in range(max(1, frame)):
                shown.film.get_by_role("slider").press(key)
            row = shown.film.locator(".norms .names > div").all_inner_texts().index(name)
            mean = float(film.series(last)[frame].mean())
            expect(shown.film.locator(".norms .means > div").nth(row)).to_have_text(f"{mean:#.3g}".replace("-", "−"))
    shown.press("difference")
    series = film.series(last)
    moved = float((series[3] - series[0]).mean())
    expect(shown.film.locator(".norms .means > div").nth(row)).to_have_text(f"{moved:#.3g}".replace("-", "−"))


def test_a_key_frame_offers_the_way_back(shown):
    shown.film.get_by_role("slider").press("Home")
    shown.press("keys")
    expect(shown.film.locator(".offer")).to_contain_text("step 0")
    shown.page.get_by_role("button", name="×").click()
    box = shown.film.get_by_role("slider").bounding_box()
    shown.page.mouse.click(box["x"] + 8 + (box["width"] - 16) / 3, box["y"] + 66)  # of step 4, in the lane
    shown.page.get_by_role("button", name="Branch from here").click()
    name, wanted = shown.page.evaluate("window.rows.at(-1)")
    assert (name, wanted["step"]) == ("branch", 4)


def test_new_frames_are_added_and_a_gap_is_noticed(shown):
    shown.own.step()
    shown.strip()
    expect(shown.film).to_have_attribute("data-step", str(shown.own.stands))  # it follows
    shown.own.step()
    film_data(SimpleNamespace(current=shown.own.run), shown.sent)  # type: ignore[arg-type]  # this message is lost
    shown.own.step()
    shown.strip()
    assert shown.page.evaluate("window.rows")[-1][0] == "again"
    shown.sent.begin()
    shown.strip()
    expect(shown.film).to_have_attribute("data-frames", str(len(shown.own.run.film)))
    assert shown.page.evaluate("window.rows") == []  # MOUNT empties it


def test_the_slider_takes_the_heads_of_the_same_tokens_back(shown):
    shown.grid(KIND)
    grid = shown.page.locator("#grid .vitrine")
    assert not any(head["drawn"] for head in grid.evaluate(PIXELS))
    shown.page.locator(".vitrine.strip input").fill("2")
    expect(grid).to_have_attribute("data-step", "2")
    expect(grid.locator(".tip")).to_have_text("film: step 2")
    weights = shown.own.run.film.attention(KIND)[2].reshape(-1, *shown.visible.shape)
    found = grid.evaluate(PIXELS)
    assert [head["darkest"] for head in found] == pytest.approx(weights.max(axis=(1, 2)).tolist(), abs=2)
    shown.page.locator(".vitrine.strip input").fill("0")
    shown.page.locator(".vitrine.strip input").press("End")
    expect(grid).to_have_attribute("data-step", "")


def test_heads_of_another_model_stay_as_they_are(shown):
    shown.grid("")
    shown.page.locator(".vitrine.strip input").fill("2")
    expect(shown.film).to_have_attribute("data-step", "2")
    assert not any(head["drawn"] for head in shown.page.locator("#grid .vitrine").evaluate(PIXELS))


@pytest.mark.parametrize("late", [False, True])
def test_the_end_of_a_call_that_another_has_overtaken_ends_nothing(shown, late):
    """Streamlit calls it when the script has been loaded: before the newer data come to it, or after."""
    end = "window.ends.at(-1)()"
    if late:
        end = "window.ends.at(-2)()"
        shown.show_film()
    shown.page.evaluate(end)
    if not late:
        shown.show_film()
    shown.own.step()
    shown.strip()
    expect(shown.film).to_have_attribute("data-step", str(shown.own.stands))


@pytest.mark.parametrize("lost", [False, True])
def test_what_goes_ends_and_listens_no_more(shown, lost):
    """Nor does it ask for what it lacked, in a frame that was waited for."""
    shown.page.evaluate("window.gone = document.querySelector('.training-film'); window.gone.dataset.step = 'none'")
    shown.page.evaluate(TIMERS)
    shown.page.evaluate(f"{LACKS if lost else ''}; window.ends.at(-1)()")
    shown.own.step()
    shown.sent.begin()
    shown.strip()
    expect(shown.film).to_have_count(0)
    assert shown.page.evaluate("[window.gone.dataset.step, ...window.waits]") == ["none"]


def test_names_that_were_lost_are_asked_for_with_their_frames(shown):
    shown.page.evaluate("window.__vitrine.film = undefined")
    shown.own.step()
    shown.strip()  # the newest frame, of tokens whose names came with the frames before
    assert shown.page.evaluate("window.rows")[-1][0] == "again"
    shown.sent.begin()
    shown.strip()
    expect(shown.film).to_have_attribute("data-step", str(shown.own.stands))


def test_a_film_that_waits_asks_until_it_has_come(shown):
    """Whatever was lost: a message, an event, the answer to the first question."""
    shown.page.evaluate(TIMERS)
    asked = "window.rows.map(([name]) => name)"
    shown.show_film(labels={"rows": ["another"], "columns": ["text"]})
    expect(shown.film).to_have_class("vitrine training-film waiting")
    assert shown.page.evaluate(asked) == []
    shown.page.evaluate("window.tick(); window.tick()")
    assert shown.page.evaluate(asked) == ["again", "again"]
    assert shown.page.evaluate("window.waits") == [2000, 4000, 8000]  # the answer may be large, and on its way
    shown.show_film()
    expect(shown.film).to_have_class("vitrine training-film")
    assert shown.page.evaluate("window.tick") is None
