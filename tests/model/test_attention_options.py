"""Rotary positions, heads of full width, QK-norm: against Llama's attention and against their formulas."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

from model.masks import Mask
from model.positional import Rotation
from tests.model.examples import config
from tests.model.test_attention import attention, path_of


def turned(x, base):
    """Pairs of channels as complex numbers, turned by their position."""
    half = x.shape[-1] // 2
    pairs = torch.complex(x[..., :half], x[..., half:])
    angle = torch.tensor(
        [[place / base ** (channel / half) for channel in range(half)] for place in range(x.shape[-2])]
    )
    pairs = pairs * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([pairs.real, pairs.imag], dim=-1)


@pytest.mark.parametrize("is_explicit", [False, True])
@pytest.mark.parametrize("base", [10.0, 10000.0])
def test_rotary_positions_turn_queries_and_keys(base, is_explicit):
    torch.set_default_dtype(torch.float64)
    try:
        ours = attention(2, position="rotary", position_base=base)
        plain = attention(2)
        plain.load_state_dict(ours.state_dict())
        x = torch.randn(2, 40, 16)  # beyond max_length
        query, key, value = (turned(plain.query(x), base), turned(plain.key(x), base), plain.value(x))
        with path_of(is_explicit):
            expected = plain.output(plain.explicit(query, key, value, Mask(causal=True)).transpose(1, 2).flatten(2))
            assert_close(ours(x, x, Mask(causal=True)), expected, rtol=0, atol=1e-12)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("is_explicit", [False, True])
def test_rotary_attention_is_llamas(is_explicit):
    rope = {"rope_type": "default", "rope_theta": 100.0}
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 2, "rope_parameters": rope}
    llama = LlamaConfig(**sizes, attention_bias=True, attn_implementation="eager")
    ours, theirs = attention(2, torch.float32, position="rotary", position_base=100.0), LlamaAttention(llama, 0)
    pairs = [(ours.query, theirs.q_proj), (ours.key, theirs.k_proj), (ours.value, theirs.v_proj)]
    for mine, other in [*pairs, (ours.output, theirs.o_proj)]:
        other.load_state_dict(mine.state_dict())
    x = torch.randn(2, 9, 16)
    angles = LlamaRotaryEmbedding(llama)(x, torch.arange(9)[None])
    mask = torch.full((9, 9), -torch.inf).triu(1)[None, None]
    with path_of(is_explicit):
        assert_close(ours(x, x, Mask(causal=True)), theirs.eval()(x, angles, mask)[0], rtol=0, atol=1e-5)


def test_rotary_scores_depend_on_the_distance_alone():
    rotation = Rotation(config(position="rotary"))
    query, key = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)
    products = [float((rotation(query, place + 5) * rotation(key, place)).sum()) for place in (0, 7, 300)]
    assert products == pytest.approx([products[0]] * 3, abs=1e-10)
    assert float((rotation(query, 6) * rotation(key, 0)).sum()) != pytest.approx(products[0], abs=1e-3)


@pytest.mark.parametrize("is_explicit", [False, True])
def test_full_heads_are_as_wide_as_the_model(is_explicit):
    ours = attention(3, heads="full")  # 16 is not divisible by 3
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    heads = []
    for head in range(3):
        rows = slice(16 * head, 16 * head + 16)
        query, key, value = (x @ part.weight[rows].T + part.bias[rows] for part in (ours.query, ours.key, ours.value))
        heads.append((query @ key.mT / 4).softmax(dim=-1) @ value)
    expected = torch.cat(heads, dim=-1) @ ours.output.weight.T + ours.output.bias
    with path_of(is_explicit):
        assert_close(ours(x, x, Mask()), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("position", ["none", "rotary"])
def test_qk_norm_gives_queries_and_keys_one_length(position):
    ours = attention(2, qk_norm=True, norm_epsilon=1e-9, position=position)
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    for part in (ours.query, ours.key):
        with torch.no_grad():
            part.norm.weight.fill_(1.5)
        length = part(x).norm(dim=-1)
        assert_close(length, torch.full_like(length, 1.5 * 8**0.5), rtol=1e-6, atol=0)
    plain = attention(2)
    plain.load_state_dict(ours.state_dict(), strict=False)
    if position == "none":
        assert_close(ours.query(x), F.rms_norm(plain.query(x), (8,), eps=1e-9) * 1.5)
