"""Maps made smaller against plain loops over their blocks; long texts head by head."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from model.analysis import attention_maps as module
from model.analysis.attention_maps import Maps, Quantity
from model.analysis.head_metrics import METRICS
from model.capture.trace import record
from tests.model.examples import one_stack
from viz.i18n.format import tokens
from viz.pages.attention import head_grid as smaller
from viz.pages.attention import view as of_heads
from viz.pages.attention.head_grid import all_thumbnails, block_size, pooled, pooled_positive
from viz.pages.attention.view import HeadMaps, HeadSettings


def furthest_from_0(cells: np.ndarray) -> float:
    known = cells[~np.isnan(cells)]
    return float(known[np.abs(known).argmax()]) if known.size else math.nan


@pytest.mark.parametrize(("rows", "columns", "block"), [(4, 6, (2, 3)), (5, 7, (2, 3)), (3, 2, (1, 1)), (1, 9, (1, 4))])
def test_a_block_becomes_its_number_furthest_from_0(rows, columns, block):
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(2, rows, columns)).astype(np.float32))
    values[:, 0] = torch.nan
    values[0, -1, -1] = torch.nan
    found = pooled(values, block).numpy()
    for index in np.ndindex(found.shape):
        head, row, column = index
        cells = values[head, row * block[0] : (row + 1) * block[0], column * block[1] : (column + 1) * block[1]].numpy()
        assert found[index] == pytest.approx(furthest_from_0(cells), nan_ok=True)
    positive = values.nan_to_num().abs()
    assert torch.equal(pooled_positive(positive, block), pooled(positive, block))


@pytest.mark.parametrize(("queries", "block"), [(96, 1), (97, 2), (512, 6), (4096, 43)])
def test_there_are_never_more_cells_than_a_thumbnail_shows(queries, block):
    assert block_size(queries, 1, 96) == (block, 1)
    assert math.ceil(queries / block) <= 96


@pytest.fixture
def trace():
    model = one_stack("decoder-only")
    with torch.inference_mode(), record(model) as trace:
        model(torch.arange(5, 12)[None])
    trace.source_tokens = list("abcdefg")
    return trace


def test_thumbnails_of_long_texts_are_the_blocks_largest_weights(trace, monkeypatch):
    expected = trace.attention("decoder").numpy()
    for name, value in (("LARGEST_MAP", 0), ("AT_ONCE", 1)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(smaller, "CELLS", 4)
    made = all_thumbnails(HeadMaps(trace, HeadSettings("decoder", threshold=0.2), None, False))
    assert made.cells.shape == (2, 2, 4, 4)
    assert made.block == (2, 2)
    for row in range(4):
        for column in range(4):
            block = expected[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
            assert np.allclose(made.cells[:, :, row, column], block.max(axis=(2, 3)), atol=1e-6)
    assert np.array_equal(made.strengths, made.cells)
    assert made.largest_from(0) == pytest.approx(expected.max(axis=(2, 3)))


def test_without_the_first_key_the_scale_ends_at_the_largest_of_the_others(trace):
    expected = trace.attention("decoder").numpy()
    shown = HeadMaps(trace, HeadSettings("decoder", scale="others"), None, False)
    made = all_thumbnails(shown)
    assert smaller.top_values(shown, made) == pytest.approx(expected[..., 1:].max(axis=(2, 3)))
    assert (expected[..., 0].max(axis=2) > expected[..., 1:].max(axis=(2, 3))).any()


def test_a_logarithmic_scale_ends_at_1_or_a_power_of_ten_and_begins_four_powers_below(trace):
    shown = HeadMaps(trace, HeadSettings("decoder", scale="log"), None, False)
    assert (smaller.top_values(shown, all_thumbnails(shown)) == 1).all()
    assert smaller.floor_of(shown, 1.0) == 1e-4
    of_values = HeadMaps(trace, HeadSettings("decoder", Quantity.VALUE, scale="log"), None, False)
    made = all_thumbnails(of_values)
    (top,) = set(smaller.top_values(of_values, made).ravel())
    assert np.log10(top) == pytest.approx(round(np.log10(top)), abs=1e-12)
    assert top / 10 < made.cells.max() <= top
    assert smaller.floor_of(HeadMaps(trace, HeadSettings("decoder"), None, False), 1.0) is None


@pytest.mark.parametrize(("value", "power"), [(1.0, 1.0), (0.1, 0.1), (0.11, 1.0), (7.0, 10.0), (1e-9, 1e-9)])
def test_the_power_of_ten_that_ends_a_scale(value, power):
    assert smaller.power_of_ten(value) == power


def test_only_the_metrics_that_count_tokens_look_at_them(trace, monkeypatch):
    asked = []
    monkeypatch.setattr(of_heads, "tokens", lambda trace, side: asked.append(side) or tokens(trace, side))
    found = of_heads.metrics(Maps(trace, "decoder"), *METRICS)
    assert list(found) == list(METRICS)
    assert asked == ["source"] * 2  # once for special tokens, once for induction


def test_no_group_of_a_long_text_is_larger_than_one_heads_map(trace, monkeypatch):
    """Nothing of size heads × n² is made: the largest tensor a group computes is one head's."""
    monkeypatch.setattr(module, "LARGEST_MAP", 0)
    monkeypatch.setattr(module, "AT_ONCE", 1)
    maps = HeadMaps(trace, HeadSettings("decoder"), None, False).maps
    sizes = {maps.weights(layer, heads).numel() for layer, heads in maps.groups()}
    assert sizes == {7 * 7}
    assert not trace._maps.keys() - {
        "decoder.layers.0.self_attention.visible",
        "decoder.layers.1.self_attention.visible",
    }
