"""From a keystroke to the painted change while the shown model is trained, beside the same page with the training
paused.

    python -m tests.benchmarks.typing_while_training [model] [rounds] [--write]

One browser and one server: the strip trains a model, and in each round a key is pressed while the training stands and
another while it runs, in turn. A part of the page is painted in the frame in which it first says that it shows the new
text; both figures are medians of the last part to come.
"""

from __future__ import annotations

import argparse
import os
import statistics

from playwright.sync_api import Page, sync_playwright

from tests.benchmarks import results
from tests.benchmarks.window import open_page
from tests.browser.server import serve

TEXTS = {"reverse": ("abcdefgh", "ijklmnop"), "eng-cmn": ("She bought a red car", "yesterday because")}
TARGET = 1.5

# Marks, for each part of the page, the frame after it first shows another text than before the keystroke.
WATCH = """
() => {
  const shadows = [...document.querySelectorAll('*')].map((host) => host.shadowRoot).filter((root) => root);
  const parts = shadows.flatMap((root) => [...root.querySelectorAll('[data-painted]')]);
  const before = parts.map((part) => part.dataset.painted);
  const marks = (window.marks = parts.map(() => null));
  let start = 0;
  const begin = () => (start = performance.now());
  document.addEventListener('input', begin, { capture: true, once: true });
  parts.forEach((part, index) => {
    new MutationObserver(() => {
      if (marks[index] !== null || part.dataset.painted === before[index]) return;
      marks[index] = 0;
      const mark = () => (marks[index] = performance.now() - start);
      requestAnimationFrame(() => scheduler.postTask(mark, { priority: 'user-blocking' }));
    }).observe(part, { attributes: true, attributeFilter: ['data-painted'] });
  });
  return parts.length;
}
"""
DONE = "() => window.marks.every((mark) => mark > 0)"


def strike(page: Page, key: str) -> float:
    """Press a key, and see when the last part of the page shows it."""
    assert page.evaluate(WATCH)
    page.locator('input[aria-label="Source"]').press(key)
    page.wait_for_function(DONE, timeout=30_000)
    return float(max(page.evaluate("window.marks")))


def turn(page: Page, button: str, status: str) -> None:
    """Press a button of the strip until the training is in this state."""
    strip = page.locator(".vitrine.strip")
    while strip.get_attribute("data-status") != status:
        page.get_by_role("button", name=button, exact=True).click()
        page.wait_for_timeout(1500)


def main(model: str, rounds: int, write: bool) -> None:
    first, typed = TEXTS[model]
    keys = (typed * rounds)[: 2 * rounds]
    times: dict[str, list[float]] = {"paused": [], "running": []}
    with serve("app.py") as url, sync_playwright() as play:
        page = open_page(play, url, "attention", model=model, source=first)
        page.get_by_role("button", name="1: Train one step", exact=True).click()
        page.wait_for_selector(".vitrine.strip[data-step='1']")
        page.wait_for_timeout(2000)
        for number, key in enumerate(key for key in keys if key != " "):
            state, button = (("paused", "Pause"), ("running", "Train on"))[number % 2]
            if number:  # the one step has left it standing
                turn(page, button, state)
            if number % 8 == 6:
                page.locator('input[aria-label="Source"]').fill(first)
                page.wait_for_timeout(2000)
            times[state].append(strike(page, key))
            page.wait_for_timeout(500)
    paused, running = (statistics.median(times[state]) for state in ("paused", "running"))
    lines = (
        f"model {model}, {len(times['running'])} keystrokes each, in turn; load {os.getloadavg()[0]:.1f}",
        f"paused  {paused:6.0f} ms",
        f"running {running:6.0f} ms   {running / paused:.2f} times; target ≤ {TARGET}",
    )
    results.publish("From a keystroke to the painted change while training", lines, write)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="From a keystroke to the painted change while a model is trained.")
    parser.add_argument("model", nargs="?", default="eng-cmn", choices=TEXTS)
    parser.add_argument("rounds", type=results.at_least_one, nargs="?", default=12)
    parser.add_argument("--write", action="store_true", help="put the medians into RESULTS.md")
    options = parser.parse_args()
    main(options.model, options.rounds, options.write)
