"""From a click on ten steps of training to the first step that is seen, and from one step to the next.

    python -m tests.benchmarks.first_step [model] [rounds] [--write]

One browser and one warm server: in each round a new visitor opens the Attention page, looks at it for five seconds and
clicks on "Train 10 steps". A step is seen in the frame after the strip first says it. `moved` counts how often the
figure was drawn anew while the strip went from the first step to the tenth; steps that are shorter than a look are
passed over, the newest one wins. The first round warms the server up and does not count. Beside these stand two
figures that other work on the machine changes less: processor time of the server for the ten steps, and the time of
as many steps of the bare trainer with the same batches in this process, in the same minute.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from dataclasses import replace

from playwright.sync_api import Page, sync_playwright

from model.checkpoints.load import open_checkpoint
from model.inference.copies import trainable
from model.runtime.device import compute_alone
from model.training.trainer import Trainer
from tests.benchmarks import results
from tests.benchmarks.watching import child, seconds_of
from tests.benchmarks.window import READY
from tests.browser.server import CHROMIUM_OPTIONS, PATIENCE, ROOT, serve
from viz.state.training import WATCHED, material_of, usual_plan

TEXT, STEPS = "She bought a red car yesterday.", 10
LOOKED = 5000  # milliseconds that a page has been open before the click
FIRST, EACH = 1.5, 0.4  # seconds: the goals

# Notes when the strip first says each step, and how often the figures were drawn by then.
WATCH = """
() => {
  const roots = [...document.querySelectorAll('*')].map((host) => host.shadowRoot).filter((root) => root);
  const strip = roots.map((root) => root.querySelector('.vitrine.strip')).find((found) => found);
  const figures = roots.flatMap((root) => [...root.querySelectorAll('.vitrine.heatmap[data-painted]')]);
  const marks = (window.marks = []);
  let drawn = 0, start = 0;
  strip.addEventListener('click', () => (start = performance.now()), { capture: true, once: true });
  const drawing = new MutationObserver(() => (drawn += 1));
  figures.forEach((figure) => drawing.observe(figure, { attributes: true, attributeFilter: ['data-painted'] }));
  new MutationObserver(() => {
    const step = Number(strip.dataset.step);
    const mark = () => marks.push([(performance.now() - start) / 1000, step, drawn]);
    requestAnimationFrame(() => scheduler.postTask(mark, { priority: 'user-blocking' }));
  }).observe(strip, { attributes: true, attributeFilter: ['data-step'] });
}
"""
DONE = f"() => (window.marks.at(-1) || [0, 0])[1] >= {STEPS}"


def visit(page: Page, url: str, server: int) -> tuple[float, float, float, float, float]:
    """Seconds to the first step seen and from one to the next, steps seen, drawings of the figure, processor time."""
    page.goto(url)
    page.wait_for_selector(READY["attention"])
    page.wait_for_timeout(LOOKED)
    page.evaluate(WATCH)
    before = seconds_of(server)[""]
    page.get_by_role("button", name=f"Train {STEPS} steps", exact=True).click()
    page.wait_for_function(DONE, timeout=PATIENCE, polling=100)
    used = seconds_of(server)[""] - before
    page.wait_for_timeout(1000)  # the figure may follow the strip
    marks = [mark for mark in page.evaluate("window.marks") if mark[1] > 0]
    (first, begins, _), (last, ends, drawn) = marks[0], marks[-1]
    return first, (last - first) / max(1, ends - begins), len({step for _when, step, _drawn in marks}), drawn, used


def bare_seconds(name: str) -> float:
    """Seconds of a step of the bare trainer with batches to be watched, the median of ten."""
    model = open_checkpoint(ROOT / "checkpoints" / name)
    plan = usual_plan(model)
    settings = replace(plan.settings, batch_tokens=min(WATCHED, plan.settings.batch_tokens))
    corpora = material_of(model, plan.data(model)).corpora(model.config.max_length, settings.bpe_dropout)
    trainer = Trainer(trainable(model.network), *corpora, settings)
    return statistics.median([report.seconds for report in trainer.steps(STEPS)])


def main(name: str, rounds: int, write: bool) -> None:
    compute_alone()
    found, bare = [], []
    with serve("app.py") as url:
        server = child()  # before the browser, which is another
        with sync_playwright() as play:
            browser = play.chromium.launch(**CHROMIUM_OPTIONS)  # type: ignore[arg-type]
            for number in range(rounds + 1):
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                page.set_default_timeout(PATIENCE)
                seen = visit(page, f"{url}/attention?model={name}&source={TEXT}", server)
                page.close()
                time.sleep(1)
                each = bare_seconds(name)
                first, step, steps, moved, used = seen
                times = f"first {first:.2f} s, a step {step:.2f} s, bare {each:.2f} s, processor {used:.1f} s"
                print(f"{number}: {times}; {steps:.0f} steps seen, figure moved {moved:.0f} times", flush=True)
                if number:
                    found.append(seen)
                    bare.append(each)
    first, step, steps, moved, used = (statistics.median(column) for column in zip(*found, strict=True))
    alone = statistics.median(bare)
    lines = (
        f"model {name}, {rounds} visitors one after the other, medians; load {os.getloadavg()[0]:.1f}",
        f"the first step seen {first:5.2f} s after the click; goal ≤ {FIRST}",
        f"a step              {step:5.2f} s; goal ≤ {EACH}; {step / alone:.2f} times the bare trainer's, {alone:.2f} s",
        f"of {STEPS} steps {steps:.0f} were seen, and the figure moved {moved:.0f} times",
        f"{used:.1f} s of the server's processor time from the click to the last step",
    )
    results.publish("From a click to a step of training", lines, write)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="From a click on steps of training to the steps that are seen.")
    parser.add_argument("model", nargs="?", default="eng-cmn")
    parser.add_argument("rounds", type=results.at_least_one, nargs="?", default=5)
    parser.add_argument("--write", action="store_true", help="put the medians into RESULTS.md")
    options = parser.parse_args()
    main(options.model, options.rounds, options.write)
