"""Attention with every option, by both kernels, against torch's, Hugging Face's and formulas."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from transformers import LlamaConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

from model.inference.decoding import greedy
from model.network.attention import MultiHeadAttention
from model.network.kernels import plain_kernels
from model.network.masks import Mask
from model.network.positions import Rotation, alibi_slopes, turning
from tests.model.examples import config, network, one_stack

EXACT = {"rtol": 0, "atol": 1e-10}


@pytest.fixture(params=[False, True], ids=["installed", "plain"])
def kernels(request):
    """Attention as it is trained and used, and step by step."""
    with plain_kernels(request.param):
        yield


by_both_kernels = pytest.mark.usefixtures("kernels")


def attention(n_heads=4, dtype=torch.float64, **options) -> MultiHeadAttention:
    """Every weight random, biases too."""
    module = MultiHeadAttention(config(n_heads=n_heads, **options)).to(dtype)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.25)
    return module.eval()


def torchs(ours: MultiHeadAttention, n_heads: int) -> nn.MultiheadAttention:
    """torch's module with the weights of ours."""
    module = nn.MultiheadAttention(16, n_heads, batch_first=True, dtype=torch.float64)
    projections = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
        module.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
    module.out_proj.load_state_dict(ours.output.state_dict())
    return module


@by_both_kernels
@pytest.mark.parametrize("n_heads", [1, 2, 8])
@pytest.mark.parametrize("is_causal", [False, True])
def test_it_is_torchs_multihead_attention(n_heads, is_causal):
    ours = attention(n_heads)
    x = torch.randn(3, 5, 16, dtype=torch.float64, requires_grad=True)
    memory = x if is_causal else torch.randn(3, 7, 16, dtype=torch.float64)
    keys = torch.ones(3, memory.shape[1], dtype=torch.bool)
    keys[1, 3:] = False
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1) if is_causal else None
    result = ours(x, memory, Mask(keys=keys, causal=is_causal))
    expected, _ = torchs(ours, n_heads)(x, memory, memory, key_padding_mask=~keys, attn_mask=hidden)
    assert_close(result, expected, **EXACT)
    slope = torch.randn_like(result)
    gradients = (torch.autograd.grad(each, x, slope)[0] for each in (result, expected))
    assert_close(*gradients, **EXACT)


def test_the_stages_are_equation_1():
    """One head, two queries, three keys, by hand."""
    module = attention(n_heads=8)  # two channels a head
    query, key = [[1.0, 2.0], [0.5, -1.0]], [[3.0, 0.0], [-1.0, 1.0], [2.0, 2.0]]
    scores = module.scores(torch.tensor([query]), torch.tensor([key]))[0]
    assert scores.tolist() == [[pytest.approx(a * c + b * d) for c, d in key] for a, b in query]
    scaled = module.scaled(scores)
    assert_close(scaled, scores / math.sqrt(2))
    visible = torch.tensor([[True, True, False], [False, False, False]])
    masked = module.masked(scaled, visible)
    assert masked.tolist()[0][2] == -math.inf
    assert masked.tolist()[1] == [-math.inf] * 3
    weights = module.weights(masked, visible)
    exponentials = [math.exp(float(scaled[0, j])) for j in range(2)]
    expected = [exponentials[0] / sum(exponentials), exponentials[1] / sum(exponentials), 0.0]
    assert weights[0].tolist() == pytest.approx(expected)
    assert weights[1].tolist() == [0.0, 0.0, 0.0]


@by_both_kernels
def test_without_the_scale_it_is_attention_to_larger_queries():
    plain, scaled = attention(scale_attention=False), attention()
    scaled.load_state_dict(plain.state_dict())
    with torch.no_grad():
        for parameter in scaled.query.parameters():
            parameter.mul_(math.sqrt(4))  # four channels a head
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    assert_close(plain(x, x, Mask(causal=True)), scaled(x, x, Mask(causal=True)))


@by_both_kernels
def test_attention_dropout_drops_weights_while_training_only():
    module = attention(attention_dropout=0.5, dtype=torch.float32)
    x = torch.randn(2, 6, 16)
    assert torch.equal(module(x, x, Mask()), module(x, x, Mask()))
    module.train()
    assert not torch.equal(module(x, x, Mask()), module(x, x, Mask()))


@by_both_kernels
@pytest.mark.parametrize(("shared", "base"), [(4, 10.0), (2, 100.0), (1, 10_000.0)])
def test_rotary_attention_is_llamas(shared, base):
    rope = {"rope_type": "default", "rope_theta": base}
    sizes = {"hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": shared, "rope_parameters": rope}
    llama = LlamaConfig(**sizes, attention_bias=True, attn_implementation="eager")
    options = {"position": "rotary", "position_base": base, "n_key_value_heads": shared}
    ours, theirs = attention(4, torch.float32, **options), LlamaAttention(llama, 0)
    pairs = [(ours.query, theirs.q_proj), (ours.key, theirs.k_proj), (ours.value, theirs.v_proj)]
    for mine, other in [*pairs, (ours.output, theirs.o_proj)]:
        other.load_state_dict(mine.state_dict())
    x = torch.randn(2, 40, 16)  # beyond max_length
    angles = LlamaRotaryEmbedding(llama)(x, torch.arange(40)[None])
    mask = torch.full((40, 40), -torch.inf).triu(1)[None, None]
    assert_close(ours(x, x, Mask(causal=True)), theirs.eval()(x, angles, mask)[0], rtol=0, atol=1e-5)


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


