"""Experiments with masks: what must be exactly 0 is, what must not be is not."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from model.analysis import masking
from model.analysis.masking import Batch
from model.capture.interventions import Causal
from tests.model.examples import SOURCE, network, one_stack

CPU = torch.device("cpu")
TARGET = torch.tensor([[1, 4, 12, 8, 7, 2]])


@pytest.mark.parametrize("options", [None, {}, {"position": "rotary", "n_key_value_heads": 1}, {"position": "alibi"}])
def test_with_the_causal_mask_no_output_before_a_changed_token_moves(options):
    model = network() if options is None else one_stack("decoder-only", **options)
    ids = [SOURCE, TARGET] if options is None else [TARGET]
    changes = masking.future_change(model, ids, 3, 11)
    assert (changes[:3] == 0).all()
    assert (changes[3:] > 0).all()
    leaking = masking.future_change(model, ids, 3, 11, masking.without_causal_mask(model))
    assert (leaking > 1e-3).all()
    with torch.inference_mode():
        expected = model(*ids[:-1], torch.tensor([[1, 4, 12, 11, 7, 2]])) - model(*ids)
    assert_close(changes, expected[0].abs().amax(dim=-1))


def test_a_model_that_fills_in_sees_the_future_until_it_gets_a_causal_mask():
    model = one_stack("encoder-only")
    assert masking.self_attention(model) == "encoder"
    assert (masking.future_change(model, [TARGET], 5, 3) > 0).all()
    assert (masking.future_change(model, [TARGET], 5, 3, [Causal("encoder", True)])[:5] == 0).all()


def test_a_batch_is_padded_on_the_right():
    batch = Batch.of([[[5, 6, 7], [9]], [[1], [1, 4]]], [0, 2], CPU)
    assert [ids.tolist() for ids in batch.ids] == [[[5, 6, 7], [9, 0, 0]], [[1, 2], [1, 4]]]
    assert [real.tolist() for real in batch.real] == [[[True] * 3, [True, False, False]], [[True, False], [True] * 2]]


@pytest.mark.parametrize("kind", ["encoder-decoder", "encoder-only", "decoder-only"])
def test_padding_changes_nothing_with_the_masks_and_something_without(kind):
    rows = [[5, 6, 7, 3, 9], [9, 3], [4, 4, 4]]
    targets = [[1, 4, 12], [1, 2, 8, 11], [1]]
    model = network() if kind == "encoder-decoder" else one_stack(kind)
    stacks = [rows, targets] if kind == "encoder-decoder" else [rows]
    batch = Batch.of(stacks, [0] * len(stacks), CPU)
    alone = batch.alone(model)
    assert batch.changes_of(model, alone).max() < 1e-5
    unmasked = batch.changes_of(model, alone, masking.without_padding_masks(model))
    if kind == "decoder-only":  # padding on the right is the future
        assert unmasked.max() < 1e-5
        causal = masking.without_causal_mask(model)
        unmasked = batch.changes_of(model, batch.alone(model, causal), [*masking.without_padding_masks(model), *causal])
    assert unmasked[0] < 1e-5  # the longest source has no padding
    assert (unmasked[1:] > 1e-3).all()
    trace = batch.trace(model).example(1)
    path = trace.attention_paths(masking.self_attention(model))[0]
    assert_close(trace["output.logits"], model(*batch.ids, *batch.real)[1])
    assert not trace[f"{path}.visible"][:, len(stacks[-1][1]) :].any()


def test_the_three_orders_are_what_torch_computes_step_by_step():
    scores, value = torch.randn(4, 4), torch.randn(4, 3)
    visible = torch.ones(4, 4).tril().bool()
    before, after, zeroed = masking.orders(scores, visible, value)
    assert_close(before.output, F.scaled_dot_product_attention(scores, torch.eye(4), value, visible, scale=1.0))
    assert_close(before.sums, torch.ones(4))
    assert after.sums.tolist() == [-math.inf] * 3 + [pytest.approx(1.0)]
    assert not after.output[:3].isfinite().any()
    assert_close(after.output[3], before.output[3])
    later = torch.softmax(scores, -1).triu(1).sum(-1)
    assert_close(zeroed.sums, 1 - later)
    assert masking.orders(scores, visible & False, value)[0].weights.abs().max() == 0


def test_what_stands_for_minus_infinity_in_three_precisions():
    scores = torch.randn(3, 4) * 3
    visible = torch.ones(3, 4).tril().bool()
    table = masking.fills(scores, visible).set_index(["dtype", "fill"])
    assert len(table) == 9
    assert (table["hidden"] == 0).all()
    assert table.loc[("float16", "-1e9"), "stored"] == -math.inf
    assert not table.loc[("float16", "-1e9"), "accepted"]
    assert table.drop(("float16", "-1e9"))["accepted"].all()
    for dtype in ("float32", "bfloat16", "float16"):
        assert math.isnan(table.loc[(dtype, "-inf"), "empty_high"])
        assert table.loc[(dtype, "min"), "empty_low"] == table.loc[(dtype, "min"), "empty_high"] == 0.25
    assert table.loc[("float32", "-1e9"), "empty_low"] == table.loc[("bfloat16", "-1e9"), "empty_high"] == 0.25
    assert math.isnan(table.loc[("float16", "-1e9"), "empty_high"])
    assert table.loc[("float32", "min"), "rows"] < 1e-6 < table.loc[("bfloat16", "min"), "rows"] < 1e-2
