"""Every page and each of its tabs in a window, and what layout.js finds wrong there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Page, expect

from tests.browser.looking import stands_still
from tests.browser.server import ROOT
from viz.frame.app import FIRST

LAYOUT = Path(__file__).with_name("layout.js")
AXE = ROOT / "viz" / "web" / "node_modules" / "axe-core" / "axe.min.js"
# Rows of choices that change the whole of what is below them, by their keys, outer ones first.
TABS = (
    *("part", "experiment", "below", "residual_view", "look", "view", "training_part"),
    *("checkpoints_part", "weights_view", "compare_view", "lab_part", "arithmetic"),
)
STILL = """(quiet) => {
  const now = [...document.querySelectorAll("[data-testid=stMain] *")].length + " " +
    document.querySelector("[data-testid=stMain]").scrollHeight;
  const slides = document.getAnimations().some(({ playState, effect }) =>
    playState === "running" && Number.isFinite(effect.getComputedTiming().endTime)); // as the menu of a phone does
  if (slides || now !== window.sameAs) [window.sameAs, window.sameSince] = [now, performance.now()];
  return performance.now() - window.sameSince > quiet;
}"""


DESK = ((1440, 900), (1366, 650), (1280, 720), (1024, 768), (800, 900))
PHONE = (390, 844)
LOOKS = (("en", "light"), ("en", "dark"), ("zh", "dark"), ("zh", "light"))


@dataclass(frozen=True)
class Finding:
    page: str
    size: str
    kind: str
    selector: str
    text: str
    numbers: dict[str, Any]
    after: str = ""  # what was pointed at or pressed before

    @property
    def place(self) -> tuple[str, ...]:
        """The same whatever was done before."""
        return self.page, self.size, self.kind, self.selector, self.text

    def __str__(self) -> str:
        numbers = " ".join(f"{name} {value}" for name, value in self.numbers.items())
        after = f" after {self.after}" if self.after else ""
        return f"{self.kind}: {self.selector} “{self.text}” {numbers} ({self.page}, {self.size}{after})"


def prepare(page: Page) -> None:
    """From its next document on a page can be looked at."""
    page.add_init_script(path=LAYOUT)
    if AXE.exists():
        page.add_init_script(path=AXE)


class Eyes:
    """A window that is led over the pages, and looks."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.language, self.scheme = "en", "light"
        self.tab = ""  # the page and its tabs, as findings name them

    def settle(self) -> None:
        """Until what is computed is there, and has stood still for a while."""
        stands_still(self.page)
        expect(self.page.locator('[data-stale="true"]')).to_have_count(0)
        waited = ".stMain .stElementContainer:not(.st-key-demonstration_progress) .vitrine.progress:visible"
        expect(self.page.locator(waited)).to_have_count(0)  # its end moves the rest; a training has its own time
        self.page.wait_for_function(STILL, arg=200, polling=50)

    def resize(self, size: tuple[int, int]) -> None:
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.wait_for_timeout(100)
        self.page.wait_for_function(STILL, arg=150, polling=50)

    def dress(self, language: str, scheme: str) -> None:
        if scheme != self.scheme:
            self.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        if language != self.language:
            buttons = self.page.locator('.st-key-language [role="radio"]')
            buttons.nth(["en", "zh"].index(language)).dispatch_event("click")
        self.language, self.scheme = language, scheme
        self.settle()

    def turn_to(self, name: str) -> None:
        """The page of this name, on its first tab; the first page has no name in its address."""
        links = self.page.locator('[data-testid="stSidebar"] [data-testid="stPageLink-NavLink"]')
        link = links if name == FIRST else links.and_(self.page.locator(f'[href$="{name}"]'))
        link.first.dispatch_event("click")
        self.tab = name
        self.settle()

    def tabs(self, seen: tuple[str, ...] = ()) -> Iterator[str]:
        """Each tab of the page in turn, those of the rows of tabs that come with it too."""
        there = "(keys) => keys.filter((key) => document.querySelector(`.stMain .st-key-${key} [role=radio]`))"
        new = [key for key in self.page.evaluate(there, TABS) if key not in seen]
        if not new:
            yield self.tab
            return
        row = self.page.locator(f'.stMain .st-key-{new[0]} [role="radio"]')
        before = self.tab
        for place in range(row.count()):
            if row.nth(place).get_attribute("aria-checked") != "true":
                row.nth(place).dispatch_event("click")
                self.settle()
            self.tab = f"{before} › {new[0]} {place + 1}"
            yield from self.tabs((*seen, *new))
        self.tab = before

    def look(self) -> list[Finding]:
        """What is wrong while nothing is pointed at."""
        return self.find("wide", "texts", "covered", *(["accessible"] if AXE.exists() else []))

    def find(self, *checks: str, after: str = "") -> list[Finding]:
        size = self.page.viewport_size
        window = f"{size['width']}×{size['height']} {self.language} {self.scheme}" if size else ""
        return [
            Finding(self.tab, window, **each, after=after)
            for check in checks
            for each in self.page.evaluate("(check) => window.layout[check]()", check)
        ]

    def point(self, known: set[str]) -> list[Finding]:
        """What is wrong while one of each kind of thing is pointed at, but for kinds that are known."""

        def react(place: list[float]) -> None:
            self.page.mouse.move(*place)
            self.page.wait_for_timeout(150)

        return [each for kind in self.kinds(known) for each in self.after(kind, "pointing at", react, "moved")]

    def press(self, known: set[str], by_finger: bool = False) -> list[Finding]:
        """What is wrong after one of each kind of thing was pressed, but for known kinds; then it is undone."""
        tab, path = self.tab, urlsplit(self.page.url).path
        strike = self.page.touchscreen.tap if by_finger else self.page.mouse.click
        found: list[Finding] = []

        def react(place: list[float]) -> None:
            strike(*place)
            self.page.wait_for_timeout(150)
            self.settle()

        for kind in self.kinds(known):
            found += self.after(kind, "pressing", react)
            self.page.keyboard.press("Escape")
            if urlsplit(self.page.url).path != path:
                self.turn_to(tab.split(" › ")[0])
                self.tab = tab
        return found

    def kinds(self, known: set[str]) -> Iterator[str]:
        """Kinds of things that react here, but for those that are known, which they are from now on."""
        for kind in self.page.evaluate("() => window.layout.reacting()"):
            if kind not in known:
                known.add(kind)
                yield kind

    def after(self, kind: str, act: str, react: Callable[[list[float]], None], *checks: str) -> list[Finding]:
        """What is wrong after something was done to one of this kind and was not before."""
        place = self.page.evaluate("(kind) => window.layout.aim(kind)", kind)
        if not place:
            return []
        before = {each.place for each in self.find("wide", "texts")}
        react(place)
        found = self.find(*checks, "wide", "texts", after=f"{act} {kind}")
        self.page.mouse.move(1, 1)
        return [each for each in found if each.place not in before]
