"""Where to compute: chosen, or said by the environment."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from model.runtime.device import choose_device, choose_dtype, compute_alone, keep_freed_memory


@pytest.mark.parametrize(
    ("cuda", "mps", "wanted", "chosen"),
    [
        (True, True, None, "cuda"),
        (True, False, None, "cuda"),
        (False, True, None, "mps"),
        (False, False, None, "cpu"),
        (True, True, "cpu", "cpu"),
        (True, True, " cpu ", "cpu"),
        (False, False, "  ", "cpu"),
    ],
)
def test_what_is_wanted_is_chosen_else_cuda_before_mps_before_the_cpu(cuda, mps, wanted, chosen, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    monkeypatch.delenv("VITRINE_DEVICE", raising=False)
    if wanted is not None:
        monkeypatch.setenv("VITRINE_DEVICE", wanted)
    assert choose_device() == torch.device(chosen)


NO_CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")


@pytest.mark.parametrize("wanted", ["banana", "cuda:99", "cpu:x", "GPU", pytest.param("cuda", marks=NO_CUDA)])
def test_a_device_that_is_not_there_is_refused(wanted, monkeypatch):
    monkeypatch.setenv("VITRINE_DEVICE", wanted)
    with pytest.raises(ValueError, match=rf"^VITRINE_DEVICE \('{wanted}'\) cannot be used here: \S.*$"):
        choose_device()


@pytest.mark.parametrize("wanted", ["float32", "bfloat16", "float16", None])
def test_the_precision_is_what_the_environment_says_or_float32(wanted, monkeypatch):
    monkeypatch.delenv("VITRINE_DTYPE", raising=False)
    if wanted:
        monkeypatch.setenv("VITRINE_DTYPE", wanted)
    assert choose_dtype() == getattr(torch, wanted or "float32")


@pytest.mark.parametrize("wanted", ["float64", "int8", "half", "Float32"])
def test_another_precision_is_refused(wanted, monkeypatch):
    monkeypatch.setenv("VITRINE_DTYPE", wanted)
    message = rf"VITRINE_DTYPE \('{wanted}'\) must be one of float32, bfloat16, float16"
    with pytest.raises(ValueError, match=message):
        choose_dtype()


@pytest.mark.parametrize(("platform", "count"), [("linux", 3), ("darwin", 0), ("win32", 0)])
def test_asking_to_keep_memory_works_everywhere(platform, count, monkeypatch):
    calls = []
    library = SimpleNamespace(mallopt=lambda option, value: calls.append((option, value)))
    monkeypatch.setattr("sys.platform", platform)
    for each in (library, object()):  # a C library without mallopt is left alone
        monkeypatch.setattr("ctypes.CDLL", lambda name, each=each: each)
        keep_freed_memory()
    assert len(calls) == count


HOLES = """
from pathlib import Path
from model.runtime.device import give_back_memory, keep_freed_memory
import torch

def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])

keep_freed_memory()
pieces = [torch.ones(1 << 18) for _ in range(200)]  # 1 MiB each
full = resident()
del pieces[:-1]  # the last one keeps the pool from shrinking
kept = resident()
give_back_memory()
print((full - kept) / full, (full - resident()) * 4096 >> 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of a process")
def test_freed_memory_between_used_pieces_is_given_back_when_asked():
    shown = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True).stdout.split()
    assert float(shown[0]) < 0.05
    assert int(shown[1]) > 150


def test_a_thread_computes_alone_and_later_ones_as_before():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
            first.submit(compute_alone).result()
            counts = [pool.submit(torch.get_num_threads).result() for pool in (first, second)]
        assert (counts, torch.get_num_threads()) == ([1, 3], 3)
    finally:
        torch.set_num_threads(before)
