"""Measuring a file's tensors never needs more memory than its largest tensor and some pages of others."""

import gc
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from model.checkpoints.tensors import tensor_table
from model.runtime.file_pages import PIECE
from tests.model.tensor_files import all_spectra, all_statistics
from tests.resident import forget_peak, highest_resident

LARGEST, OTHERS = (12288, 640), 7  # 31 MB in float32, and others of 4.9 MB: 66 MB in all
READERS = {
    "statistics": all_statistics,
    "singular values": all_spectra,
    "copies": lambda infos: [info.load().clone() for info in infos],
}


def risen(path: Path, reader: str) -> int:
    """Bytes by which the resident set rises at most while the reader reads this file; after a small one."""
    READERS[reader](tensor_table(path.with_stem("small")))  # what is made once: threads, tables
    infos = tensor_table(path)
    gc.collect()
    forget_peak()
    before = highest_resident()
    held = READERS[reader](infos)
    after = highest_resident()
    del held
    return after - before


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Of two formats a large file and a small one."""
    folder = tmp_path_factory.mktemp("files")
    for stem, rows in {"large": LARGEST[0], "small": 64}.items():
        tensors = {"wte": torch.randn(rows, LARGEST[1])}
        tensors |= {f"h.{layer}": torch.randn(rows * 5 // 32, LARGEST[1]) for layer in range(OTHERS)}
        save_file(tensors, folder / f"{stem}.safetensors")
        torch.save(tensors, folder / f"{stem}.pt")
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets the high-water mark start anew")
@pytest.mark.parametrize("ending", ["safetensors", pytest.param("pt", marks=pytest.mark.slow)])
def test_at_most_the_largest_tensor_and_some_pages_are_held(files, ending):
    path = files / f"large.{ending}"
    largest = 4 * LARGEST[0] * LARGEST[1]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        found = {name: process.submit(risen, path, name).result() for name in READERS}
    assert found.pop("copies") > path.stat().st_size
    # Pages of what was loaded and of what was read leave in lots of one piece each.
    assert max(found.values()) <= largest + 2 * PIECE < path.stat().st_size, found
    assert min(found.values()) >= largest // 2, found  # it did read
