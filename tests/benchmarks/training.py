"""Training, tokens a second: our trainer beside the usual loops of torch, on the same weights and batches.

    python -m tests.benchmarks.training [--rounds 30] [--compile] [--write]

Every subject takes a few steps in turn, in one process; a figure is the median over the rounds of how many times the
plain loop's tokens a second it reached. Ours is the whole step of the trainer: norms of every layer, averaged weights
and report included. With --compile ours is measured once more with the trainer's option of that name; it needs a C++
compiler and some minutes.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from model.data.datasets import Batch
from model.fast.matmul import OWN, choose_products
from model.network.transformer import Network, build
from model.runtime.device import keep_freed_memory
from model.training.settings import TrainingSettings
from model.training.trainer import Trainer
from tests.benchmarks import results
from tests.benchmarks.references import PlainLoop
from tests.benchmarks.training_networks import SETTINGS, Setting

RATE, CLIP, BATCHES = 1e-3, 1.0, 40
SAME = 20  # steps after which the losses must still agree
WARM = 4  # steps before the first is counted: what is compiled is compiled at the first ones
COMPILED = ", compiled"


class Ready:
    """A corpus of batches made beforehand, in their order."""

    long, size = 0, 0

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def order(self, tokens: int, shuffle: object) -> list[list[int]]:
        return [[index] for index in range(len(self.batches))]

    def batch(self, indices: Sequence[int], chance: object) -> Batch:
        return self.batches[indices[0]]

    def digest(self) -> str:
        return ""  # nothing is resumed


class Ours:
    """Our trainer, in one precision."""

    def __init__(self, model: Network, batches: list[Batch], precision: Any, compiled: bool = False) -> None:
        settings = TrainingSettings(
            epochs=1000,
            rate=RATE,
            warmup=0,
            schedule="constant",
            label_smoothing=0.0,
            weight_decay=0.0,
            clip=CLIP,
            validate_every=10**9,
            precision=precision,
            compile=compiled,
        )
        tokens = batches[0].tokens
        self.products = choose_products(model.config, tokens, torch.device("cpu")) if precision == "float32" else OWN
        self._steps = Trainer(model, Ready(batches), Ready([]), settings).steps()

    def step(self) -> float:
        """One step; gives its loss."""
        with self.products.used():
            return next(self._steps).loss


def subjects(setting: Setting, compiled: bool = False) -> dict[str, Ours | PlainLoop]:
    """The plain loop and ours in both precisions, all with the same weights before the first step. compiled: ours in
    both precisions once more.
    """
    torch.manual_seed(1)
    batches = setting.batches(BATCHES)
    first = build(setting.config)
    found: dict[str, Ours | PlainLoop] = {"plain": PlainLoop(first, batches, RATE, CLIP)}
    for added in ("", COMPILED) if compiled else ("",):
        for precision in setting.targets:
            model = build(setting.config)
            model.load_state_dict(first.state_dict())
            found[precision + added] = Ours(model, batches, precision, bool(added))
    return found


def losses(setting: Setting, steps: int = SAME, compiled: bool = False) -> dict[str, list[float]]:
    """Of each subject from the same start."""
    return {name: [subject.step() for _ in range(steps)] for name, subject in subjects(setting, compiled).items()}


def times(loops: dict[str, Ours | PlainLoop], steps: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of so many steps of each in every round."""

    def take(loop: Ours | PlainLoop) -> None:
        for _ in range(steps):
            loop.step()

    works = {name: partial(take, loop) for name, loop in loops.items()}
    return results.in_turn(works, rounds, warm=-(-WARM // steps))


COLUMNS = ("what is trained", "plain loop", "precision", "plain, tokens a second", "Vitrine, tokens a second")
COLUMNS += ("ratio", "target", f"largest difference of the loss in {SAME} steps")


def rows(rounds: int, compiled: bool) -> Iterator[list[str]]:
    """The table, a row for each setting and precision, as they are measured."""
    yield list(COLUMNS)
    yield ["---", "---", "---", *["---:"] * (len(COLUMNS) - 3)]
    for setting in SETTINGS:
        curves = losses(setting, compiled=compiled)
        loops = subjects(setting, compiled)
        seconds = times(loops, setting.steps, rounds)
        tokens = setting.steps * statistics.mean(batch.tokens for batch in setting.batches(BATCHES))
        speeds = {name: f"{tokens / statistics.median(each):,.0f}" for name, each in seconds.items()}
        for name, ours in loops.items():
            if not isinstance(ours, Ours):
                continue
            apart = max(abs(a - b) for a, b in zip(curves["plain"], curves[name], strict=True))
            target = setting.targets[name.removesuffix(COMPILED)]
            found = [speeds["plain"], speeds[name], f"{results.ratio(seconds, 'plain', name):.2f}", f"≥ {target}"]
            label = f"{name}, oneDNN" if ours.products.onednn else name
            yield [setting.name, setting.other, label, *found, f"{apart:.1e}"]


def main() -> None:
    parser = results.options("Training beside the usual loops of torch, in tokens a second.", rounds=(30, "of each"))
    parser.add_argument("--compile", action="store_true", help="measure compiled networks too")
    options = parser.parse_args()
    keep_freed_memory()  # as our commands do
    print(results.machine(), flush=True)
    table = results.printed(rows(options.rounds, options.compile))
    if options.write:
        method = (
            "Ours is the whole step of the trainer, with norms of every layer, averaged weights and report; the plain "
            "loop is float32, AdamW unfused, clipping. The same weights and batches, no dropout; bfloat16 is autocast. "
            f"Ratios are medians of {options.rounds} rounds in one process."
        )
        results.write("Training", f"{method}\n\n{table}")


if __name__ == "__main__":
    main()
