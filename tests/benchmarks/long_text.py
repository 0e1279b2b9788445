"""A text of 4,096 tokens pasted on the page of attention: from the paste to the chosen head, to all heads, to the
checks; how long the picture of the text before stands there unmarked; memory; and where the seconds go.

    python -m tests.benchmarks.long_text --write
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from model.analysis.attention_maps import Maps
from model.analysis.checks import checks
from model.analysis.head_metrics import metric
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.inference.copies import LONGEST, vary
from model.inference.text_model import TextModel
from tests.benchmarks import results
from tests.benchmarks.head_grid import server_memory
from tests.benchmarks.window import open_window
from tests.browser.server import ROOT, serve

TARGET = 4.0  # seconds from the paste to the chosen head
WORDS = "Now is the winter of our discontent made glorious summer by this sun of York and all the clouds".split()
PATIENCE = 300_000

# When each of these is first seen after a paste, in milliseconds: looked for before every frame.
WATCH = """
() => {
  const hosts = () => [...document.querySelectorAll('*')].filter((host) => host.shadowRoot);
  const inside = (part) => hosts().map((host) => host.shadowRoot.querySelector(part)).find(Boolean);
  const behind = (root) => root.getRootNode().host.hasAttribute('data-behind');
  const seen = {
    marked: (before) => isNew('.heatmap', before) || behind(inside('.heatmap')),
    figure: (before) => isNew('.heatmap', before),
    heads: (before) => isNew('.heads', before) && !inside('.heads .waiting'),
    checks: (before) => isNew('.heads', before) && !behind(inside('.bar')) && !inside('.badge.unknown'),
  };
  const isNew = (part, before) => {
    const root = inside(part);
    return (root?.dataset.painted ?? before) !== before && !behind(root);
  };
  document.addEventListener('input', () => {
    const [from, before] = [performance.now(), inside('.heads').dataset.painted];
    window.seen = {};
    const look = () => {
      for (const [name, there] of Object.entries(seen)) {
        if (window.seen[name] === undefined && there(before)) window.seen[name] = performance.now() - from;
      }
      if (Object.keys(window.seen).length < Object.keys(seen).length) requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }, true);
}
"""


def long_model() -> TextModel:
    """The bundled language model where it may read 4,096 tokens: its positions are rotary."""
    return vary(open_checkpoint(ROOT / "checkpoints" / "shakespeare"), max_length=LONGEST)


def long_text(model: TextModel, seed: int) -> str:
    """Words in any order, as many as fill 4,096 tokens."""
    draw = random.Random(seed)
    words = [draw.choice(WORDS) for _ in range(LONGEST)]
    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (low, middle - 1) if model.source_tokens(" ".join(words[:middle])).left_out else (middle, high)
    return " ".join(words[:low])


def seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure_server(model: TextModel) -> list[str]:
    """Where the seconds go, without a browser: the pass, a head, its metric, the checks."""
    text = long_text(model, 0)
    trace = model.trace(text)
    maps, one = Maps(trace, "decoder"), slice(0, 1)
    weights = maps.weights(0, one)
    found = {
        "the pass, recorded": min(seconds(lambda: model.trace(text)) for _ in range(3)),
        "one head's map": min(seconds(lambda: maps.weights(0, one)) for _ in range(3)),
        "its entropy": min(seconds(lambda: metric("entropy", maps, 0, one, weights, weights)) for _ in range(3)),
        "all checks": seconds(lambda: checks(trace)),
    }
    everything = 4 * maps.layers * maps.heads * maps.queries * maps.keys
    size = f"{maps.layers} layers × {maps.heads} heads, d {model.config.d_model}"
    said = ", ".join(f"{name} {value:.2f} s" for name, value in found.items())
    return [f"server alone, {size}: {said}; all maps would be {everything / 2**30:.1f} GB"]


def paste(page: Page, text: str) -> dict[str, float]:
    """Seconds from a paste to what `WATCH` looks for."""
    page.locator('input[aria-label="Text"]').fill(text)
    page.wait_for_function("() => Object.keys(window.seen ?? {}).length === 4", timeout=PATIENCE)
    page.wait_for_timeout(1500)
    return {name: value / 1000 for name, value in page.evaluate("window.seen").items()}


def measure_browser(model: TextModel, pastes: int) -> list[str]:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as play:
        save_checkpoint(Path(name) / "long", model.network, (model.source_tokenizer,) * 2, dict(model.training))
        with serve("app.py", VITRINE_MODELS=name) as url:
            page = open_window(play, f"{url}/attention?model=long", ".vitrine.heads[data-painted]")
            page.evaluate(WATCH)
            before, peak, done = server_memory(), [0], threading.Event()

            def watch() -> None:
                while not done.wait(0.05):
                    peak[0] = max(peak[0], server_memory())

            watcher = threading.Thread(target=watch)
            watcher.start()
            found = [paste(page, long_text(model, seed)) for seed in range(pastes)]
            done.set()
            watcher.join()
            page.close()
    medians = {name: statistics.median(each[name] for each in found) for name in found[0]}
    return [
        f"paste of {LONGEST:,} tokens, medians of {pastes}: the chosen head after {medians['figure']:.1f} s (target "
        f"{TARGET:.0f}, slowest {max(each['figure'] for each in found):.1f}), all heads {medians['heads']:.1f} s, "
        f"checks {medians['checks']:.1f} s; the picture of before unmarked for {medians['marked']:.2f} s",
        f"server before {before / 2**20:.0f} MB, at most {peak[0] / 2**20:.0f} MB",
    ]


def main(pastes: int, write: bool) -> None:
    model = long_model()
    lines = measure_server(model) + measure_browser(model, pastes)
    print("\n".join(lines), flush=True)
    results.publish("A text of 4,096 tokens", lines, write)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A long text pasted on the page of attention, in a real browser.")
    parser.add_argument("pastes", type=int, nargs="?", default=5)
    parser.add_argument("--write", action="store_true", help="put the medians into RESULTS.md")
    options = parser.parse_args()
    main(options.pastes, options.write)
