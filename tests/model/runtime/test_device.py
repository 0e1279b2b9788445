"""Where to compute: chosen, or said by the environment."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from model.runtime.device import choose_device, choose_dtype, compute_alone, keep_freed_memory


@pytest.fixture
def machine(monkeypatch):
    """A machine with these accelerators."""

    def has(cuda: bool, mps: bool) -> None:
        monkeypatch.delenv("VITRINE_DEVICE", raising=False)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return has


@pytest.mark.parametrize(
    ("cuda", "mps", "chosen"),
    [(True, True, "cuda"), (True, False, "cuda"), (False, True, "mps"), (False, False, "cpu")],
)
def test_cuda_is_chosen_before_mps_before_the_cpu(cuda, mps, chosen, machine):
    machine(cuda, mps)
    assert choose_device() == torch.device(chosen)


@pytest.mark.parametrize("wanted", ["cpu", " cpu "])
def test_the_environment_overrides(wanted, machine, monkeypatch):
    machine(cuda=True, mps=True)
    monkeypatch.setenv("VITRINE_DEVICE", wanted)
    assert choose_device() == torch.device("cpu")


def test_an_empty_variable_is_none(machine, monkeypatch):
    machine(cuda=False, mps=False)
    monkeypatch.setenv("VITRINE_DEVICE", "  ")
    assert choose_device() == torch.device("cpu")


@pytest.mark.parametrize("wanted", ["banana", "cuda:99", "cpu:x", "GPU"])
def test_a_device_that_is_not_there_is_refused(wanted, monkeypatch):
    monkeypatch.setenv("VITRINE_DEVICE", wanted)
    with pytest.raises(ValueError, match=rf"^VITRINE_DEVICE \('{wanted}'\) cannot be used here: \S.*$"):
        choose_device()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_without_cuda_is_refused(monkeypatch):
    monkeypatch.setenv("VITRINE_DEVICE", "cuda")
    with pytest.raises(ValueError, match=r"VITRINE_DEVICE \('cuda'\) cannot be used here"):
        choose_device()


@pytest.mark.parametrize("wanted", ["float32", "bfloat16", "float16"])
def test_the_precision_is_what_the_environment_says(wanted, monkeypatch):
    monkeypatch.setenv("VITRINE_DTYPE", wanted)
    assert choose_dtype() == getattr(torch, wanted)


def test_the_precision_is_float32_if_nothing_is_said(monkeypatch):
    monkeypatch.delenv("VITRINE_DTYPE", raising=False)
    assert choose_dtype() == torch.float32


@pytest.mark.parametrize("wanted", ["float64", "int8", "half", "Float32"])
def test_another_precision_is_refused(wanted, monkeypatch):
    monkeypatch.setenv("VITRINE_DTYPE", wanted)
    message = rf"VITRINE_DTYPE \('{wanted}'\) must be one of float32, bfloat16, float16"
    with pytest.raises(ValueError, match=message):
        choose_dtype()


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_asking_to_keep_memory_works_everywhere(platform, monkeypatch):
    calls = []

    class Library:
        @staticmethod
        def mallopt(option: int, value: int) -> None:
            calls.append((option, value))

    monkeypatch.setattr("ctypes.CDLL", lambda name: Library())
    monkeypatch.setattr("sys.platform", platform)
    keep_freed_memory()
    assert len(calls) == (3 if platform == "linux" else 0)


def test_a_c_library_without_mallopt_is_left_alone(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    monkeypatch.setattr("sys.platform", "linux")
    keep_freed_memory()


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
