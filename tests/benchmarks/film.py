"""The demonstration in the application: how soon it is right, and how many frames a second its film plays with.

    python -m tests.benchmarks.film [rounds] [--steps STEPS] [--write]

A click begins the demonstration, and Chromium shows its page until the goal is reached; the seconds are those from the
click on, the steps those of the first validation (every 100 steps) at which it is. Then the training pauses, and the
film plays from its first frame to its last at each speed: so many frames of it are drawn a second, and so many
milliseconds lie between two animation frames of the browser. Nothing is asked of the server meanwhile. With `--steps`
the training pauses after so many steps and 100 more, and only the film is measured.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import time
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from tests.benchmarks import results
from tests.benchmarks.window import open_window
from tests.browser.server import serve

SPEEDS, TARGET = (30, 60), 30  # frames a second
LONGEST = 900.0  # seconds
REACHED = re.compile(r"was reached after step ([\d,]+)")
PLAY = """
async (film) => {
  film.querySelector(".line").dispatchEvent(new KeyboardEvent("keydown", { key: "Home" }));
  await new Promise((done) => setTimeout(done, 500));
  const [before, began, deltas] = [film.painted, performance.now(), []];
  let last = began;
  film.querySelector(".play").click();
  await new Promise((done) => {
    const next = (now) => {
      deltas.push(now - last);
      last = now;
      if (film.player.playing) requestAnimationFrame(next);
      else done();
    };
    requestAnimationFrame(next);
  });
  return { deltas: deltas.slice(1), painted: film.painted - before, seconds: (performance.now() - began) / 1000 };
}
"""


def reach(page: Page, steps: int) -> str:
    """Begin the demonstration, and wait for its goal, or for so many steps; how long that took."""
    page.get_by_role("button", name="Begin and run").click()
    began = time.perf_counter()
    while time.perf_counter() - began < LONGEST:
        seconds = time.perf_counter() - began
        if steps and int(page.locator(".vitrine.strip").get_attribute("data-step") or 0) >= steps:
            return f"{steps} steps after {seconds:.0f} s"
        if found := REACHED.search(page.locator(".vitrine.progress .text").first.inner_text()):
            return f"99 % of unseen words exactly right after {found[1]} steps, {seconds:.0f} s"
        page.wait_for_timeout(500)
    raise RuntimeError(f"the demonstration has not reached its goal within {LONGEST:.0f} s")


def play(page: Page, speed: int, rounds: int) -> list[dict[str, Any]]:
    """The film from beginning to end at one speed, so many times."""
    film = page.locator(".vitrine.training-film")
    film.locator(".controls select").select_option(str(speed))
    return [film.evaluate(PLAY) for _ in range(rounds)]


def main(rounds: int, steps: int, write: bool) -> None:
    with serve("app.py") as url, sync_playwright() as chromium:
        page = open_window(chromium, f"{url}/training?model=reverse&lang=en", ".vitrine.strip")
        reached = reach(page, steps)
        page.locator(".vitrine.strip").get_by_role("button", name="Pause").click()
        if steps:
            page.wait_for_selector(".vitrine.strip[data-status='paused']")
            page.get_by_role("button", name="Train 100 steps").click()
            page.wait_for_timeout(3000)
            page.wait_for_selector(".vitrine.strip[data-status='idle']", timeout=300_000)
        page.get_by_role("radio", name="Film", exact=True).click()
        page.wait_for_timeout(5000)
        frames = int(page.locator(".vitrine.training-film").get_attribute("data-frames") or 0)
        played = {speed: play(page, speed, rounds) for speed in SPEEDS}
    lines = [
        f"{reached}; load {os.getloadavg()[0]:.1f}",
        f"film of {frames} frames, played {rounds} times at each speed; target ≥ {TARGET} a second",
    ]
    for speed, found in played.items():
        deltas = np.concatenate([each["deltas"] for each in found])
        drawn = statistics.median(each["painted"] / each["seconds"] for each in found)
        lines.append(
            f"at {speed}/s: {drawn:5.1f} frames of the film drawn a second; between animation frames "
            f"{np.median(deltas):.1f} ms (median), {np.percentile(deltas, 95):.1f} (95 %), {deltas.max():.1f} (longest)"
        )
    results.publish("The film and its demonstration", lines, write)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The demonstration's time, and the speed of its film.")
    parser.add_argument("rounds", type=results.at_least_one, nargs="?", default=5)
    parser.add_argument("--steps", type=int, default=0, help="pause after so many, and measure the film only")
    parser.add_argument("--write", action="store_true", help="put the figures into RESULTS.md")
    options = parser.parse_args()
    main(options.rounds, options.steps, options.write)
