"""Steps without modules: the same numbers for every option, and modules wherever someone looks."""

from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from model.capture.trace import record
from model.experiments.engines.training_comparisons import put_norm_on_the_short_cut
from model.fast import decoding, one_token
from model.network.config import NormPlacement
from model.network.kernels import plain_kernels
from model.network.kv_cache import DecoderCache
from model.network.masks import Mask
from tests.model.examples import network, one_stack

OPTIONS = [
    *({"norm_placement": placement} for placement in get_args(NormPlacement)),
    *({"norm": norm} for norm in ("textbook", "textbook-sample", "rms", "none")),
    *({"position": position} for position in ("learned", "rotary", "alibi", "relative", "none")),
    *({"activation": activation} for activation in ("gelu", "swiglu", "geglu-tanh")),
    {"residual": False, "norm_placement": "pre"},
    {"parallel": True, "norm_placement": "pre"},
    {"n_key_value_heads": 1, "qk_norm": True, "window": 3},
    {"heads": "full", "bias": False, "attention_bias": "inputs"},
    {"scale_attention": False, "embedding_norm": True},
    {"n_experts": 4, "experts_per_token": 1},
]


def stepped(model, batch=2):
    """The states of five tokens, fed three and then one by one; the same in every call."""
    ids = torch.tensor([[1, 6, 4, 9, 8], [1, 4, 5, 6, 7]])[:batch]
    memory = torch.randn(2, 4, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    memory = memory.to(model.decoder.embedding.tokens.weight)
    memory, real = memory[:batch], torch.tensor([[True, True, False, False], [True] * 4])[:batch]
    cache, states = DecoderCache(model.config.n_decoder_layers), []
    given = (memory, Mask(keys=real)) if model.kind == "encoder-decoder" else ()
    mask = Mask(causal=True, window=model.config.window)
    for part in (ids[:, :3], ids[:, 3:4], ids[:, 4:]):
        states.append(model.decoder(part, mask, *given, cache))
    return torch.cat(states, dim=1)


@pytest.fixture
def called(monkeypatch):
    """The modules that are called as such."""
    calls = []
    call = torch.nn.Module.__call__
    monkeypatch.setattr(torch.nn.Module, "__call__", lambda self, *a, **b: (calls.append(self), call(self, *a, **b))[1])
    return calls


@pytest.mark.parametrize("suits", [False, True], ids=["torch", "numpy"])
@pytest.mark.parametrize("make", [network, lambda **options: one_stack("decoder-only", **options)])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps_give_what_modules_give(make, options, suits, called, monkeypatch):
    if not suits:
        monkeypatch.setattr(one_token, "suits", lambda _module: False)
    model = make(**options).double().eval()
    expected = stepped(model, batch=2 - suits)  # with gradients
    attentions = [part for part in model.modules() if isinstance(part, decoding.MultiHeadAttention)]
    assert set(attentions) & set(called)
    called.clear()
    with torch.inference_mode():
        assert_close(stepped(model, batch=2 - suits), expected.detach(), rtol=1e-12, atol=1e-12)
    assert not set(attentions) & set(called)


def test_a_class_that_computes_something_else_is_called():
    model = network(norm_placement="pre").double()
    put_norm_on_the_short_cut(model)
    expected = stepped(model.eval()).detach()
    with torch.inference_mode():
        assert_close(stepped(model), expected, rtol=1e-12, atol=1e-12)
        kept = model.decoder.layers[0].feed_forward.hidden
        kept.forward = lambda x: F.linear(x, kept.weight, kept.bias) + 1  # as some libraries do
        assert not torch.allclose(stepped(model), expected)


def test_a_layer_that_stands_twice_has_a_cache_at_each_place():
    model = network()
    model.decoder.layers[1] = model.decoder.layers[0]
    expected = stepped(model.eval()).detach()
    with torch.inference_mode():
        assert_close(stepped(model), expected, rtol=1e-5, atol=1e-5)


def test_who_records_a_step_sees_all_of_it():
    model = network().eval()
    with torch.inference_mode():
        ids, memory = torch.tensor([[4]]), torch.randn(1, 4, 16)
        for cache in (DecoderCache(2), DecoderCache(2)):
            with record(model) as trace:
                model.encoder(ids, Mask())
                model.output(model.decoder(ids, Mask(causal=True), memory, Mask(), cache))
            assert "decoder.layers.0.cross_attention.query" in trace.names()
            model.decoder(ids, Mask(causal=True), memory, Mask(), cache)


def test_hooks_plain_kernels_and_training_are_served(called):
    model = network().eval()
    attention = model.decoder.layers[0].self_attention
    with torch.inference_mode():
        with plain_kernels():
            stepped(model)
        assert attention in called
        called.clear()
        stepped(model.train())
        assert attention in called
        seen = []
        handle = model.eval().decoder.layers[1].feed_forward.hidden.register_forward_hook(lambda *_: seen.append(1))
        stepped(model)
        assert len(seen) == 3
        handle.remove()
        called.clear()
        stepped(model)
        assert attention not in called


def test_one_token_is_computed_in_numpy_and_more_are_not(monkeypatch):
    multiplied, multiply = [], one_token.linear
    monkeypatch.setattr(one_token, "linear", lambda module: (multiplied.append(module), multiply(module))[1])
    model = network().eval()
    with torch.inference_mode():
        stepped(model, batch=1)
        assert model.decoder.layers[1].feed_forward.hidden in multiplied
        multiplied.clear()
        stepped(model, batch=2)
        stepped(model.bfloat16(), batch=1)
        assert not multiplied


def test_a_query_that_may_look_nowhere_gets_zeros():
    attention, heads = network().double().eval().decoder.layers[0].cross_attention, torch.randn(3, 1, 2, 2, 8).double()
    query, key, value = heads[0, :, :, :1], heads[1], heads[2]
    for keys in ([True, False], [False, False]):
        mask = Mask(keys=torch.tensor([keys]))
        with torch.no_grad():
            expected = attention.attend(query, key, value, mask).flatten(1)[None]
        found = one_token.attend(attention, query.numpy(), key.numpy(), value.numpy(), mask)
        assert_close(torch.from_numpy(found), expected, rtol=1e-12, atol=1e-12)
