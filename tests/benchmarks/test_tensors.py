"""What the benchmark of tensors compares comes to the same numbers, on a file of a few thousand parameters."""

from __future__ import annotations

import pytest
import torch

from tests.benchmarks import tensors


def test_both_ways_measure_the_same(tmp_path) -> None:
    given = tensors.gpt2(d_model=16, layers=1, vocabulary=40)
    found = tensors.comparisons(tmp_path, given)
    listed, _read, pickled, measured, spectra = (comparison.ours() for comparison in found)
    assert {info.name: info.shape for info in listed} == {name: tuple(each.shape) for name, each in given.items()}
    assert {info.name for info in pickled} == set(given)
    plain = dict(zip(given, found[3].plain(), strict=True))
    for info, statistics in measured:
        mean, deviation, (low, high), counts = plain[info.name]
        assert statistics.mean == pytest.approx(float(mean), abs=1e-6)
        elements = given[info.name].numel()
        assert statistics.deviation == pytest.approx(float(deviation) * ((elements - 1) / elements) ** 0.5, rel=1e-4)
        assert (statistics.minimum, statistics.maximum) == (float(low), float(high))
        assert sum(statistics.counts) == int(counts.sum())
    values = {info.name: each.float() for info, each in spectra}
    for name, expected in zip((name for name in given if given[name].ndim == 2), found[4].plain(), strict=True):
        torch.testing.assert_close(values[name], expected, rtol=1e-3, atol=1e-6)


def test_the_table_has_a_row_for_each(tmp_path) -> None:
    given = tensors.gpt2(d_model=16, layers=1, vocabulary=40)
    table = list(tensors.rows(tensors.comparisons(tmp_path, given), rounds=1, spectra=1))
    assert {len(row) for row in table} == {len(tensors.COLUMNS)}
    assert len(table) == 7
