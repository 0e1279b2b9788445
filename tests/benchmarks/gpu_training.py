"""Training on a GPU: tokens a second of GPT-2's small size, beside the rate at which the card multiplies matrices.

    python -m tests.benchmarks.gpu_training [--rounds 20] [--write]

bfloat16, fused attention and torch.compile; the batch is doubled until the card's memory is short. The card's matrix
rate is measured on it, with one large bfloat16 product. Without a GPU it says so.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from model.data.datasets import Batch
from model.network.config import TransformerConfig
from model.network.costs import costs
from model.network.transformer import build
from model.training.settings import TrainingSettings
from model.training.trainer import Trainer
from tests.benchmarks import results
from tests.benchmarks.training import Ready

GPT2_SMALL = TransformerConfig.one_stack(
    "decoder-only",
    50257,
    12,
    d_model=768,
    n_heads=12,
    d_ff=3072,
    dropout=0.0,
    max_length=1024,
    position="learned",
    norm_placement="pre",
    activation="gelu-tanh",
    tied_embeddings="output",
    scale_embedding=False,
)
WARM_UP = 3  # steps: torch.compile works at the first ones
LARGEST = 4096  # texts in a batch
WIDTH = 8192  # of the product that measures the card


def step_flops(config: TransformerConfig, batch: int) -> int:
    """Of the matrix products of one step on full texts, forward and backward; the scores counted in full."""
    return costs(config, batch, 0, config.max_length).training_flops


def matrix_rate(device: torch.device, width: int = WIDTH, rounds: int = 20) -> float:
    """Operations a second in a bfloat16 product of two square matrices: the best of the rounds."""
    left, right = (torch.randn(width, width, device=device, dtype=torch.bfloat16) for _ in range(2))
    return 2 * width**3 / min(seconds(lambda: left @ right, device) for _ in range(rounds + WARM_UP))


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """That the device takes for it."""
    wait(device)
    began = time.perf_counter()
    work()
    wait(device)
    return time.perf_counter() - began


def wait(device: torch.device) -> None:
    """Until the device has done all that it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def largest_batch(step: Callable[[int], object], largest: int = LARGEST) -> int:
    """The last power of two at which `step` still has memory.

    Raises:
        ValueError: there is too little for one text.
    """
    batch = 1
    while batch <= largest:
        try:
            step(batch)
        except torch.OutOfMemoryError:
            break
        batch *= 2
    if batch == 1:
        raise ValueError("the device has no memory for a step on one text: use a larger one")
    return batch // 2


@dataclass(frozen=True)
class Speed:
    """The median step of a batch, and how many operations a second the device can do at most."""

    config: TransformerConfig
    batch: int
    step: float  # seconds
    rate: float  # operations a second in a product

    @property
    def tokens(self) -> float:
        """A second."""
        return self.batch * self.config.max_length / self.step

    @property
    def share(self) -> float:
        """Of the matrix rate that the step reaches."""
        return step_flops(self.config, self.batch) / self.step / self.rate


def steps(config: TransformerConfig, batch: int, count: int, device: torch.device, compile: bool) -> list[float]:
    """Seconds of so many steps, those of the warm-up left out."""
    torch.manual_seed(1)
    ids = torch.randint(config.target_vocabulary, (batch, config.max_length + 1))
    settings = TrainingSettings(
        epochs=WARM_UP + count, warmup=0, validate_every=10**9, precision="bfloat16", compile=compile
    )
    corpus = Ready([Batch((ids[:, :-1], None), ids[:, 1:].contiguous(), whole=True)])
    trainer = Trainer(build(config).to(device), corpus, Ready([]), settings)
    return [report.seconds for report in trainer.steps()][WARM_UP:]


def measure(
    config: TransformerConfig, rounds: int, device: torch.device, compile: bool = True, largest: int = LARGEST
) -> Speed:
    """The speed with the largest batch that the device holds."""

    def median(batch: int, count: int) -> float:
        gc.collect()  # what the batch before has left
        if device.type == "cuda":
            torch.cuda.empty_cache()
        return statistics.median(steps(config, batch, count, device, compile))

    batch = largest_batch(lambda batch: median(batch, 1), largest)
    return Speed(config, batch, median(batch, rounds), matrix_rate(device, WIDTH if device.type == "cuda" else 64))


COLUMNS = ("batch", "tokens a second", "a step, ms", "TFLOP/s in a step", "TFLOP/s in a product", "share")


def rows(speed: Speed) -> list[list[str]]:
    """The table."""
    reached = [f"{1000 * speed.step:,.1f}", f"{speed.share * speed.rate / 1e12:,.1f}", f"{speed.rate / 1e12:,.1f}"]
    found = [str(speed.batch), f"{speed.tokens:,.0f}", *reached, f"{speed.share:.0%}"]
    return [list(COLUMNS), ["---:"] * len(COLUMNS), found]


def main() -> None:
    about = "Training GPT-2's small size on a GPU, in tokens a second."
    options = results.options(about, rounds=(20, "steps that are measured")).parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a GPU with CUDA, and torch finds none")
    device = torch.device("cuda")
    card = torch.cuda.get_device_name(device)
    print(card, results.machine(), sep="\n", flush=True)
    table = results.printed(rows(measure(GPT2_SMALL, options.rounds, device)))
    if options.write:
        method = (
            f"{card}. GPT-2's small size (12 layers, 12 heads, d 768, vocabulary 50,257, texts of 1,024 tokens, no "
            "dropout), bfloat16 autocast, fused attention, torch.compile; the whole step of the trainer. The batch is "
            f"the largest power of two that fits; a step is the median of {options.rounds}, its operations those of "
            f"the matrix products, scores in full. The product is bfloat16, {WIDTH:,} × {WIDTH:,}."
        )
        results.write("Training on a GPU", f"{method}\n\n{table}")


if __name__ == "__main__":
    main()
