"""The numbers of a whole file."""

from __future__ import annotations

import weakref
from functools import partial

import torch

from model.checkpoints.tensors import TensorInfo
from viz.pages.checkpoints.measuring import TensorStatistics


def test_each_place_is_read_once_and_let_go():
    """No more than one tensor is alive at a time."""
    alive: weakref.WeakSet[torch.Tensor] = weakref.WeakSet()
    most, loads = 0, []

    def load(name: str) -> torch.Tensor:
        nonlocal most
        tensor = torch.randn(10, 10)
        alive.add(tensor)
        most = max(most, len(alive))
        loads.append(name)
        return tensor

    names = {"a": "a", "b": "b", "tied": "a", "c": "c"}
    infos = [TensorInfo(name, (10, 10), "float32", 400, place, partial(load, name)) for name, place in names.items()]
    found = TensorStatistics(infos)
    found.wait(30)
    assert loads == ["a", "b", "c"]
    assert most == 1
    assert found.of(infos[2]) == found.of(infos[0]) is not None
