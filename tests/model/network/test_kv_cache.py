"""Decoding with kept keys and values against decoding everything anew."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from model.network.kv_cache import DecoderCache
from model.network.masks import Mask
from tests.model.examples import network

KINDS = [{"norm_placement": "pre", "position": "learned"}, {"norm_placement": "post"}, {"position": "none"}]
KINDS += [
    {"position": "rotary", "norm_placement": "sandwich"},
    {"heads": "full", "qk_norm": True, "position": "rotary"},
    {"position": "alibi", "window": 3},
    {"position": "rotary", "n_key_value_heads": 1, "window": 2},
]
MODELS = [network(seed, **kind).double() for seed, kind in enumerate(KINDS)]
REAL = torch.tensor([[True] * 5, [True, True, False, False, False]])
chunks = st.lists(st.integers(1, 3), min_size=1, max_size=5)


def in_chunks(model, target, memory, sizes, cache):
    masks = Mask(causal=True, window=model.config.window), Mask(keys=REAL)
    states = [model.decoder(part, masks[0], memory, masks[1], cache) for part in target.split(sizes, dim=1)]
    return torch.cat(states, dim=1)


@settings(max_examples=60)
@example(3, [20, 20, 3], 39, [9], 0)  # more than there is room for at first
@given(st.sampled_from(range(len(KINDS))), chunks, st.integers(0, 20), chunks, st.integers(0, 2**32 - 1))
@pytest.mark.slow
def test_in_chunks_is_all_at_once_and_what_was_cut_is_forgotten(kind, sizes, keep, others, seed):
    model = MODELS[kind]
    torch.manual_seed(seed)
    memory, target = model.encode(torch.randint(11, (2, 5)), REAL), torch.randint(13, (2, sum(sizes)))
    cache = DecoderCache(2)
    states = in_chunks(model, target, memory, sizes, cache)
    assert cache.length == sum(sizes)
    assert_close(states, model.decode(target, memory, REAL), rtol=0, atol=1e-10)
    cache.cut(keep)
    kept = min(keep, sum(sizes))
    assert cache.length == kept
    other = torch.randint(13, (2, sum(others)))
    states = in_chunks(model, other, memory, others, cache)
    whole = model.decode(torch.cat([target[:, :kept], other], dim=1), memory, REAL)
    assert_close(states, whole[:, kept:], rtol=0, atol=1e-10)


@pytest.mark.parametrize(("attention", "lengths"), [("self_attention", [2, 1, 3]), ("cross_attention", [5])])
def test_each_token_is_projected_once(attention, lengths):
    model, projected = network(), []
    for layer in model.decoder.layers:
        key = getattr(layer, attention).key
        key.register_forward_hook(lambda module, inputs, output: projected.append(output.shape[2]))
    memory = model.encode(torch.randint(11, (2, 5)), REAL)
    in_chunks(model, torch.randint(13, (2, 6)), memory, [2, 1, 3], DecoderCache(2))
    assert projected == [length for length in lengths for _ in model.decoder.layers]
