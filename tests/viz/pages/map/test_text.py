"""What is said of a block: numbers with units, weights by shape."""

from __future__ import annotations

import pytest
import torch

from model.analysis.blocks import blocks
from model.capture.trace import record
from tests.model.examples import network
from viz.pages.map.text import flops_text, lines, place_name, title, weights_text


@pytest.mark.parametrize(
    ("flops", "text"),
    [
        (0, "0\u00a0FLOP"),
        (999, "999\u00a0FLOP"),
        (1000, "1.00\u00a0kFLOP"),
        (12_345, "12.3\u00a0kFLOP"),
        (99_960_000, "100\u00a0MFLOP"),
        (2_500_000_000, "2.50\u00a0GFLOP"),
        (4_200_000_000_000, "4,200\u00a0GFLOP"),
    ],
)
def test_operations_have_three_digits_and_a_unit(flops, text):
    assert flops_text(flops) == text


def test_weights_of_one_shape_stand_together():
    weights = {"query.weight": (4, 8), "key.weight": (4, 8), "query.bias": (4,)}
    assert weights_text(weights) == "query, key: 4 × 8\nquery.bias: 4"


def test_blocks_say_where_they_are_and_what_they_are():
    model = network(norm_placement="pre", n_key_value_heads=1, window=2)
    with torch.inference_mode(), record(model) as trace:
        model(torch.tensor([[1, 4, 5, 6, 2]]), torch.tensor([[1, 7, 8]]))
    found = {block.path: block for block in blocks(trace)}
    cross = found["decoder.layers.1.cross_attention"]
    assert place_name(cross) == "Decoder · layer 2 · cross-attention"
    assert title(cross, trace, model.config) == "cross-attention · 2 heads"
    assert title(found["decoder.layers.0.self_attention"], trace, model.config).endswith("2 heads · causal · window 2")
    assert place_name(found["encoder.layers.0.feed_forward_block.norm"]) == "Encoder · layer 1 · norm of feed-forward"
    said = dict(lines(cross, model.config))
    assert said["queries from the decoder"] == "3 × 16"
    assert said["keys, values from the encoder"] == "5 × 16"
    assert said["heads"] == "2 × 3 × 8, keys and values of 1"
    # By hand: queries and outputs 3 × 16 × 16, keys and values 5 × 16 × 8, scores and sums 3 × 5 × 16; each twice, × 2.
    assert said["matrix products"] == flops_text(4 * (3 * 16 * 16 + 5 * 16 * 8 + 3 * 5 * 16))
    assert said["parameters"] == f"{2 * (16 * 16 + 16) + 2 * (16 * 8 + 8):,}"
