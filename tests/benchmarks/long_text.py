"""A long text, of 4,096 tokens, pasted on the page of attention: from the paste to the chosen head, to all heads, to
the checks; how long the picture of the text before stands there unmarked; memory; and where the seconds go.

    python -m tests.benchmarks.long_text [pastes] [--tokens 4096] [--write]
"""

from __future__ import annotations

import argparse
import os
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

# When each of these is first seen of the text window.expected, in milliseconds after its paste: looked for before every
# frame. marked: the picture of the text before is no longer shown, or is marked as that.
WATCH = """
() => {
  const hosts = () => [...document.querySelectorAll('*')].filter((host) => host.shadowRoot);
  const inside = (part) => hosts().map((host) => host.shadowRoot.querySelector(part)).find(Boolean);
  const behind = (root) => root.getRootNode().host.hasAttribute('data-behind');
  const isNew = (root) => root?.dataset.painted === window.expected && !behind(root);
  const seen = {
    marked: () => isNew(inside('.heatmap')) || behind(inside('.heatmap')),
    figure: () => isNew(inside('.heatmap')),
    heads: () => isNew(inside('.heads')) && !inside('.heads .waiting'),
    checks: () => isNew(inside('.heads')) && !behind(inside('.bar')) && !inside('.badge.unknown'),
  };
  document.addEventListener('input', () => {
    const [from, found] = [performance.now(), {}];
    window.seen = found;
    const look = () => {
      if (window.seen !== found) return; // of a text that is no more
      for (const [name, there] of Object.entries(seen)) {
        if (found[name] === undefined && there()) found[name] = performance.now() - from;
      }
      if (Object.keys(found).length < Object.keys(seen).length) requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }, true);
}
"""


def long_model(tokens: int) -> TextModel:
    """The bundled language model where it may read so many tokens: its positions are rotary."""
    return vary(open_checkpoint(ROOT / "checkpoints" / "shakespeare"), max_length=tokens)


def long_text(model: TextModel, seed: int) -> str:
    """Words in any order, as many as the model can read."""
    draw = random.Random(seed)
    words = [draw.choice(WORDS) for _ in range(model.config.max_length)]
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
        "its entropy": min(seconds(lambda: metric("entropy", weights, weights)) for _ in range(3)),
        "all checks": seconds(lambda: checks(trace)),
    }
    everything = 4 * maps.layers * maps.heads * maps.queries * maps.keys
    size = f"{maps.layers} layers × {maps.heads} heads, d {model.config.d_model}"
    said = ", ".join(f"{name} {value:.2f} s" for name, value in found.items())
    return [f"server alone, {size}: {said}; all maps would be {everything / 2**30:.1f} GB"]


def paste(page: Page, model: TextModel, seed: int, until: str) -> dict[str, float]:
    """Seconds from a paste to what `WATCH` looks for. until: the last of it that is waited for."""
    text = long_text(model, seed)
    page.evaluate("(stamp) => (window.expected = stamp)", " ".join(model.source_tokens(text).labels))
    page.locator('input[aria-label="Text"]').fill(text)
    page.wait_for_function("(name) => window.seen?.[name] !== undefined", arg=until, timeout=PATIENCE)
    page.wait_for_timeout(2000)
    return {name: value / 1000 for name, value in page.evaluate("window.seen").items()}


def measure_browser(model: TextModel, pastes: int) -> list[str]:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as play:
        save_checkpoint(Path(name) / "long", model.network, (model.source_tokenizer,) * 2, dict(model.training))
        with serve("app.py", VITRINE_MODELS=name) as url:
            page = open_window(play, f"{url}/attention?model=long", ".vitrine.heads[data-painted]")
            page.evaluate(WATCH)
            load = os.getloadavg()[0]
            before, peak, done = server_memory(), [0], threading.Event()

            def watch() -> None:
                while not done.wait(0.05):
                    peak[0] = max(peak[0], server_memory())

            watcher = threading.Thread(target=watch)
            watcher.start()
            found = [paste(page, model, seed, "figure") for seed in range(pastes)]  # each while the rest of one goes on
            whole = paste(page, model, pastes, "checks")
            done.set()
            watcher.join()
            page.close()
    figure, marked = (sorted(each[name] for each in found) for name in ("figure", "marked"))
    return [
        f"{pastes} pastes of {model.config.max_length:,} tokens, each while the rest of the one before is computed: "
        f"the chosen head after {statistics.median(figure):.1f} s (target {TARGET:.0f}; {figure[0]:.1f} to "
        f"{figure[-1]:.1f}), the picture of the text before unmarked for {statistics.median(marked):.2f} s",
        f"one more: the chosen head after {whole['figure']:.1f} s, all heads {whole['heads']:.1f} s, with the checks "
        f"{whole['checks']:.1f} s",
        f"server {before / 2**20:.0f} MB before, at most {peak[0] / 2**20:.0f} MB; load of the machine {load:.1f}",
    ]


def main(pastes: int, tokens: int, write: bool) -> None:
    model = long_model(tokens)
    lines = measure_server(model) + measure_browser(model, pastes)
    results.publish(f"A text of {tokens:,} tokens", lines, write)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A long text pasted on the page of attention, in a real browser.")
    parser.add_argument("pastes", type=results.at_least_one, nargs="?", default=5)
    parser.add_argument("--tokens", type=int, default=LONGEST, help=f"of the text ({LONGEST:,})")
    parser.add_argument("--write", action="store_true", help="put the medians into RESULTS.md")
    options = parser.parse_args()
    main(options.pastes, options.tokens, options.write)
