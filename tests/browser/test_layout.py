"""What a person would see wrong on a page, looked for by a machine: layout.js has the rules, layout.py leads it about.

By default each page is looked at in one size, one language and one theme, which differ from page to page; with -m slow
each of its tabs in all sizes, in both languages and themes, and after everything that reacts was pointed at or pressed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.layout import AXE, DESK, LOOKS, PHONE, Eyes, Finding, prepare
from viz.frame.app import PAGES

pytestmark = pytest.mark.browser

PAGE = """<html lang="en"><title>A page</title><style>body {{ margin: 0; font: 14px sans-serif }}</style>
<main data-testid="stMain" style="height: 100vh; overflow: auto"><h1>A page</h1>{}</main>"""
DRAWN = "<canvas width=100 height=50></canvas><script>{}</script>".format(
    "Object.assign(document.querySelector('canvas').getContext('2d'), {{ font: '{}' }}).fillText('{}', {}, 30)"
)
FAULTS = {
    "wide": "<div style='width: 1200px'>words</div>",
    "covered": "<button>Press</button><p style='position: fixed; inset: 0; background: white'>over it</p>",
    "squeezed": "<p style='width: 20px; overflow-wrap: anywhere'>a feed-forward network</p>",
    "cut": "<p style='width: 40px; overflow: hidden; white-space: nowrap'>a feed-forward network</p>",
    "small": "<p style='font-size: 10px'>words</p>",
    "moved": "<style>button:hover { margin-left: 9px }</style><button>Press</button>",
    "axe color-contrast": "<p style='color: #999'>words</p>",
    "small on a canvas": DRAWN.format("10px sans-serif", "words", 9),
    "cut on a canvas": DRAWN.format("14px sans-serif", "words", -9),
}
SOUND = """<button>Press</button><p>words in a line</p><p style='width: 40px; overflow: hidden; white-space: nowrap;
text-overflow: ellipsis'>a feed-forward network</p>""" + DRAWN.format("14px sans-serif", "words", 9)
# Faults that are still there, by page and kind: how many places have one. A number here only falls.
KNOWN: dict[tuple[str, str], int] = {}
SIZES = (*DESK, PHONE)


@pytest.fixture(scope="module")
def window(browser: Browser, url: str) -> Iterator[Callable[[bool], Eyes]]:
    """A window of a desk or of a phone, which all tests of this file share."""
    windows: dict[bool, Eyes] = {}

    def eyes(phone: bool) -> Eyes:
        if phone not in windows:
            touched = {"is_mobile": True, "has_touch": True} if phone else {}
            width, height = PHONE if phone else DESK[0]
            size = {"width": width, "height": height}
            context = browser.new_context(viewport=size, locale="en-US", service_workers="block", **touched)  # type: ignore[arg-type]
            windows[phone] = Eyes(opened(context.new_page(), url))
        return windows[phone]

    yield eyes
    for each in windows.values():
        each.page.context.close()


def opened(page: Page, url: str) -> Page:
    prepare(page)
    page.goto(url, wait_until="commit")
    expect(page.locator(".vitrine[data-painted]").first).to_be_visible()
    return page


def accept(found: Iterable[Finding]) -> None:
    """Nothing is wrong but what is known."""
    places = {(each.page.split(" › ")[0], each.kind, each.selector): each for each in found}
    count = Counter((each.page.split(" › ")[0], each.kind) for each in places.values())
    more = {place for place, number in count.items() if number > KNOWN.get(place, 0)}
    new = [str(each) for each in places.values() if (each.page.split(" › ")[0], each.kind) in more]
    assert not new, "\n".join([f"{len(new)} places, known {[KNOWN.get(each, 0) for each in more]}:", *new])


@pytest.fixture(scope="module")
def empty(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1000, "height": 600})
    prepare(page)
    yield page
    page.close()


@pytest.mark.parametrize("kind", [*FAULTS, ""])
def test_a_fault_is_seen_and_a_sound_page_has_none(empty, kind):
    if kind.startswith("axe") and not AXE.exists():
        pytest.skip("npm ci in viz/web brings axe-core")
    empty.goto("about:blank")
    empty.set_content(PAGE.format(FAULTS.get(kind, SOUND)))
    eyes = Eyes(empty)
    assert {each.kind for each in (*eyes.look(), *eyes.point(set()))} == ({kind.split(" on ")[0]} if kind else set())


def show(window: Callable[[bool], Eyes], name: str, size: tuple[int, int], look: tuple[str, str]) -> Eyes:
    eyes = window(size == PHONE)
    if size != PHONE:
        eyes.resize(size)
    eyes.dress(*look)
    eyes.turn_to(name)
    return eyes


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window_and_can_be_read(window, name):
    """Each page in another size, language and theme."""
    place = [*PAGES].index(name)
    eyes = show(window, name, SIZES[place % len(SIZES)], LOOKS[place * len(LOOKS) // len(PAGES)])
    accept(each for _tab in eyes.tabs() for each in eyes.look())


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS[::2])
@pytest.mark.parametrize("name", PAGES)
def test_every_tab_fits_every_size_and_nothing_moves_when_it_is_pointed_at(window, name, look):
    eyes = show(window, name, DESK[0], look)
    found: list[Finding] = []
    known: set[str] = set()
    for _tab in eyes.tabs():
        found += eyes.look()
        found += eyes.point(known)
        for size in DESK[1:]:
            eyes.resize(size)
            found += eyes.find("wide", "texts", "covered")
        eyes.resize(DESK[0])
    accept(found)


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS[::2])
@pytest.mark.parametrize("name", PAGES)
def test_every_tab_fits_a_phone(window, name, look):
    eyes = show(window, name, PHONE, look)
    accept(each for _tab in eyes.tabs() for each in eyes.look())


@pytest.mark.slow
@pytest.mark.parametrize("size", [DESK[1], PHONE])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window_after_a_press_on_each_kind_of_thing(window, name, size):
    accept(show(window, name, size, LOOKS[0]).press(set()))
