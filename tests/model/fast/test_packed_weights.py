"""Weights laid out for few rows: the same numbers, never those of an older weight, and no more room than there is."""

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from model.fast import packed_weights
from model.fast.packed_weights import is_faster, laid_out, product
from model.inference.copies import alone, sharing
from model.inference.models import Translator
from tests.model.examples import tokenizers
from tests.model.training.training_examples import PAIRS, make


@pytest.fixture(autouse=True)
def faster(monkeypatch):
    monkeypatch.setattr(packed_weights, "SMALL", 1)
    monkeypatch.setattr(packed_weights, "is_faster", lambda *_: True)


class Text:
    """What is written."""


def made(weight):
    """The layout for the second text."""
    laid_out(weight, Text())
    return laid_out(weight, Text())


def weights(outputs=80, features=48):
    return nn.Parameter(torch.randn(outputs, features))


def test_one_text_is_not_worth_a_layout():
    weight, text = weights(), Text()
    assert laid_out(weight, text) is None
    packed = laid_out(weight, Text())
    assert packed is not None
    assert laid_out(weight, text) is packed
    with torch.no_grad():
        weight.add_(1)
    assert laid_out(weight, text) is None


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2, 4), (70,), (3, 2, 5)])
def test_the_products_are_those_in_float64(shape, bias):
    weight, x, added = weights(), torch.randn(*shape, 48), torch.randn(80) if bias else None
    exact = F.linear(x.double(), weight.double(), None if added is None else added.double())
    assert_close(product(x, made(weight), added).double(), exact.detach(), rtol=1e-5, atol=1e-5)


def test_elsewhere_a_weight_stays_as_it_is():
    assert made(weights().double()) is None
    assert made(weights().to("meta")) is None
    modes = [torch.autocast("cpu", torch.bfloat16), FlopCounterMode(display=False), torch.device("cpu")]
    for mode in [torch.inference_mode(), *modes]:  # in inference nobody counts how often a weight is written to
        with mode:
            assert made(weights()) is None


def trained(weight):
    (torch.randn(3, 48) @ weight.T).sum().backward()
    torch.optim.AdamW([weight], lr=0.1).step()


CHANGES = {
    "trained": trained,
    "copied into": torch.no_grad()(lambda weight: weight.copy_(torch.randn(80, 48))),
    "in inference": torch.inference_mode()(lambda weight: weight.mul_(2)),
    "another tensor": lambda weight: setattr(weight, "data", torch.randn(80, 48)),
    "a part": lambda weight: setattr(weight, "data", weight.data[:40]),
    "another type": lambda weight: setattr(weight, "data", weight.data.double()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_weight_is_laid_out_anew(change):
    weight, x = weights(), torch.randn(3, 48)
    before = made(weight)
    assert made(weight) is before
    change(weight)
    after = made(weight)
    assert after is not before
    if after is not None:
        assert_close(product(x, after), F.linear(x, weight).detach(), rtol=1e-5, atol=1e-5)


def test_of_a_weight_in_another_precision_nothing_is_left():
    weight, before = weights(), sum(packed_weights._sizes.values())
    assert made(weight) is not None
    weight.data = weight.data.bfloat16()
    assert laid_out(weight, Text()) is None
    gc.collect()
    assert sum(packed_weights._sizes.values()) == before


def test_two_views_of_one_storage_are_two_weights():
    weight, x = weights(48, 48), torch.randn(3, 48)
    for other in (weight, nn.Parameter(weight.detach().T), nn.Parameter(weight.detach()[:20])):
        assert_close(product(x, made(other)), F.linear(x, other).detach(), rtol=1e-5, atol=1e-5)


def test_who_watches_a_training_sees_its_newest_weights():
    """Fused AdamW does not count what it writes: the trainer does."""
    trainer = make(rate=0.1)
    seen = sharing(Translator("watched", trainer.network, tokenizers(PAIRS), {})).network.output.logits.weight
    x = torch.randn(3, seen.shape[1])
    for _report in trainer.steps(3):
        assert_close(product(x, made(seen)), F.linear(x, seen).detach(), rtol=1e-5, atol=1e-5)


def test_room_is_given_back_with_the_weight(monkeypatch):
    model = Translator("a", make().network, tokenizers(PAIRS), {})
    gc.collect()
    before, first = sum(packed_weights._sizes.values()), model.network.output.logits.weight
    monkeypatch.setattr(packed_weights, "ROOM", before + first.nbytes)
    assert made(first) is not None
    other = alone(model)
    second = other.network.output.logits.weight
    assert made(second) is None
    with torch.no_grad():
        first.add_(1)
    assert made(first) is not None  # instead of its own older one
    assert sum(packed_weights._sizes.values()) == before + first.nbytes
    del model, first
    gc.collect()
    assert sum(packed_weights._sizes.values()) == before
    assert made(second) is not None


def test_threads_lay_a_weight_out_once():
    weight, together = weights(400, 400), threading.Barrier(4)
    laid_out(weight, Text())
    before = sum(packed_weights._sizes.values())

    def lay_out(_number):
        together.wait()
        return laid_out(weight, Text())

    with ThreadPoolExecutor(4) as pool:
        assert len(set(map(id, pool.map(lay_out, range(4))))) == 1
    assert sum(packed_weights._sizes.values()) == before + weight.nbytes


def test_the_faster_of_two_ways_is_taken(monkeypatch):
    quick = packed_weights.product
    monkeypatch.setattr(packed_weights, "product", lambda *given: (time.sleep(0.01), quick(*given))[1])
    assert not is_faster.__wrapped__(1)
    monkeypatch.setattr(packed_weights, "product", lambda *_: None)
    assert is_faster.__wrapped__(1)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not is_faster.__wrapped__(1)


def test_the_comparison_is_of_float32_whatever_is_usual():
    torch.set_default_dtype(torch.float64)
    try:
        assert is_faster.__wrapped__(1) in (True, False)
    finally:
        torch.set_default_dtype(torch.float32)
