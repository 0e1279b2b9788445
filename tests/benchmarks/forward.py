"""The forward pass with everything recorded beside the bare one: time and peak memory, ours and others'.

    python -m tests.benchmarks.forward [--lengths 16,128,512,1024] [--runs 30] [--write]

Ours are encoder-decoders with half the layers in each stack and as many source as target tokens, so every layer works
on n tokens, as in a decoder-only model of as many layers in all; cross-attention comes on top (a sixth more products).
GPT-2 in Hugging Face transformers and in TransformerLens has the same widths, layers in all and vocabulary. All have
random weights and erf-GELU, so every bare forward has the same kind of arithmetic.

Time: bare and recorded take turns in one process; the ratio is the median of the ratios of the rounds. The bare model
is a second one on the same weights, without hooks; what was recorded is freed inside the time measured.
Memory: how far the resident set rises in a forward, each in a process of its own; recorded minus bare is "extra".
"""

from __future__ import annotations

import gc
import importlib.util
import multiprocessing
import statistics
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import torch
from torch import Tensor

from model.runtime.device import keep_freed_memory
from tests.benchmarks import results
from tests.benchmarks.subjects import LENGTHS, NEEDS, SIZES, SUBJECTS, Forward, Size, tokens
from tests.resident import forget_peak, highest_resident

SECONDS = 1.0  # a cell takes at least this long: short forwards get more rounds than asked for
MB = 1_000_000
MOST_EXTRA = 900  # MB at 1,024 tokens


@torch.inference_mode()
def times(forwards: dict[str, Forward], ids: Tensor, runs: int) -> dict[str, list[float]]:
    """Seconds of each forward in every round."""
    return results.in_turn({name: partial(forward, ids) for name, forward in forwards.items()}, runs, least=SECONDS)


def peaks(subject: str, size: Size, length: int, names: list[str]) -> dict[str, float]:
    """MB by which each forward, holding what it recorded, raises the memory of a fresh process."""
    spawn = multiprocessing.get_context("spawn")
    found = {}
    for name in names:
        with ProcessPoolExecutor(1, mp_context=spawn) as process:
            found[name] = process.submit(peak, subject, size, length, name).result()
    return found


@torch.inference_mode()
def peak(subject: str, size: Size, length: int, name: str) -> float:
    forward = SUBJECTS[subject](size)[name]
    forward(tokens(size, min(LENGTHS)))  # what is made once: threads, kernels, hooks
    gc.collect()
    forget_peak()
    before = highest_resident()
    held = forward(tokens(size, length))
    after = highest_resident()
    del held
    return (after - before) / MB


def most(length: int) -> float:
    """The ratio we allow ourselves."""
    return 1.05 if length >= 128 else 1.3


COLUMNS = "model, tokens, bare, recorded, all maps, target, bare memory, extra, extra with maps, target".split(", ")


def rows(lengths: list[int], runs: int) -> Iterator[list[str]]:
    """The table, a row for each model and length, as they are measured."""
    yield COLUMNS
    yield ["---"] * 2 + ["---:"] * (len(COLUMNS) - 2)
    for size in SIZES:
        for subject, build in SUBJECTS.items():
            label = f"{subject}, {size.name}"
            if subject in NEEDS and importlib.util.find_spec(NEEDS[subject]) is None:
                yield [label, "skipped: not installed", *[""] * (len(COLUMNS) - 2)]
                continue
            forwards = build(size)
            for length in lengths:
                ids, bare = tokens(size, length), forwards["bare"]
                # A pair at a time: whoever comes after all maps finds the caches and the free memory in disorder.
                pairs = {
                    name: times({"bare": bare, name: forward}, ids, runs)
                    for name, forward in forwards.items()
                    if name != "bare"
                }
                memory = peaks(subject, size, length, list(forwards))
                ours, maps = subject == "Vitrine", "all maps" in forwards
                yield [
                    label,
                    f"{length:,}",
                    f"{statistics.median(pairs['recorded']['bare']) * 1000:.2f} ms",
                    f"{results.ratio(pairs['recorded'], 'recorded', 'bare'):.2f}",
                    f"{results.ratio(pairs['all maps'], 'all maps', 'bare'):.2f}" if maps else "",
                    f"≤ {most(length)}" if ours else "",
                    f"{memory['bare']:.0f} MB",
                    f"{memory['recorded'] - memory['bare']:.0f} MB",
                    f"{memory['all maps'] - memory['bare']:.0f} MB" if maps else "",
                    f"≤ {MOST_EXTRA} MB" if ours and length == 1024 else "",
                ]


def main() -> None:
    about = "The forward pass with everything recorded beside the bare one."
    parser = results.options(about, runs=(30, "rounds at least, of each length"))
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="tokens, separated by commas")
    options = parser.parse_args()
    lengths = [int(length) for length in options.lengths.split(",")]
    if not all(1 <= length <= max(LENGTHS) for length in lengths):
        parser.error(f"lengths are 1 to {max(LENGTHS)}")

    keep_freed_memory()  # as the application does
    print(results.machine(), flush=True)
    table = results.printed(rows(lengths, options.runs))
    if options.write:
        sizes = "; ".join(
            f"{size.name}: d {size.d_model}, {size.n_heads} heads, d_ff {size.d_ff}, {size.layers} layers in all, "
            f"vocabulary {size.vocabulary:,}"
            for size in SIZES
        )
        method = (
            f"{sizes}. Recorded: ours with `record()`, maps on demand; Hugging Face eager with attentions and hidden "
            f"states against its bare SDPA; TransformerLens `run_with_cache`. Times are ratios to the model's own bare "
            f"forward, medians of {options.runs} rounds or more."
        )
        results.write("Forward with everything recorded", f"{method}\n\n{table}")


if __name__ == "__main__":
    main()
