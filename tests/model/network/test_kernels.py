"""Kernels: plain wherever somebody asks for that, those that are installed elsewhere."""

import threading

import torch

from model.network import kernels
from model.network.kernels import Kernels, are_plain, install, plain_kernels
from model.network.masks import Mask
from tests.model.network.test_attention import attention


def test_a_block_of_plain_kernels_holds_for_its_own_thread_alone(monkeypatch):
    monkeypatch.setattr(kernels, "_installed", kernels._installed)
    monkeypatch.setattr(kernels, "_plain", kernels._plain)
    calls = []
    install(Kernels(attend=lambda module, *given: (calls.append(1), module.attend(*given))[1]))
    module, x = attention(), torch.randn(1, 3, 16, dtype=torch.float64)

    def compute():
        module(x, x, Mask())
        return len(calls), are_plain()

    assert compute() == (1, False)
    with plain_kernels():
        assert compute() == (1, True)
        with plain_kernels(False):  # asks for nothing more than what is asked for around it
            assert compute() == (1, True)
        found = []
        thread = threading.Thread(target=lambda: found.append(compute()))
        thread.start()
        thread.join()
        assert found == [(2, False)]
    assert compute() == (3, False)
