"""Rotary positions, ALiBi, windows, shared keys, heads of full width, QK-norm: against Hugging Face and formulas."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close
from transformers import LlamaConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

from model.inference.decoding import greedy
from model.network.kernels import plain_kernels
from model.network.masks import Mask
from model.network.positions import Rotation, alibi_slopes, turning
from tests.model.examples import config, network, one_stack
from tests.model.network.test_attention import attention


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
        with plain_kernels(is_explicit):
            expected = plain.output(plain.attend(query, key, value, Mask(causal=True)).transpose(1, 2).flatten(2))
            assert_close(ours(x, x, Mask(causal=True)), expected, rtol=0, atol=1e-12)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("is_explicit", [False, True])
@pytest.mark.parametrize("shared", [4, 2, 1])
def test_rotary_attention_is_llamas(is_explicit, shared):
    rope = {"rope_type": "default", "rope_theta": 100.0}
    sizes = {"hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": shared, "rope_parameters": rope}
    llama = LlamaConfig(**sizes, attention_bias=True, attn_implementation="eager")
    options = {"position": "rotary", "position_base": 100.0, "n_key_value_heads": shared}
    ours, theirs = attention(4, torch.float32, **options), LlamaAttention(llama, 0)
    pairs = [(ours.query, theirs.q_proj), (ours.key, theirs.k_proj), (ours.value, theirs.v_proj)]
    for mine, other in [*pairs, (ours.output, theirs.o_proj)]:
        other.load_state_dict(mine.state_dict())
    x = torch.randn(2, 9, 16)
    angles = LlamaRotaryEmbedding(llama)(x, torch.arange(9)[None])
    mask = torch.full((9, 9), -torch.inf).triu(1)[None, None]
    with plain_kernels(is_explicit):
        assert_close(ours(x, x, Mask(causal=True)), theirs.eval()(x, angles, mask)[0], rtol=0, atol=1e-5)


def test_rotary_scores_depend_on_the_distance_alone():
    rotation = Rotation(config(position="rotary"))
    query, key = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)
    products = [float((rotation(query, place + 5) * rotation(key, place)).sum()) for place in (0, 7, 300)]
    assert products == pytest.approx([products[0]] * 3, abs=1e-10)
    assert float((rotation(query, 6) * rotation(key, 0)).sum()) != pytest.approx(products[0], abs=1e-3)


def test_turns_far_away_are_the_same_as_from_the_beginning():
    """However long the input may be, few turns are computed at first, and more when they are asked for."""
    rotation = Rotation(config(position="rotary", max_length=100_000))
    x = torch.randn(1, 1, 3, 8, dtype=torch.float64)
    near = rotation(x)
    assert len(rotation._table(x, 3)[0]) == 1024
    far = rotation(x, 1500)
    assert len(rotation._table(x, 3)[0]) == 2048
    assert torch.equal(rotation(x), near)
    angle = torch.arange(1500, 1503)[:, None] / 10_000 ** (torch.arange(0, 8, 2) / 8).double()
    pairs = torch.complex(*x.chunk(2, dim=-1)) * torch.polar(torch.ones_like(angle), angle)
    assert_close(far, torch.cat([pairs.real, pairs.imag], dim=-1), rtol=0, atol=1e-9)


def test_only_the_first_channels_are_turned():
    options = {"position": "rotary", "head_width": 6}
    partial, whole = turning(config(rotary_channels=4, **options)), turning(config(position="rotary", head_width=4))
    x = torch.randn(2, 1, 5, 6)
    turned = partial(x, 7)
    assert torch.equal(turned[..., 4:], x[..., 4:])
    assert torch.equal(turned[..., :4], whole(x[..., :4], 7))
    assert not torch.equal(turned, x)


def test_long_wavelengths_are_stretched_and_short_ones_are_not():
    """Wavelengths 2π · 10^k: up to 100 as they are, from 1000 on twice as long, and between them in between."""
    options = {"position": "rotary", "position_base": 1e4, "head_width": 8, "rotary_stretch": 2.0}
    periods = 1e4 ** (torch.arange(0, 8, 2).double() / 8)  # 1, 10, 100, 1000
    rotation = turning(config(rotary_short=100.0, rotary_long=1000.0, **options))
    share = (1 / (200 * math.pi) - 1 / 1000) / (1 / 100 - 1 / 1000)  # of its frequency that is kept
    expected = periods * torch.tensor([1, 1, 1 / ((1 - share) / 2 + share), 2], dtype=torch.float64)
    assert_close(rotation._stretched(periods), expected, rtol=0, atol=1e-9)
    assert torch.equal(turning(config(**options))._stretched(periods), 2 * periods)  # Chen et al., 2023


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
    with plain_kernels(is_explicit):
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


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12])
def test_alibi_slopes_are_blooms(heads):
    """Bloom adds slope × key position, which differs from −slope × distance by the same number in a whole row."""
    theirs = build_alibi_tensor(torch.ones(1, 5), heads, torch.float32)[:, 0]
    assert_close(theirs, (alibi_slopes(heads)[:, None] * torch.arange(5)).float())


@pytest.mark.parametrize("is_explicit", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_alibi_takes_distance_from_the_scores(is_explicit, is_causal, padded):
    ours, plain = attention(2, position="alibi"), attention(2)
    plain.load_state_dict(ours.state_dict())
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    real = torch.tensor([[True] * 7, [True] * 4 + [False] * 3]) if padded else None
    mask = Mask(real, causal=is_causal)
    query, key, value = plain.query(x), plain.key(x), plain.value(x)
    scores = query @ key.mT / 8**0.5
    for head, slope in enumerate([1 / 16, 1 / 256]):
        for i in range(7):
            for j in range(7):
                scores[:, head, i, j] -= slope * abs(i - j)
    scores = scores.masked_fill(~mask.visible(7, 7, x.device), -torch.inf)
    expected = plain.output((scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2))
    with plain_kernels(is_explicit):
        assert_close(ours(x, x, mask), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("is_explicit", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
def test_a_window_hides_what_is_far(is_explicit, is_causal):
    ours = attention(2)
    x = torch.randn(2, 9, 16, dtype=torch.float64)
    moved = x.clone()
    moved[:, 3] += 1
    with plain_kernels(is_explicit):
        before, after = (ours(each, each, Mask(causal=is_causal, window=3)) for each in (x, moved))
        whole = ours(x, x, Mask(causal=is_causal, window=9))
        assert_close(whole, ours(x, x, Mask(causal=is_causal)), rtol=0, atol=1e-12)
    changed = [place for place in range(9) if not torch.equal(before[:, place], after[:, place])]
    assert changed == ([3, 4, 5] if is_causal else [1, 2, 3, 4, 5])


@pytest.mark.parametrize("is_explicit", [False, True])
@pytest.mark.parametrize("shared", [1, 2])
def test_heads_share_keys_and_values_in_groups(is_explicit, shared):
    """As if each head had its own, equal in a group."""
    ours, plain = attention(4, n_key_value_heads=shared), attention(4)
    weights = dict(ours.state_dict())
    for name in ("key.weight", "key.bias", "value.weight", "value.bias"):
        assert len(weights[name]) == 4 * shared
        weights[name] = weights[name].unflatten(0, (shared, 4)).repeat_interleave(4 // shared, dim=0).flatten(0, 1)
    plain.load_state_dict(weights)
    x = torch.randn(2, 6, 16, dtype=torch.float64)
    for mask in (Mask(), Mask(causal=True), Mask(torch.tensor([[True] * 6, [True] * 2 + [False] * 4]))):
        with plain_kernels(is_explicit):
            assert_close(ours(x, x, mask), plain(x, x, mask), rtol=0, atol=1e-12)


TRAINED = [
    {},
    {"n_key_value_heads": 1, "heads": "full"},
    {"qk_norm": True, "attention_bias": "none"},
    {"position": "rotary", "attention_bias": "inputs"},
    {"position": "alibi", "bias": False},
]


@pytest.mark.parametrize("options", TRAINED, ids=str)
@pytest.mark.parametrize("make", [network, lambda **options: one_stack("decoder-only", **options)])
def test_what_is_trained_is_what_is_looked_at(make, options):
    """In training, queries, keys and values come from one product."""
    model = make(**options).double()
    ids = torch.tensor([[1, 4, 5, 6, 7], [1, 6, 4, 9, 8]])
    given = (ids, ids[:, :3]) if model.kind == "encoder-decoder" else (ids,)
    results = []
    for each in (model.train(), copy.deepcopy(model).eval()):
        each.zero_grad()
        logits = each(*given)
        logits.square().mean().backward()
        results.append((logits.detach(), [parameter.grad for parameter in each.parameters()]))
    assert_close(*results, rtol=1e-10, atol=1e-10)
    prompt = ids[:, :3]
    written = [
        greedy(one.read(prompt, padding=0, start=1), ends=(), limits=[6, 6])[0] for one in (model.train(), model.eval())
    ]
    assert written[0] == written[1]
