"""Listing and measuring the tensors of a file of GPT-2-small's size, beside the plain ways in one process.

    python -m tests.benchmarks.tensors [--rounds 7] [--spectra 3] [--layers 12] [--write]

The file has GPT-2's names and shapes, 124 million parameters in float32, normal with deviation 0.02, and is written to
a temporary folder as .safetensors and as .pt. Plain: `torch.load(weights_only=True)`; safetensors' `load_file` with a
copy of every tensor, as it maps the file and reads nothing before; loops over the loaded tensors with `mean`, `std`,
`aminmax`, `histc`, and with `svdvals` over the matrices. Ours reads the mapped file. Both take turns; a ratio is the
median of those of the rounds.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from model.analysis.weights.statistics import BINS
from model.checkpoints.tensors import tensor_table
from tests.benchmarks import results
from tests.model.tensor_files import all_spectra, all_statistics

D_MODEL, LAYERS, VOCABULARY, LENGTH = 768, 12, 50257, 1024
Work = Callable[[], object]


@dataclass(frozen=True)
class Comparison:
    """Two ways to the same; target: how many times faster ours is to be, where one was set."""

    what: str
    plain_name: str
    plain: Work
    ours: Work
    target: str
    long: bool = False


def gpt2(d_model: int = D_MODEL, layers: int = LAYERS, vocabulary: int = VOCABULARY) -> dict[str, Tensor]:
    """Random tensors of GPT-2's names and shapes."""
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (vocabulary, d_model), "wpe.weight": (LENGTH, d_model)}
    for layer in range(layers):
        for name, width, out in [
            ("attn.c_attn", d_model, 3 * d_model),
            ("attn.c_proj", d_model, d_model),
            ("mlp.c_fc", d_model, 4 * d_model),
            ("mlp.c_proj", 4 * d_model, d_model),
        ]:
            shapes |= {f"h.{layer}.{name}.weight": (width, out), f"h.{layer}.{name}.bias": (out,)}
        for name in ("ln_1", "ln_2"):
            shapes |= {f"h.{layer}.{name}.{part}": (d_model,) for part in ("weight", "bias")}
    shapes |= {f"ln_f.{part}": (d_model,) for part in ("weight", "bias")}
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator) * 0.02 for name, shape in shapes.items()}


def comparisons(folder: Path, tensors: dict[str, Tensor]) -> list[Comparison]:
    """Of two files that are written here."""
    safe, pickled = folder / "model.safetensors", folder / "model.pt"
    save_file(tensors, safe)
    torch.save(tensors, pickled)
    infos = tensor_table(safe)

    def load() -> object:
        return torch.load(pickled, weights_only=True)

    def read() -> object:
        return {name: tensor.clone() for name, tensor in load_file(safe).items()}

    def loop() -> object:
        return [
            (tensor.mean(), tensor.std(), tensor.aminmax(), torch.histc(tensor, BINS)) for tensor in tensors.values()
        ]

    def svd() -> object:
        return [torch.linalg.svdvals(tensor) for tensor in tensors.values() if tensor.ndim == 2]

    listing, read_all = "listing .safetensors", "safetensors, everything read"
    return [
        Comparison(listing, "torch.load", load, lambda: tensor_table(safe), "≥ 30"),
        Comparison(listing, read_all, read, lambda: tensor_table(safe), ""),
        Comparison("listing .pt", "torch.load", load, lambda: tensor_table(pickled), "≥ 8"),
        Comparison("statistics", "mean, std, aminmax, histc", loop, lambda: all_statistics(infos), "≥ 5"),
        Comparison("singular values", "svdvals", svd, lambda: all_spectra(infos), "≥ 3.5", long=True),
    ]


COLUMNS = ("what", "plain way", "plain, ms", "Vitrine, ms", "ratio", "target")


def rows(found: list[Comparison], rounds: int, spectra: int) -> Iterator[list[str]]:
    """The table, a row for each comparison, as they are measured."""
    yield list(COLUMNS)
    yield ["---", "---", "---:", "---:", "---:", "---:"]
    for comparison in found:
        works = {"plain": comparison.plain, "ours": comparison.ours}
        seconds = results.in_turn(works, spectra if comparison.long else rounds, warm=0 if comparison.long else 1)
        milliseconds = [f"{1000 * statistics.median(each):,.1f}" for each in seconds.values()]
        ratio = f"{results.ratio(seconds, 'plain', 'ours'):.1f}"
        yield [comparison.what, comparison.plain_name, *milliseconds, ratio, comparison.target]


def main() -> None:
    options = results.options(
        "Listing and measuring a file's tensors beside the plain ways.",
        rounds=(7, "rounds of each comparison"),
        spectra=(3, "rounds of all singular values, which take longest"),
        layers=(LAYERS, "of the file's network"),
    ).parse_args()
    print(results.machine(), flush=True)
    tensors = gpt2(layers=options.layers)
    with tempfile.TemporaryDirectory() as folder:
        table = results.printed(rows(comparisons(Path(folder), tensors), options.rounds, options.spectra))
    if options.write:
        elements = sum(tensor.numel() for tensor in tensors.values())
        method = (
            f"GPT-2's names and shapes, {elements:,} random float32 parameters; both ways take turns in one process, "
            f"medians of {options.rounds} rounds, of {options.spectra} for singular values."
        )
        results.write("Tensors of a file", f"{method}\n\n{table}")


if __name__ == "__main__":
    main()
