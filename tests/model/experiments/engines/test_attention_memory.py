"""Whether a measurement of attention fits into memory: the forecast against what it really takes, and what is free."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from model.experiments.engines.attention_cost import (
    Sizes,
    cut,
    growth,
    memory_needed,
    new_attention,
    require_room,
    room,
)
from model.experiments.engines.head_cost import by_heads, head_counts, narrow_and_wide, ways, with_heads
from model.runtime.memory import SPARE

pytestmark = pytest.mark.unchecked

SIZES = [  # batch, heads, width, length: large in maps, in weights, in rows, in nothing
    (1, 32, 2, 256),
    (1, 1, 64, 256),
    (1, 16, 16, 16),
    (1, 1, 256, 16),
    (64, 2, 64, 33),
    (16, 1, 128, 128),
    (1, 1, 2, 200),
    (2, 2, 3, 5),
]
BIG = Sizes(batch=1, heads=8, width=64, device=torch.device("cpu"), dtype=torch.float32)


class Everything(TorchDispatchMode):
    """The bytes of all tensors, those of a backward pass too, when most of them are there."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._sizes: dict[StorageWeakRef, int] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for each in tree_leaves(found):
            if isinstance(each, torch.Tensor) and each.device.type != "meta":
                self._sizes[StorageWeakRef(each.untyped_storage())] = each.untyped_storage().nbytes()
        self._sizes = {storage: size for storage, size in self._sizes.items() if not storage.expired()}
        self.peak = max(self.peak, sum(self._sizes.values()))
        return found


def taken(reports: Iterator[object]) -> int:
    with Everything() as everything:
        list(reports)
    return everything.peak


@pytest.mark.parametrize(
    "dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.slow)], ids=["float32", "bfloat16"]
)
@pytest.mark.parametrize("numbers", SIZES, ids=str)
def test_no_measurement_takes_more_than_was_forecast(numbers, dtype) -> None:
    batch, heads, width, length = numbers
    sizes = Sizes(batch=batch, heads=heads, width=width, device=torch.device("cpu"), dtype=dtype)
    assert taken(growth(sizes, length, 1, 0.0)) <= memory_needed(sizes, length)
    most = with_heads(sizes, max(head_counts(sizes.config.d_model)))
    assert taken(by_heads(with_heads(sizes, 1), length, 1, 0.0)) <= memory_needed(most, length)
    wide = narrow_and_wide(sizes)["wide"]
    assert taken(ways(sizes, length, 1, 0.0)) <= memory_needed(wide, length, backward=True)


def test_the_forecast_is_no_more_than_half_too_much() -> None:
    sizes = Sizes(batch=1, heads=8, width=8, device=torch.device("cpu"), dtype=torch.float32)
    assert memory_needed(sizes, 256) < 1.5 * taken(growth(sizes, 256, 1, 0.0))


def test_the_same_weights_are_cut_and_not_copied() -> None:
    one = new_attention(with_heads(BIG, 1))
    other = cut(one, BIG)
    assert other.query.n_heads == 8
    assert other.query.weight.data_ptr() == one.query.weight.data_ptr()


def test_the_longest_that_fits_is_named() -> None:
    free = 1_000_000_000
    longest = room(BIG, 4000, free).longest
    assert 2800 < longest < 3000
    assert room(BIG, longest, free).enough
    assert not room(BIG, longest + 1, free).enough
    assert room(BIG, 2000, free).longest == 2000
    assert room(BIG, 4000, free, least=longest).longest == longest
    assert room(BIG, 4000, free, least=longest + 1).longest == 0  # shorter ones may not be asked for
    assert room(BIG, 4000, 10).longest == 0


FREED = """
from pathlib import Path
from model.runtime.device import keep_freed_memory
from model.experiments.runner import Report
from viz.pages.lab.experiment import ExperimentJob
import torch

def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

def experiment():
    maps = [torch.ones(1 << 24) for _ in range(8)]  # 64 MiB each
    yield Report(1.0, None)

keep_freed_memory()
before = resident()
list(experiment())
kept = resident()
{then}
print(kept - before, kept - resident())
"""
ENDED = "assert ExperimentJob((), experiment).wait(60.0)"
BEGINS = """
from tests.model.experiments.engines.test_attention_memory import BIG
from model.experiments.engines.attention_cost import require_room
before += resident() - kept
kept = resident()
require_room(BIG, 32)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of a process")
@pytest.mark.parametrize("then", [ENDED, BEGINS], ids=["one ended", "the next begins"])
@pytest.mark.slow
def test_what_was_freed_counts_as_free(then) -> None:
    script = [sys.executable, "-c", FREED.format(then=then)]
    kept, given_back = map(int, subprocess.run(script, capture_output=True, text=True, check=True).stdout.split())
    assert kept > 400
    assert given_back > 400


def test_growth_drops_a_length_before_it_asks_for_the_next(monkeypatch) -> None:
    there, everything = [], Everything()
    ask = lambda *_: there.append(sum(size for ref, size in everything._sizes.items() if not ref.expired()))  # noqa: E731
    monkeypatch.setattr("model.experiments.engines.attention_cost.require_room", ask)
    with everything:
        list(growth(BIG, 64, 1, 0.0))
    assert len(there) == 1 + 3
    assert there[2] == there[3] == BIG.parameters * 4  # the weights alone


def test_what_is_refused_leaves_a_little_to_spare() -> None:
    needed = memory_needed(BIG, 100)
    assert room(BIG, 100, int(SPARE * needed) + 1).enough
    assert not room(BIG, 100, needed).enough
    with pytest.raises(ValueError, match=r"10000000 tokens need .* GB of memory"):
        require_room(BIG, 10_000_000, backward=True)
