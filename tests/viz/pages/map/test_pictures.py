"""What the map is sent of each block, against the trace itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from model.analysis.blocks import Block, blocks
from model.analysis.comparison import Comparison
from model.capture.trace import Trace, record
from tests.model.examples import network, one_stack
from viz.pages.map.pictures import FULL, MOST_CELLS, Pictures

SOURCE, TARGET = torch.tensor([[1, 4, 5, 6, 2]]), torch.tensor([[1, 7, 8]])


def traced(model, *texts: torch.Tensor) -> Trace:
    with torch.inference_mode(), record(model) as trace:
        model(*texts)
    sides = [[str(token) for token in text[0].tolist()] for text in texts]
    trace.source_tokens, trace.target_tokens = sides[0], sides[1] if len(sides) > 1 else []
    return trace


def of(pictures: Pictures, path: str) -> tuple[np.ndarray, Block]:
    (block,) = [block for block in blocks(pictures.trace) if block.path == path]
    return pictures.of(block), block


def test_a_head_is_its_weights_and_masked_cells_are_level_0():
    trace = traced(network(), SOURCE, TARGET)
    levels, _ = of(Pictures(trace, None, False), "decoder.layers.1.self_attention")
    expected = trace["decoder.layers.1.self_attention.weights"].numpy()
    hidden = np.triu(np.ones((3, 3)), 1) > 0
    assert levels.dtype == np.uint16
    assert np.array_equal(levels == 0, np.broadcast_to(hidden, levels.shape))
    assert np.allclose((levels[:, ~hidden] - 1.0) / FULL, expected[:, ~hidden], atol=1 / FULL)


def test_a_long_text_has_a_small_picture_with_the_largest_weights():
    ids = torch.randint(3, 13, (1, 150))
    trace = traced(one_stack("decoder-only", max_length=150), ids)
    levels, _ = of(Pictures(trace, None, False), "decoder.layers.0.self_attention")
    weights = trace["decoder.layers.0.self_attention.weights"]
    assert max(levels.shape[1:]) <= MOST_CELLS
    assert (levels.max(axis=(1, 2)) - 1) / FULL == pytest.approx(weights.amax(dim=(1, 2)).numpy(), abs=1e-4)


def test_a_norms_lines_are_mean_and_deviation_and_those_of_the_pin():
    model = network(norm_placement="pre")
    trace, other = traced(model, SOURCE, TARGET), traced(model, SOURCE[:, [0, 1, 3, 4]], TARGET)
    path = "encoder.layers.0.feed_forward_block.norm"
    lines, _ = of(Pictures(trace, None, False), path)
    x = trace[f"{path}.input"].double().numpy()
    assert np.allclose(lines, [x.mean(axis=-1), x.std(axis=-1)], atol=1e-5)
    lines, _ = of(Pictures(trace, Comparison(trace, other), False), path)
    before = other[f"{path}.input"].double().numpy()
    assert np.isnan(lines[2:, 2]).all()  # the token that the pinned text has not
    assert np.allclose(lines[2:][:, [0, 1, 3, 4]], [before.mean(axis=-1), before.std(axis=-1)], atol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_a_strip_is_the_mean_size_of_what_the_second_layer_reads(activation):
    model = network(activation=activation)
    seen = []
    model.encoder.layers[1].feed_forward.output.register_forward_pre_hook(lambda _m, inputs: seen.append(inputs[0][0]))
    trace = traced(model, SOURCE, TARGET)
    levels, _ = of(Pictures(trace, None, False), "encoder.layers.1.feed_forward")
    expected = seen[0].abs().mean(dim=0).numpy()
    assert np.allclose((levels[0, 0] - 1.0) / FULL, expected / expected.max(), atol=1 / FULL)


@pytest.mark.parametrize(("position", "parts"), [("sinusoidal", 2), ("learned", 2), ("rotary", 1), ("alibi", 1)])
def test_an_embedding_shows_positions_where_some_are_added(position, parts):
    trace = traced(network(position=position), SOURCE, TARGET)
    levels, _ = of(Pictures(trace, None, False), "encoder.embedding")
    both = np.stack([trace[f"encoder.embedding.{name}"].detach().numpy() for name in ("tokens", "positions")[:parts]])
    assert np.allclose((levels - 1.0) / FULL * 2 - 1, both / np.abs(both).max(), atol=2 / FULL)


def test_differences_are_this_trace_minus_the_pinned_one():
    model = network()
    trace, other = traced(model, SOURCE, TARGET), traced(model, SOURCE, TARGET[:, [0, 2]])
    pictures = Pictures(trace, Comparison(trace, other), True)
    path = "decoder.layers.0.cross_attention"
    levels, block = of(pictures, path)
    assert (levels[:, 1] == 0).all()  # the query that was inserted
    expected = (trace[f"{path}.weights"][:, [0, 2]] - other[f"{path}.weights"]).numpy()
    assert np.allclose(((levels[:, [0, 2]] - 1.0) / FULL * 2 - 1) * pictures.top, expected, atol=1e-4)
    change = trace[block.output][[0, 2]] - other[block.output]
    assert pictures.flow(block) == pytest.approx(float(change.norm(dim=-1).mean()), rel=1e-4)
    untouched, _ = of(pictures, "encoder.layers.1.self_attention")
    assert (untouched == FULL // 2 + 1).all()  # the source is the same


def test_another_models_pin_leaves_nothing_to_draw():
    trace, other = traced(network(), SOURCE, TARGET), traced(network(d_ff=8, n_heads=4), SOURCE, TARGET)
    pictures = Pictures(trace, Comparison(trace, other), True)
    for path in ("encoder.layers.0.self_attention", "decoder.layers.0.feed_forward"):
        levels, _ = of(pictures, path)
        assert (levels == 0).all()
    assert pictures.top == 1.0
