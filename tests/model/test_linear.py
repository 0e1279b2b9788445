"""Few rows by another layout of the weight: the same numbers, never those of an older weight."""

import copy
import gc
import time

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from model import linear
from model.copies import sharing
from model.linear import Linear, packed_is_faster
from model.writing import Translator
from tests.model.examples import network, tokenizers
from tests.model.training_examples import PAIRS, make


@pytest.fixture(autouse=True)
def faster(monkeypatch):
    monkeypatch.setattr(linear, "SMALL", 1)
    monkeypatch.setattr(linear, "packed_is_faster", lambda *_: True)


def packed(layer, x):
    """What the layer makes of x once its weight was read twice."""
    with torch.inference_mode():
        for _ in range(2):
            layer(x)
        assert layer._layout.packed() is not None
        return layer(x)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2, 4), (70,), (3, 2, 5)])
def test_the_products_are_those_in_float64(shape, bias):
    layer, x = Linear(48, 80, bias=bias), torch.randn(*shape, 48)
    exact = F.linear(x.double(), layer.weight.double(), layer.bias.double() if bias else None)
    assert_close(packed(layer, x).double(), exact, rtol=1e-5, atol=1e-6)
    assert layer.state_dict().keys() == torch.nn.Linear(48, 80, bias=bias).state_dict().keys()


def test_no_rows_other_precisions_and_autocast_are_torchs_own():
    layer = Linear(48, 80)
    with torch.inference_mode():
        for _ in range(3):
            assert layer(torch.empty(0, 48)).shape == (0, 80)
            assert layer.double()(torch.randn(2, 48).double()).dtype == torch.float64
            with torch.autocast("cpu", torch.bfloat16):
                assert layer.float()(torch.randn(2, 48)).dtype == torch.bfloat16
    assert layer._layout is None


def test_who_counts_operations_sees_torchs_own():
    layer, x = Linear(48, 80), torch.randn(3, 48)
    packed(layer, x)
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        layer(x)
    assert counter.get_total_flops() == 2 * 3 * 48 * 80


def test_gradients_are_torchs_own():
    layer, x = Linear(48, 80), torch.randn(3, 48, requires_grad=True)
    packed(layer, x.detach())
    slope, inputs = torch.randn(3, 80), (x, layer.weight, layer.bias)
    ours, theirs = layer(x), F.linear(*inputs)
    for a, b in zip(*(torch.autograd.grad(y, inputs, slope) for y in (ours, theirs)), strict=True):
        assert torch.equal(a, b)


def trained(layer):
    layer(torch.randn(3, 48)).sum().backward()
    torch.optim.AdamW(layer.parameters(), lr=0.1, fused=True).step()


CHANGES = {
    "trained": trained,
    "copied into": lambda layer: layer.load_state_dict(Linear(48, 80).state_dict()),
    "in inference": torch.inference_mode()(lambda layer: layer.weight.mul_(2)),
    "another tensor": lambda layer: setattr(layer.weight, "data", torch.randn(80, 48)),
    "another weight": lambda layer: setattr(layer, "weight", torch.nn.Parameter(torch.randn(80, 48))),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_weight_is_read_anew(change):
    layer, x = Linear(48, 80), torch.randn(3, 48)
    before = packed(layer, x)
    change(layer)
    with torch.inference_mode():
        for _ in range(3):
            assert_close(layer(x), F.linear(x, layer.weight, layer.bias))
    assert not torch.allclose(before, layer(x), atol=1e-3)


def test_who_watches_a_training_sees_its_newest_weights():
    """Another module with the same weights sees no gradient, and fused AdamW does not count what it writes."""
    trainer = make(rate=0.1)
    seen = sharing(Translator("watched", trainer.model, tokenizers(PAIRS), {})).model.output.logits
    x = torch.randn(3, seen.in_features)
    for _report in trainer.steps(3):
        for _ in range(3):
            with torch.inference_mode():
                assert_close(seen(x), F.linear(x, seen.weight, seen.bias))
    assert seen._layout.packed() is not None


def test_a_copy_has_a_layout_of_its_own():
    layer, x = Linear(48, 80), torch.randn(3, 48)
    packed(layer, x)
    other = copy.deepcopy(layer)
    assert other._layout is None
    with torch.no_grad():
        other.weight.zero_()
    assert_close(packed(other, x), other.bias.expand(3, -1))
    assert_close(packed(layer, x), F.linear(x, layer.weight, layer.bias))


def test_where_there_is_no_room_the_weight_is_taken_as_it_is(monkeypatch):
    first, second = Linear(48, 80), Linear(48, 80)
    gc.collect()
    monkeypatch.setattr(linear, "ROOM", linear._taken + first.weight.nbytes)
    x = torch.randn(3, 48)
    packed(first, x)
    with torch.inference_mode():
        for _ in range(3):
            assert torch.equal(second(x), F.linear(x, second.weight, second.bias))
    assert second._layout.packed() is None
    del first
    gc.collect()
    packed(second, x)


def test_a_network_predicts_the_same():
    model = network().eval()
    source, target = torch.randint(4, 10, (2, 7)), torch.randint(4, 10, (2, 5))
    expected = model(source, target)
    with torch.inference_mode():
        for _ in range(3):
            assert_close(model(source, target), expected, rtol=1e-5, atol=1e-5)
    assert model.output.logits._layout.packed() is not None


def test_the_faster_of_two_ways_is_taken(monkeypatch):
    quick = linear.product
    monkeypatch.setattr(linear, "product", lambda *given: (time.sleep(0.01), quick(*given))[1])
    assert not packed_is_faster.__wrapped__(3, 2000, 1000, 1)
    monkeypatch.setattr(linear, "product", lambda *_: None)
    assert packed_is_faster.__wrapped__(3, 2000, 1000, 1)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not packed_is_faster.__wrapped__(3, 2000, 1000, 1)
