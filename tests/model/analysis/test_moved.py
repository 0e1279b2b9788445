"""What moved between two files, beside numpy; per head; and a statistic over several files."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from model.analysis import moved as module
from model.analysis.moved import OVER_STEPS, Moved, compare, moved, moved_per_head, over_steps
from model.tensors import TensorInfo
from tests.model.analysis.test_weights import info


def test_every_tensor_is_in_one_of_the_lists():
    before = [info("gone", torch.ones(2)), info("same", torch.ones(2, 2)), info("other", torch.ones(3))]
    before.append(TensorInfo("strange", (4,), "F6_E2M3", 3, "strange", lambda: torch.ones(4)))
    after = [info("strange", torch.ones(4)), info("other", torch.ones(4)), info("same", torch.ones(2, 2))]
    after.append(info("new", torch.ones(1)))
    found = compare(before, after)
    assert found.moved == [Moved("same", 0.0, 1.0, 0.0, (0, 0))]
    assert (found.only_before, found.only_after) == (["gone"], ["new"])
    assert (found.reshaped, found.unreadable) == ([("other", (3,), (4,))], ["strange"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
def test_how_far_a_tensor_moved(dtype, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 7)
    a = (torch.randn(5, 3, 2) * 10).to(dtype)
    b = (a + torch.randn(5, 3, 2)).to(dtype)
    b[3, 1, 0] += 30
    one, two = a.double().numpy().ravel(), b.double().numpy().ravel()
    found = moved(info("w", a), info("w", b))
    assert found.relative == pytest.approx(np.linalg.norm(two - one) / np.linalg.norm(one))
    assert found.cosine == pytest.approx(one @ two / np.linalg.norm(one) / np.linalg.norm(two))
    assert found.largest == np.abs(two - one).max()
    assert found.place == (3, 1, 0)


def test_tensors_of_zeros_without_values_and_not_finite():
    zero, one = info("w", torch.zeros(3)), info("w", torch.ones(3))
    assert moved(zero, zero).relative == 0
    assert (moved(zero, one).relative, moved(one, zero).relative) == (math.inf, 1)
    assert math.isnan(moved(zero, one).cosine)
    empty = info("w", torch.zeros(0, 3))
    assert (moved(empty, empty).relative, moved(empty, empty).place) == (0, ())
    broken = moved(one, info("w", torch.tensor([1, torch.inf, torch.nan])))
    assert math.isnan(broken.relative)
    assert broken.place == (1,)
    number = moved(info("n", torch.tensor(2.0)), info("n", torch.tensor(3.0)))
    assert (number.relative, number.largest, number.place) == (0.5, 1, ())


@pytest.mark.parametrize("columns", [False, True])
def test_heads_move_one_by_one(columns):
    a = torch.randn(8, 8)
    b = a.clone()
    part = (slice(None), slice(4, 6)) if columns else (slice(4, 6), slice(None))
    b[part] *= -2
    relative, cosine = moved_per_head(info("w", a), info("w", b), 4, columns)
    torch.testing.assert_close(relative, torch.tensor([0.0, 0, 3, 0], dtype=torch.float64))
    torch.testing.assert_close(cosine, torch.tensor([1.0, 1, -1, 1], dtype=torch.float64))
    bias = moved_per_head(info("b", torch.ones(8)), info("b", torch.arange(8.0)), 4)
    assert bias[0, 0] == pytest.approx(1 / math.sqrt(2))
    with pytest.raises(ValueError, match=r"w of shape \(8, 8\) has no 3 heads along dimension"):
        moved_per_head(info("w", a), info("w", b), 3, columns)


def test_a_statistic_over_the_steps_of_a_run():
    loads = []
    tables = []
    for step in (10, 20):
        weight = torch.full((2, 2), float(step))
        infos = [
            info("a", weight),
            info("b", weight * 2),
            info("tied", weight, place="a"),
            info(f"only {step}", weight),
        ]
        tables.append((str(step), [_counted(each, loads) for each in infos]))
    found = over_steps(tables, "mean")
    assert found.index.tolist() == ["10", "20"]
    assert found.to_dict("list") == {"a": [10, 20], "b": [20, 40], "tied": [10, 20]}
    assert loads == ["a", "b", "a", "b"]
    assert over_steps([], "mean").empty
    assert {"mean", "deviation", "zeros", "nan"} <= set(OVER_STEPS)
    with pytest.raises(ValueError, match=r"statistic \('counts'\) must be one of mean, "):
        over_steps(tables, "counts")


def _counted(given: TensorInfo, loads: list[str]) -> TensorInfo:
    def load() -> torch.Tensor:
        loads.append(given.name)
        return given.load()

    return TensorInfo(given.name, given.shape, given.dtype, given.bytes, given.place, load)
