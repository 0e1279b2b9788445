"""From a trace to the painted grid of 6 × 8 heads, beside a page that only echoes what is typed; and what a text of
4,096 tokens takes: memory, and seconds to open one of its heads; and the same model on the map.

    python -m tests.benchmarks.head_grid [keystrokes] [--long 4096] [--write]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path

import psutil
import torch
from playwright.sync_api import Locator, Page, Playwright, sync_playwright

from model.checkpoints.native import save_checkpoint
from model.network.config import TransformerConfig
from model.network.transformer import build
from model.text.tokenizer_training import train_characters
from tests.benchmarks import results
from tests.benchmarks.window import open_window
from tests.browser.server import ROOT, serve

LETTERS = "abcdefghijklmnopqrstuvwxyz "
TARGETS = {128: 150, 512: 500}  # tokens: milliseconds from the trace to the painted grid
LONG = 4096

WATCH = """
(part) => {
  const shadows = [...document.querySelectorAll('*')].map((host) => host.shadowRoot).filter((root) => root);
  const inside = shadows.find((root) => root.querySelector(part));
  const node = inside ?? document.querySelector('[data-testid="stText"]').parentElement;
  document.addEventListener('input', () => (window.struck = performance.now()), true);
  const changes = { childList: true, subtree: true, attributes: true, characterData: true };
  new MutationObserver(() => {
    const mark = () => (window.painted = performance.now());
    requestAnimationFrame(() => scheduler.postTask(mark, { priority: 'user-blocking' }));
  }).observe(node, changes);
}
"""

FRAMES = """
() => {
  window.gaps = [];
  let last = performance.now();
  const next = (now) => {
    window.gaps.push(now - last);
    last = now;
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}
"""


def write_model(folder: Path, layers: int, heads: int) -> None:
    """A language model with random weights that reads letters."""
    torch.manual_seed(0)
    tokenizer = train_characters([LETTERS])
    options = {"d_model": 128, "n_heads": heads, "d_ff": 256, "max_length": LONG, "dropout": 0.0}
    model = build(TransformerConfig.one_stack("decoder-only", len(tokenizer), layers, **options)).eval()
    save_checkpoint(folder, model, (tokenizer, tokenizer), {"example": "abc"})


def text(tokens: int) -> str:
    return (LETTERS * (tokens // len(LETTERS) + 1))[: tokens - 1]  # and the start


def watched(play: Playwright, url: str, ready: str, part: str = ".vitrine.heads") -> Page:
    page = open_window(play, url, ready)
    page.evaluate(WATCH, part)
    return page


def field(page: Page) -> Locator:
    return page.locator('input[aria-label="Text"], input[aria-label="Source"]').first


def settle(page: Page, patience: int = 60_000) -> None:
    """Wait until nothing has been painted for a second and a half."""
    for _ in range(patience // 500):
        page.wait_for_timeout(500)
        if page.evaluate("performance.now() - Math.max(window.painted ?? 0, window.struck ?? 0) > 1500"):
            return


def strike(page: Page, key: str) -> tuple[float, float]:
    """Press a key: milliseconds to the last change, and when that was, in seconds since 1970."""
    before = page.evaluate("window.painted ?? 0")
    field(page).press(key)
    page.wait_for_function("(before) => (window.painted ?? 0) > before", arg=before, timeout=60_000)
    settle(page)
    taken, moment = page.evaluate("[window.painted - window.struck, performance.timeOrigin + window.painted]")
    return taken, moment / 1000


def measure_short(play: Playwright, app_url: str, echo_url: str, folder: Path, strokes: int) -> list[str]:
    lines = []
    echo = watched(play, echo_url, '[data-testid="stText"]')
    app = watched(play, f"{app_url}/attention?model=wide", ".vitrine.heads[data-painted]")
    for tokens, target in TARGETS.items():
        for page in (echo, app):
            field(page).fill(text(tokens - strokes // 2))
            settle(page)
            field(page).press("End")
        times: dict[str, list[float]] = {"echo": [], "stroke": [], "grid": []}
        for key in text(strokes + 1):
            times["echo"].append(strike(echo, key)[0])
            taken, moment = strike(app, key)
            times["stroke"].append(taken)
            times["grid"].append(1000 * (moment - float((folder / "traced").read_text("ascii"))))
        medians = {name: statistics.median(values) for name, values in times.items()}
        lines.append(
            f"{tokens:4} tokens: grid painted {medians['grid']:.0f} ms after the trace (target {target}), "
            f"{medians['stroke']:.0f} ms after the keystroke; echo {medians['echo']:.0f} ms"
        )
        print(lines[-1], flush=True)
    echo.close()
    app.close()
    return lines


def measure_map(play: Playwright, app_url: str, folder: Path, strokes: int) -> list[str]:
    """From the trace to the painted map, and the frames while a word is typed."""
    lines = []
    page = watched(play, f"{app_url}/map?model=wide", ".model_map[data-painted]", ".model_map")
    for tokens in TARGETS:
        field(page).fill(text(tokens - strokes // 2))
        settle(page)
        field(page).press("End")
        times = []
        for key in text(strokes + 1):
            _taken, moment = strike(page, key)
            times.append(1000 * (moment - float((folder / "traced").read_text("ascii"))))
        page.evaluate(FRAMES)
        field(page).press_sequentially("attention", delay=120)
        settle(page)
        gaps = page.evaluate("window.gaps")
        lines.append(
            f"{tokens:4} tokens: map painted {statistics.median(times):.0f} ms after the trace; while typing "
            f"{sum(gap > 1000 / 30 + 1 for gap in gaps)} of {len(gaps)} frames came late, at most {max(gaps):.0f} ms"
        )
        print(lines[-1], flush=True)
    page.close()
    return lines


def server_memory() -> int:
    """Bytes of the server that was started here, the largest of this process's children."""
    children = psutil.Process().children(recursive=True)
    servers = [each for each in children if "streamlit" in " ".join(each.cmdline())]
    return max(each.memory_info().rss for each in servers)


def measure_long(play: Playwright, app_url: str, tokens: int) -> list[str]:
    """Peak memory of the server while a long text is shown, what stays, and how long a head takes to open."""
    page = watched(play, f"{app_url}/attention?model=small", ".vitrine.heads[data-painted]")
    before, peak, done = server_memory(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], server_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    field(page).fill(text(tokens))
    painted = ".vitrine.heads[data-cells='96 96']"
    page.wait_for_selector(painted, timeout=120_000)
    settle(page, 120_000)
    began = time.perf_counter()
    page.locator(".vitrine.heads .head").nth(2).click()
    page.get_by_text("Layer 2, head 1").wait_for(timeout=60_000)
    opened = time.perf_counter() - began
    settle(page)
    done.set()
    watcher.join()
    kept = server_memory() - before
    everything = 4 * 4 * tokens * tokens  # two layers of two heads in float32
    line = (
        f"{tokens} tokens, 2 × 2 heads: server {before / 2**20:.0f} MB, at most {peak[0] / 2**20:.0f} MB, "
        f"afterwards {kept / 2**20:+.0f} MB; all maps would be {everything / 2**20:.0f} MB; "
        f"another head opens in {opened:.1f} s"
    )
    print(line, flush=True)
    page.close()
    return [line]


def main(strokes: int, long: int, write: bool) -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as play:
        folder = Path(name)
        write_model(folder / "checkpoints" / "wide", 6, 8)
        write_model(folder / "checkpoints" / "small", 2, 2)
        (folder / "viz").symlink_to(ROOT / "viz")
        script = shutil.copy(ROOT / "tests" / "benchmarks" / "long_page.py", folder)
        with serve("tests/benchmarks/echo_page.py") as echo_url, serve(str(script)) as app_url:
            lines = measure_short(play, app_url, echo_url, folder, strokes)
            lines += measure_map(play, app_url, folder, strokes)
            lines += measure_long(play, app_url, long)
    results.publish("From a trace to the painted heads", lines, write)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="From a trace to the painted grid of heads, in a real browser.")
    parser.add_argument("keystrokes", type=results.at_least_one, nargs="?", default=9)
    parser.add_argument("--long", type=int, default=LONG, help=f"tokens of the long text, 97 to {LONG:,}")
    parser.add_argument("--write", action="store_true", help="put the medians into RESULTS.md")
    options = parser.parse_args()
    main(options.keystrokes, options.long, options.write)
