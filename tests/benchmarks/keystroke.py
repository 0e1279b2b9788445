"""From a keystroke to the painted change, in a real browser: the application beside a page that only echoes.

    python -m tests.benchmarks.keystroke [keystrokes] [--page attention|map] [--write]

Both servers run at once; keystrokes go to one and the other in turn, and type on at a sentence (a space at its end
changes no token and is not counted). Prints medians in milliseconds: the echo, each part of the page painted, and all
of them, of which so much is the server's and the rest the browser's; `--write` puts them into RESULTS.md.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Collection

from playwright.sync_api import Page, sync_playwright

from tests.benchmarks import results
from tests.benchmarks.window import open_page, open_window
from tests.browser.server import serve

SENTENCE = (
    "She bought a red car yesterday because her old"  # typed on from here, so that it has 16 tokens in the middle
)
TYPED = " one was much too small for us and for the three dogs."
COUNTED = len(TYPED.replace(" ", ""))
ECHO = '[data-testid="stText"]'
# What a keystroke paints again on each page: the map has its picture and the facts beside it in one component. Of the
# bar only its tokens: the checks beneath them follow when all that is painted.
PARTS = {
    "attention": {
        "stages": ".vitrine.stages",
        "heads": ".vitrine.heads",
        "tokens": ".vitrine.bar .tokens.source",
        "figure": ".vitrine.heatmap",
    },
    "map": {"tokens": ".vitrine.bar .tokens.source", "map": ".model_map"},
}
TITLES = {
    "attention": "From a keystroke to the painted change",
    "map": "From a keystroke to the painted change, on the Map",
}

# Marks, for each part of the page, the frame after its last change. Observers cost nothing while nothing changes;
# a loop over animation frames would have the browser paint all the time, and doubles the figures.
WATCH = """
(selectors) => {
  // Components live in shadow roots, which stay while their content is drawn again.
  const shadows = [...document.querySelectorAll('*')].map((host) => host.shadowRoot).filter((root) => root);
  const holder = (selector) => document.querySelector(selector)?.parentElement;
  const root = (selector) => shadows.find((each) => each.querySelector(selector)) ?? holder(selector);
  const part = (selector) => (selector.includes(' ') ? root(selector).querySelector(selector) : root(selector));
  let start = 0;
  document.addEventListener('input', () => {
    start = performance.now();
    window.marks = {};
  }, true);
  const changes = { childList: true, subtree: true, attributes: true, characterData: true };
  for (const [name, selector] of Object.entries(selectors)) {
    new MutationObserver(() => {
      const marks = window.marks;
      const mark = () => (marks[name] = performance.now() - start);
      // The first task after the frame: a timer would wait behind whatever else has come meanwhile.
      requestAnimationFrame(() => scheduler.postTask(mark, { priority: 'user-blocking' }));
    }).observe(part(selector), changes);
  }
}
"""


def strike(page: Page, key: str, parts: Collection[str]) -> dict[str, float]:
    """Press a key, wait, and see when each of these parts changed last."""
    page.locator('input[aria-label="Source"]').press(key)
    page.wait_for_timeout(1500)
    # Every quarter of a second, and not before every frame, which would have the browser paint.
    page.wait_for_function("(parts) => parts.every((part) => window.marks[part])", arg=[*parts], polling=250)
    marks: dict[str, float] = page.evaluate("window.marks")
    return marks | {"server": page.evaluate("window.__vitrine?.channel.took ?? 0")}


def main(keystrokes: int, name: str, write: bool) -> None:
    parts = PARTS[name]
    with (
        serve("tests/benchmarks/echo_page.py") as echo_url,
        serve("app.py") as app_url,
        sync_playwright() as play,
    ):
        echo, app = open_window(play, echo_url, ECHO), open_page(play, app_url, name)
        for page, selectors in ((echo, {"echo": ECHO}), (app, parts)):
            page.evaluate(WATCH, selectors)
            page.locator('input[aria-label="Source"]').fill(SENTENCE)
            page.wait_for_timeout(3000)
        times: dict[str, list[float]] = {each: [] for each in ("echo", *parts, "all", "server", "browser")}
        tokens: list[int] = []
        for key in TYPED:
            if len(tokens) == keystrokes:
                break
            if key == " ":
                for page in (echo, app):
                    page.locator('input[aria-label="Source"]').press(key)
                    page.wait_for_timeout(1500)
                continue
            times["echo"].append(strike(echo, key, ["echo"])["echo"])
            marks = strike(app, key, parts)
            for part in parts:
                times[part].append(marks[part])
            times["all"].append(max(marks[part] for part in parts))
            times["server"].append(marks["server"])  # from the text's turn to the views, traced, checked and packed
            times["browser"].append(times["all"][-1] - marks["server"])  # all else: the way, and painting
            tokens.append(app.locator(".vitrine .tokens.source .chip").count())
    medians = {part: statistics.median(values) for part, values in times.items()}
    middle = statistics.median(tokens)
    lines = [f"{len(tokens)} keystrokes each; source tokens: {min(tokens)} to {max(tokens)}, median {middle:.0f}"]
    for part, value in medians.items():
        lines.append(f"{part:8} {value:7.0f} ms   {value / medians['echo']:.2f} times the echo")
    results.publish(TITLES[name], lines, write)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="From a keystroke to the painted change, in a real browser.")
    parser.add_argument(
        "keystrokes", type=results.at_least_one, nargs="?", default=COUNTED, help=f"that count, at most {COUNTED}"
    )
    parser.add_argument("--page", choices=PARTS, default="attention", help="on which is typed")
    parser.add_argument("--write", action="store_true", help="put the medians into RESULTS.md")
    options = parser.parse_args()
    main(options.keystrokes, options.page, options.write)