@by_both_kernels
def test_full_heads_are_as_wide_as_the_model():
    ours = attention(3, heads="full")  # 16 is not divisible by 3
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    heads = []
    for head in range(3):
        rows = slice(16 * head, 16 * head + 16)
        query, key, value = (x @ part.weight[rows].T + part.bias[rows] for part in (ours.query, ours.key, ours.value))
        heads.append((query @ key.mT / 4).softmax(dim=-1) @ value)
    expected = torch.cat(heads, dim=-1) @ ours.output.weight.T + ours.output.bias
    assert_close(ours(x, x, Mask()), expected, **EXACT)


@pytest.mark.parametrize("position", ["none", "rotary"])
def test_qk_norm_gives_queries_and_keys_one_length(position):
    ours, plain = attention(2, qk_norm=True, norm_epsilon=1e-9, position=position), attention(2)
    plain.load_state_dict(ours.state_dict(), strict=False)
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    for part, bare in ((ours.query, plain.query), (ours.key, plain.key)):
        with torch.no_grad():
            part.norm.weight.fill_(1.5)
        expected = F.rms_norm(bare(x), (8,), eps=1e-9) * 1.5
        assert_close(part(x).norm(dim=-1), expected.norm(dim=-1), rtol=1e-6, atol=0)
        assert position == "rotary" or torch.allclose(part(x), expected)


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12])
def test_alibi_slopes_are_blooms(heads):
    """Bloom adds slope × key position, which differs from −slope × distance by the same number in a whole row."""
    theirs = build_alibi_tensor(torch.ones(1, 5), heads, torch.float32)[:, 0]
    assert_close(theirs, (alibi_slopes(heads)[:, None] * torch.arange(5)).float())


@by_both_kernels
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_alibi_takes_distance_from_the_scores(is_causal, padded):
    ours, plain = attention(2, position="alibi"), attention(2)
    plain.load_state_dict(ours.state_dict())
    x, places = torch.randn(2, 7, 16, dtype=torch.float64), torch.arange(7)
    real = torch.tensor([[True] * 7, [True] * 4 + [False] * 3]) if padded else None
    mask = Mask(real, causal=is_causal)
    query, key, value = plain.query(x), plain.key(x), plain.value(x)
    slopes = torch.tensor([1 / 16, 1 / 256])[:, None, None]
    scores = query @ key.mT / 8**0.5 - slopes * (places[:, None] - places).abs()
    scores = scores.masked_fill(~mask.visible(7, 7, x.device), -torch.inf)
    expected = plain.output((scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2))
    assert_close(ours(x, x, mask), expected, **EXACT)


@by_both_kernels
@pytest.mark.parametrize(("is_causal", "changed"), [(True, [3, 4, 5]), (False, [1, 2, 3, 4, 5])])
def test_a_window_hides_what_is_far(is_causal, changed):
    ours = attention(2)
    x = torch.randn(2, 9, 16, dtype=torch.float64)
    moved = x.clone()
    moved[:, 3] += 1
    before, after = (ours(each, each, Mask(causal=is_causal, window=3)) for each in (x, moved))
    assert [place for place in range(9) if not torch.equal(before[:, place], after[:, place])] == changed
    whole = ours(x, x, Mask(causal=is_causal, window=9))
    assert_close(whole, ours(x, x, Mask(causal=is_causal)), **EXACT)


@by_both_kernels
@pytest.mark.parametrize("shared", [1, 2])
def test_heads_share_keys_and_values_in_groups(shared):
    """As if each head had its own, equal in a group."""
    ours, plain = attention(4, n_key_value_heads=shared), attention(4)
    weights = dict(ours.state_dict())
    for name in ("key.weight", "key.bias", "value.weight", "value.bias"):
        assert len(weights[name]) == 4 * shared
        weights[name] = weights[name].unflatten(0, (shared, 4)).repeat_interleave(4 // shared, dim=0).flatten(0, 1)
    plain.load_state_dict(weights)
    x = torch.randn(2, 6, 16, dtype=torch.float64)
    for mask in (Mask(), Mask(causal=True), Mask(torch.tensor([[True] * 6, [True] * 2 + [False] * 4]))):
        assert_close(ours(x, x, mask), plain(x, x, mask), **EXACT)


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
    inputs = (ids, ids[:, :3]) if model.kind == "encoder-decoder" else (ids,)
    results = []
    for each in (model.train(), copy.deepcopy(model).eval()):
        each.zero_grad()
        logits = each(*inputs)
        logits.square().mean().backward()
        context = each.read(ids[:, :3], padding=0, start=1)
        written, *_rest = greedy(context, ends=(), limits=[6, 6])
        results.append((logits.detach(), [parameter.grad for parameter in each.parameters()], written))
    assert_close(*results, rtol=1e-10, atol=1e-10)
