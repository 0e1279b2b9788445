"""What watching a training costs: steps a second in the application, with its film and an open page, beside the bare
trainer.

    python -m tests.benchmarks.watching [rounds] [--write]

The strip trains the bundled model of the `reverse` task while Chromium shows its Attention page, two looks a second;
it is paused while this process trains the same model on the same data with nothing else, both with one torch thread.
They take turns of some seconds; the ratio is the median of the rounds'. Steps are counted from one change of the
strip to another. On a machine that others share, processor time says more than steps a second: what the training's
thread takes for a step, film and all, beside the bare trainer's step, and what the server's other threads take for a
look. Python's lock lets one of them run at a time, so that with two looks a second the trainer keeps
(1 − 2 · look) · bare step / watched step of its speed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from model.checkpoints.load import open_checkpoint
from model.inference.copies import trainable
from model.runtime.device import compute_alone
from model.training.settings import TrainingSettings
from model.training.trainer import Trainer
from tests.benchmarks import results
from tests.benchmarks.window import open_page
from tests.browser.server import ROOT, serve
from viz.state.training import RATE, STEPS, material_of, usual_plan

MODEL, TURN, TARGET = "reverse", 6.0, 0.9  # five rounds end before the training does
TEXT = "abcdefgh"
WATCH = """
() => {
  const strip = [...document.querySelectorAll("*")].map((host) => host.shadowRoot?.querySelector(".vitrine.strip"))
    .find((found) => found);
  window.looks = [];
  new MutationObserver(() => window.looks.push([performance.now() / 1000, Number(strip.dataset.step)]))
    .observe(strip, { attributes: true, attributeFilter: ["data-step"] });
}
"""


def bare() -> Trainer:
    """The trainer that the strip begins, alone."""
    model = open_checkpoint(ROOT / "checkpoints" / MODEL)
    material = material_of(model, usual_plan(model).data(model))
    settings = TrainingSettings(steps=STEPS, warmup=20, rate=RATE, label_smoothing=0.0, average=0.0)
    network = trainable(model.network)
    return Trainer(network, *material.corpora(network.config.max_length, settings.bpe_dropout), settings)


def child() -> int:
    """The process that this one has started."""
    (only,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    return int(only)


def seconds_of(process: int) -> dict[str, float]:
    """Processor time so far of each thread of a process that is there, and by "" of all that ever were."""
    own = Path(f"/proc/{process}")
    return {"": _seconds(own / "stat")} | {task.name: _seconds(task / "stat") for task in (own / "task").iterdir()}


def _seconds(stat: Path) -> float:
    fields = stat.read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bare_speed(trainer: Trainer) -> tuple[float, float]:
    """Steps a second over one turn, and the processor time of a step in seconds."""
    began, used, count = time.perf_counter(), time.process_time(), 0
    for _report in trainer.steps():
        count += 1
        if time.perf_counter() - began > TURN:
            break
    return count / (time.perf_counter() - began), (time.process_time() - used) / count


def watched_speed(page: Page, server: int) -> tuple[float, float, float, float]:
    """The same, the processor time of a look, and how many looks a second found a newer step."""
    page.get_by_role("button", name="Train on", exact=True).click()
    page.wait_for_timeout(1500)
    page.evaluate("window.looks = []")
    before, step = seconds_of(server), standing(page)
    page.wait_for_timeout(1000 * TURN)
    after, done = seconds_of(server), standing(page) - step
    looks = page.evaluate("window.looks")
    while page.locator(".vitrine.strip").get_attribute("data-status") == "running":
        page.locator(".vitrine.strip").get_by_role("button", name="Pause").click()
        page.wait_for_timeout(3000)
    everything, training, *_ = sorted((after[name] - before.get(name, 0.0) for name in after), reverse=True)
    (first, begins), (last, ends) = looks[0], looks[-1]
    rate = (len(looks) - 1) / (last - first)
    return (ends - begins) / (last - first), training / done, (everything - training) / (rate * TURN), rate


def standing(page: Page) -> int:
    """The step that the strip shows."""
    return int(page.locator(".vitrine.strip").get_attribute("data-step") or 0)


def main(rounds: int, write: bool) -> None:
    compute_alone()
    trainer = bare()
    found = []
    with serve("app.py") as url:
        server = child()
        with sync_playwright() as play:
            page = open_page(play, url, "attention", model=MODEL, source=TEXT)
            page.get_by_role("button", name="Train one step").click()
            page.wait_for_selector(".vitrine.strip[data-step='1']")
            page.wait_for_timeout(1500)
            page.evaluate(WATCH)
            bare_speed(trainer)
            for _ in range(rounds):
                found.append((*bare_speed(trainer), *watched_speed(page, server)))
                alone, spent, watched, taken, look, looks = found[-1]
                times = f"{1000 * spent:.1f} and {1000 * taken:.1f} ms, look {1000 * look:.0f} ms"
                print(f"{alone:.1f} and {watched:.1f} steps/s, {times}, {looks:.1f} looks/s", flush=True)
    alone, spent, watched, taken, look, looks = (statistics.median(column) for column in zip(*found, strict=True))
    ratios = [each[2] / each[0] for each in found]
    kept = [(1 - 2 * each[4]) * each[1] / each[3] for each in found]
    lines = (
        f"model {MODEL}, {rounds} rounds of {TURN:.0f} s each, medians; load {os.getloadavg()[0]:.1f}",
        f"bare trainer {alone:6.1f} steps a second, {1000 * spent:5.1f} ms of processor time a step",
        f"watched      {watched:6.1f} steps a second, {1000 * taken:5.1f} ms; a look {1000 * look:.0f} ms, "
        f"{looks:.1f} a second",
        f"steps a second, ratio   {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        f"by processor time       {statistics.median(kept):.2f} ({min(kept):.2f} to {max(kept):.2f})",
        f"target                ≥ {TARGET:.2f}",
    )
    results.publish("Watching a training", lines, write)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What watching a training costs.")
    parser.add_argument("rounds", type=results.at_least_one, nargs="?", default=5)
    parser.add_argument("--write", action="store_true", help="put the medians into RESULTS.md")
    options = parser.parse_args()
    main(options.rounds, options.write)
