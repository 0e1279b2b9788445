"""On every page that shows a text: its figures follow the typing, hostile tokens stay text, the saved page is whole."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from model.inference.text_model import TextModel
from tests.browser.conftest import Visit
from tests.browser.looking import eventually, source, stands_still
from tests.browser.test_hostile import INTRUDERS
from tests.viz.hostile import WORDS, hostile_model

pytestmark = pytest.mark.browser

PLAIN, HOSTILE = "`a` $b$ **e**", " ".join(WORDS)
# A page by its link, the figures that it paints at first, and how many of them do not depend on the text.
PAGES = {
    "Map": ("model_map", 0),
    "Tokens and positions": ("heatmap chart chart chart", 0),
    "Attention": ("heads stages heatmap panels", 0),
    "Masks": ("panels panels panels", 0),
    "Norms and residual": ("heatmap chart chart chart chart chart", 1),  # γ and β
    "Feed-forward": ("heatmap chart heatmap chart chart chart", 0),
    "Predictions": ("chart heatmap ranking", 0),
}
# Of every figure what it says it has painted, and a number that changes with its pixels, or its words.
FIGURES = """
(printed) => {
  const found = [];
  const roots = [document];
  for (const root of roots) {
    roots.push(...[...root.querySelectorAll("*")].map((node) => node.shadowRoot).filter(Boolean));
    found.push(...root.querySelectorAll(".vitrine[data-painted]"));
  }
  const print = (bytes) => bytes.reduce((sum, value) => (sum * 31 + value) % 1000000007, 0);
  const kind = ({ className }) => className.split(" ").find((name) => !["vitrine", "plot", "filed"].includes(name));
  if (!printed) return found.map((figure) => [kind(figure), figure.dataset.painted]);
  return found.map((figure) => {
    const canvases = [...figure.querySelectorAll("canvas")].filter(({ width, height }) => width && height);
    const seen = canvases.map((each) => each.getContext("2d").getImageData(0, 0, each.width, each.height).data);
    return {
      print: seen.length ? seen.map(print).join() : figure.textContent,
      canvases: canvases.length,
    };
  });
}
"""


# Buttons and links without a name: whose sign is no word, and which nothing else calls by one.
NAMELESS = """
() => {
  const roots = [document];
  const found = [];
  for (const root of roots) {
    const all = [...root.querySelectorAll("*")];
    roots.push(...all.map((node) => node.shadowRoot).filter(Boolean));
    found.push(...all.filter((node) => node.matches("button:not(.chip), [role=button], a[href], summary")));
  }
  const name = (node) => [node.textContent, node.getAttribute("aria-label"), node.title].join(" ");
  const heard = found.filter((node) => node.checkVisibility() && !node.ariaHidden);
  const nameless = heard.filter((node) => !/[\\p{L}\\p{N}]/u.test(name(node)));
  return nameless.map((node) => node.outerHTML.slice(0, 200));
}
"""


@dataclass
class Typed:
    """A page before and after a hostile text was typed, and the file that it was saved as."""

    name: str
    before: list[dict]
    after: list[dict]
    nameless: list[str]
    intruders: int
    saved: str
    file: str


@pytest.fixture(scope="module")
def model() -> Iterator[TextModel]:
    """A model among those that this machine's user has saved, whose tokens are hostile each by itself."""
    folder = Path(os.environ["VITRINE_SAVED"]) / "hostile"
    yield hostile_model(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def new_page(browser: Browser, url: str, model: TextModel) -> Iterator[Callable[[], Page]]:
    """Opens windows; none may see an error or ask another machine."""
    visits: list[Visit] = []

    def new() -> Page:
        context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US", service_workers="block")
        visits.append(Visit(context, url))
        return visits[-1].open(source=PLAIN, model=model.name)

    yield new
    for visited in visits:
        visited.context.close()
    for visited in visits:
        assert not visited.errors
        assert not visited.foreign


@pytest.fixture(scope="module")
def windows() -> list[Page]:
    """The window for all pages, while nothing has failed in it: what fails is tried again in another."""
    return []


@pytest.fixture(scope="module", params=PAGES)
def typed(request, windows, new_page, model) -> Typed:
    name = request.param
    page = windows.pop() if windows else new_page()
    source(page).fill(PLAIN)
    page.get_by_role("link", name=name, exact=True).click()
    before = painted(page, model, name, PLAIN)
    source(page).focus()
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.insert_text(HOSTILE[:-2])
    page.keyboard.type(HOSTILE[-2:])
    after = painted(page, model, name, HOSTILE)
    with page.expect_download() as download:
        page.get_by_role("button", name="Menu", exact=True).click()
        page.get_by_role("button", name="Save this page").click()
    saved = download.value.path().read_text("utf-8")
    nameless, intruders = page.evaluate(NAMELESS), page.evaluate(INTRUDERS)
    windows.append(page)
    return Typed(name, before, after, nameless, intruders, saved, download.value.suggested_filename)


def painted(page: Page, model, name: str, text: str) -> list[dict]:
    """The page's figures as soon as all are there, of this text."""
    stamp = " ".join(model.source_tokens(text).labels)
    expected = [[kind, stamp] for kind in PAGES[name][0].split()]
    eventually(page, lambda: page.evaluate(FIGURES, False) == expected)
    stands_still(page)  # and painted
    return page.evaluate(FIGURES, True)


class Saved(HTMLParser):
    """What a browser would find in a saved page: its elements, what it would ask for, what would run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.painted: list[str] = []
        self.pictures, self.asked, self.runs = 0, [], []  # type: int, list[str], list[str]
        self.policy, self.scripts, self.numbers = "", [], 0  # type: str, list[str], int
        self.script: list[str] | None = None
        self.feed(text)
        self.asked += [
            each for each in re.findall(r"url\(\s*[\"']?([^\"')]+)", text) if not each.startswith(("data:", "#"))
        ]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "data-painted" in given:
            self.painted.append(given["data-painted"])
        self.pictures += tag == "img" and given.get("src", "").startswith("data:image/png")
        for name in ("src", "href", "xlink:href", "srcset", "poster", "action", "data"):
            if name in given and not given[name].startswith(("data:", "#")):
                self.asked.append(f"{tag} {name}={given[name]}")
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        if tag == "script" and not given:
            self.script = []
        elif tag == "script" and given == {"type": "application/json", "id": "vitrine-numbers"}:
            self.numbers += 1
        elif tag in ("script", "base", "object", "embed") or any(name.startswith("on") for name in given):
            self.runs.append(f"{tag} {given}")

    def handle_data(self, data: str) -> None:
        if self.script is not None:
            self.script.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "script" and self.script is not None:
            self.scripts.append("".join(self.script))
            self.script = None


def test_a_pages_figures_follow_the_typing(typed):
    changed = [old["print"] != new["print"] for old, new in zip(typed.before, typed.after, strict=True)]
    assert changed.count(False) <= PAGES[typed.name][1]


def test_every_button_of_a_page_has_a_name(typed):
    assert not typed.nameless


def test_hostile_tokens_stay_text_on_a_page(typed):
    assert typed.intruders == 0


def test_a_saved_page_is_whole_and_asks_for_nothing(typed, model):
    found = Saved(typed.saved)
    stamp = " ".join(model.source_tokens(HOSTILE).labels)
    assert found.painted.count(stamp) == len(typed.after)
    assert found.pictures >= sum(figure["canvases"] for figure in typed.after)
    assert not found.asked
    assert not found.runs
    assert found.numbers == len(found.scripts) == 1
    digest = base64.b64encode(hashlib.sha256(found.scripts[0].encode()).digest()).decode()
    assert found.policy.startswith("default-src 'none'; ")
    assert found.policy.endswith(f"; script-src 'sha256-{digest}'")
    assert len(typed.saved.encode()) < 5_000_000
