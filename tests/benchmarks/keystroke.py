"""From a keystroke to the painted change, in a real browser: the application beside a page that only echoes.

    python -m tests.benchmarks.keystroke [keystrokes] [--write]

Both servers run at once; keystrokes go to one and the other in turn, and type on at a sentence (a space at its end
changes no token and is not counted). Prints medians in milliseconds: the echo, every
head's thumbnail painted, and the whole page painted (tokens, stages and the large figure too), of which so much is the
server's and the rest the browser's; `--write` puts them into RESULTS.md.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.benchmarks import results
from tests.benchmarks.window import open_window
from tests.browser.server import serve

ROOT = Path(__file__).parent.parent.parent
SENTENCE = (
    "She bought a red car yesterday because her old"  # typed on from here, so that it has 16 tokens in the middle
)
TYPED = " one was much too small for us and for the three dogs."

# Marks, for each part of the page, the frame after its last change. Observers cost nothing while nothing changes;
# a loop over animation frames would have the browser paint all the time, and doubles the figures.
WATCH = """
() => {
  // Components live in shadow roots, which stay while their content is drawn again.
  const shadows = [...document.querySelectorAll('*')].map((host) => host.shadowRoot).filter((root) => root);
  const inside = (selector) => shadows.find((root) => root.querySelector(selector));
  const parts = {
    echo: document.querySelector('[data-testid="stText"]')?.parentElement,
    heads: inside('.vitrine.heads'),
    tokens: inside('.vitrine.bar'),
    stages: inside('.vitrine.stages'),
    figure: inside('.vitrine.heatmap'),
  };
  let start = 0;
  document.addEventListener('input', () => {
    start = performance.now();
    window.marks = {};
  }, true);
  const changes = { childList: true, subtree: true, attributes: true, characterData: true };
  for (const [name, node] of Object.entries(parts)) {
    if (!node) continue;
    new MutationObserver(() => {
      const marks = window.marks;
      const mark = () => (marks[name] = performance.now() - start);
      // The first task after the frame: a timer would wait behind whatever else has come meanwhile.
      requestAnimationFrame(() => scheduler.postTask(mark, { priority: 'user-blocking' }));
    }).observe(node, changes);
  }
}
"""


def strike(page: Page, key: str, wanted: set[str]) -> dict[str, float]:
    """Press a key, wait, and see when each part changed last."""
    page.locator('input[aria-label="Source"]').press(key)
    page.wait_for_timeout(1500)
    marks: dict[str, float] = page.evaluate("window.marks")
    assert wanted <= marks.keys(), f"no change of {wanted - marks.keys()}"
    return marks | {"server": page.evaluate("window.__vitrine?.channel.took ?? 0")}


def main(keystrokes: int, write: bool) -> None:
    parts = {"heads", "tokens", "stages", "figure"}
    with (
        serve("tests/benchmarks/echo_page.py") as echo_url,
        serve("app.py") as app_url,
        sync_playwright() as play,
    ):
        echo, app = open_window(play, echo_url, '[data-testid="stText"]'), open_window(play, app_url)
        for page in (echo, app):
            page.evaluate(WATCH)
            page.locator('input[aria-label="Source"]').fill(SENTENCE)
            page.wait_for_timeout(3000)
        names = ("echo", *parts, "all", "server", "browser")
        times: dict[str, list[float]] = {name: [] for name in names}
        tokens = []
        for key in TYPED[:keystrokes]:
            if key == " ":
                for page in (echo, app):
                    page.locator('input[aria-label="Source"]').press(key)
                    page.wait_for_timeout(1500)
                continue
            times["echo"].append(strike(echo, key, {"echo"})["echo"])
            marks = strike(app, key, parts)
            for part in parts:
                times[part].append(marks[part])
            times["all"].append(max(marks[part] for part in parts))
            times["server"].append(marks["server"])  # from the text's turn to the views, traced, checked and packed
            times["browser"].append(times["all"][-1] - marks["server"])  # all else: the way, and painting
            tokens.append(app.locator(".vitrine .tokens.source .chip").count())
    medians = {name: statistics.median(values) for name, values in times.items()}
    middle = statistics.median(tokens)
    lines = [f"{len(tokens)} keystrokes each; source tokens: {min(tokens)} to {max(tokens)}, median {middle:.0f}"]
    for name, value in medians.items():
        lines.append(f"{name:8} {value:7.0f} ms   {value / medians['echo']:.2f} times the echo")
    results.publish("From a keystroke to the painted change", lines, write)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="From a keystroke to the painted change, in a real browser.")
    parser.add_argument("keystrokes", type=int, nargs="?", default=len(TYPED))
    parser.add_argument("--write", action="store_true", help="put the medians into RESULTS.md")
    options = parser.parse_args()
    main(options.keystrokes, options.write)
