"""Every variant against its definition, written out in float64 loops or taken from elsewhere, and its quick form."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from model.experiments.variants import block_sparse, latent, low_rank, lsh, performer, sinks, sliding_window
from model.experiments.variants.index import variants
from model.experiments.variants.variant import Shape, Sizes, Variant

SIZES = Sizes(width=3, sinks=2, rank=3, features=16, buckets=4, rounds=2, groups=2)
HEADS, LENGTH, WIDTH = 4, 10, 8
ALL = {variant.key: variant for variant in variants(SIZES)}


def inputs(length: int = LENGTH, *batch: int) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    shape = (*batch, HEADS, length, WIDTH)
    query, key, value = (torch.randn(*shape, generator=draw, dtype=torch.float64) for _ in range(3))
    return query, key, value


def everything(length: int = LENGTH) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool)


def earlier(length: int = LENGTH) -> Tensor:
    return everything(length).tril()


def written_out(query: Tensor, key: Tensor, value: Tensor, sees) -> Tensor:
    """Heads by loops over heads, queries and keys. sees: whether a head's query may look at a key."""
    heads = torch.zeros_like(value)
    for head in range(len(query)):
        for i in range(query.shape[1]):
            seen = [j for j in range(key.shape[1]) if sees(head, i, j)]
            parts = [math.exp(float(query[head, i] @ key[head, j]) / math.sqrt(query.shape[2])) for j in seen]
            for part, j in zip(parts, seen, strict=True):
                heads[head, i] += part / sum(parts) * value[head, j]
    return heads


def bucket(x: Tensor, rotation: Tensor) -> int:
    turned = (x @ rotation).tolist()
    both = turned + [-each for each in turned]
    return both.index(max(both))


PATTERNS = {
    "full": lambda i, j: True,
    "causal": lambda i, j: j <= i,
    "window": lambda i, j: abs(i - j) < 3,
    "sinks": lambda i, j: abs(i - j) < 3 or j < 2,
    "blocks": lambda i, j: i // 3 == j // 3 or j % 3 == 2,
}


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("length", [1, 7, LENGTH])
def test_a_pattern_is_its_rule(name: str, length: int) -> None:
    query, key, value = inputs(length)
    sees = PATTERNS[name]
    attended = ALL[name].attend(query, key, value, everything(length))
    assert_close(attended.heads, written_out(query, key, value, lambda _head, i, j: sees(i, j)))
    rule = torch.tensor([[sees(i, j) for j in range(length)] for i in range(length)])
    assert_close(attended.heads, F.scaled_dot_product_attention(query, key, value, attn_mask=rule))
    causal = ALL[name].attend(query, key, value, earlier(length)).heads
    assert_close(causal, written_out(query, key, value, lambda _head, i, j: sees(i, j) and j <= i))


def test_hashing_sees_the_keys_of_the_same_bucket() -> None:
    query, key, value = inputs()
    rotations = lsh.rotations(WIDTH, 4, 2, query)

    def sees(head: int, i: int, j: int) -> bool:
        return i == j or any(bucket(query[head, i], each) == bucket(key[head, j], each) for each in rotations)

    expected = written_out(query, key, value, sees)
    attended = ALL["lsh"].attend(query, key, value, everything())
    assert_close(attended.heads, expected)
    assert 0.2 < float((attended.weights > 0).double().mean()) < 0.9


@pytest.mark.parametrize("chunk", [4, 16])
def test_hashing_in_sorted_chunks_is_reformers_form(chunk: int) -> None:
    """Sorted by bucket, each chunk sees itself and the one before; keys are unit queries, itself only if alone."""
    query, _key, value = inputs(13)
    rotation = lsh.rotations(WIDTH, 4, 1, query)[0]
    expected = torch.zeros_like(value)
    for head in range(HEADS):
        buckets = [bucket(each, rotation) for each in query[head]]
        order = sorted(range(13), key=lambda i: buckets[i])
        for place, i in enumerate(order):
            near = order[max(0, (place // chunk - 1) * chunk) : (place // chunk + 1) * chunk]
            seen = [j for j in near if buckets[j] == buckets[i] and j != i] or [i]
            scores = [float(query[head, i] @ query[head, j] / query[head, j].norm()) / WIDTH**0.5 for j in seen]
            weights = torch.tensor(scores, dtype=torch.float64).softmax(0)
            expected[head, i] = sum(weight * value[head, j] for weight, j in zip(weights, seen, strict=True))
    assert_close(lsh.quick(query, query, value, buckets=4, chunk=chunk), expected)
    if chunk > 13:
        assert_close(lsh.tied(query, value, everything(13), 4, 1).heads, expected)


def test_low_rank_pools_rows() -> None:
    query, key, value = inputs()
    rows = [range(4), range(4, 7), range(7, 10)]
    pooled_key, pooled_value = (torch.stack([x[:, list(each)].mean(1) for each in rows], dim=1) for x in (key, value))
    expected = F.scaled_dot_product_attention(query, pooled_key, pooled_value)
    attended = ALL["low-rank"].attend(query, key, value, everything())
    assert_close(attended.heads, expected)
    assert_close(attended.weights.sum(-1), torch.ones(HEADS, LENGTH, dtype=torch.float64))
    projection = low_rank.pooling(LENGTH, LENGTH, key)  # of full rank it is full attention
    assert_close(low_rank.low_rank(query, key, value, everything(), projection).heads, full(query, key, value))


def full(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value)


def test_linear_attention_is_a_sum_of_products_of_features() -> None:
    query, key, value = inputs()

    def phi(x: Tensor) -> Tensor:
        return torch.where(x > 0, x + 1, x.exp())

    expected = torch.zeros_like(value)
    for head in range(HEADS):
        for i in range(LENGTH):
            products = [float(phi(query[head, i]) @ phi(key[head, j])) for j in range(i + 1)]
            expected[head, i] = sum(p / sum(products) * value[head, j] for j, p in enumerate(products))
    assert_close(ALL["linear"].attend(query, key, value, earlier()).heads, expected)


def test_random_features_come_near_to_the_softmax_as_they_get_more() -> None:
    query, key, value = inputs()
    query, key = query / 2, key / 2  # the variance grows with exp(‖q + k‖²)
    errors = []
    for count in (16, 256, 4096):
        rows = performer.directions(count, query)
        heads = performer.performer(query, key, value, everything(), rows).heads
        errors.append(float((heads - full(query, key, value)).norm() / full(query, key, value).norm()))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.1
    group = performer.directions(WIDTH, query)
    assert_close(F.normalize(group) @ F.normalize(group).mT, torch.eye(WIDTH, dtype=torch.float64))
    one = torch.randn(WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) / 2
    rows = performer.directions(WIDTH * 20000, query)
    scaled = one / WIDTH**0.25
    features = (rows @ scaled - scaled @ scaled / 2).exp()
    assert float((features * features).mean()) == pytest.approx(math.exp(float(one @ one) / WIDTH**0.5), rel=0.01)
    assert float(rows.mean(0).abs().max()) < 0.02


@pytest.mark.parametrize(("name", "groups"), [("multi-query", 1), ("grouped-query", 2)])
def test_groups_share_the_mean_of_their_keys_and_values(name: str, groups: int) -> None:
    query, key, value = inputs()
    shared = [x.view(groups, HEADS // groups, LENGTH, WIDTH).mean(1)[None] for x in (key, value)]
    expected = F.scaled_dot_product_attention(query[None], *shared, enable_gqa=True)[0]
    assert_close(ALL[name].attend(query, key, value, everything()).heads, expected)


def test_differential_attention_is_the_difference_of_two_maps() -> None:
    query, key, value = inputs()
    first, second = query[..., :4] @ key[..., :4].mT / 2, query[..., 4:] @ key[..., 4:].mT / 2
    expected = (first.softmax(-1) - 0.2 * second.softmax(-1)) @ value
    assert_close(ALL["differential"].attend(query, key, value, everything()).heads, expected)


def test_additive_attention_is_tanh_of_sums() -> None:
    query, key, value = inputs()
    expected = torch.zeros_like(value)
    for head in range(HEADS):
        for i in range(LENGTH):
            scores = torch.stack([(query[head, i] + key[head, j]).tanh().sum() for j in range(i + 1)])
            expected[head, i] = scores.softmax(0) @ value[head, : i + 1]
    assert_close(ALL["additive"].attend(query, key, value, earlier()).heads, expected)


def test_a_latent_as_wide_as_keys_and_values_loses_nothing_and_a_narrow_one_is_the_best_of_its_rank() -> None:
    _query, key, value = inputs()
    _latent, keys, values = latent.best_latent(key, value, LENGTH)
    assert_close(keys, key)
    assert_close(values, value)
    rows, keys, values = latent.best_latent(key, value, 3)
    assert rows.shape == (LENGTH, 3)
    lost = float((torch.cat([key, value]) - torch.cat([keys, values])).square().sum())
    singular = torch.linalg.svdvals(torch.cat([key, value]).transpose(0, 1).flatten(1))
    assert lost == pytest.approx(float(singular[3:].square().sum()))


# The quick forms, with a mask in batches, and what is kept for writing.

QUICK = [name for name in ALL if name not in ("lsh", "latent", "blocks")]


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("length", [1, 2, 3, 10, 12])
def test_the_quick_form_gives_the_same_heads(name: str, length: int) -> None:
    given = inputs(length)
    assert_close(ALL[name].quick(*given), ALL[name].attend(*given, everything(length)).heads)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 20])
def test_quick_forms_of_any_width(width: int) -> None:
    given = inputs(11)
    assert_close(sliding_window.quick(*given, width), sliding_window.window(*given, everything(11), width).heads)
    for count in (1, 4):
        expected = sinks.with_sinks(*given, everything(11), width, count).heads
        assert_close(sinks.quick(*given, width, count), expected)
    assert_close(block_sparse.quick(*given, width), block_sparse.blocks(*given, everything(11), width).heads)


def test_the_quick_form_of_latent_attention_makes_no_keys() -> None:
    query, rows, up_key, up_value = (x.double() for x in ALL["latent"].inputs(Shape(HEADS, LENGTH, WIDTH)))
    expected = latent.latent_heads(query, rows, up_key, up_value, everything()).heads
    assert_close(latent.absorbed(query, rows, up_key, up_value), expected)


@pytest.mark.parametrize(
    "variant", [v for v in ALL.values() if v.key not in ("latent", "low-rank")], ids=lambda v: v.key
)
def test_padding_and_later_tokens_change_nothing(variant: Variant) -> None:
    """Of a batch whose second text ends early, and of queries that may not look ahead."""
    query, key, value = inputs(LENGTH, 2)
    real = torch.ones(2, 1, 1, LENGTH, dtype=torch.bool)
    real[1, ..., 7:] = False
    heads = variant.attend(query, key, value, real & earlier()).heads
    alone = variant.attend(query[1, :, :7], key[1, :, :7], value[1, :, :7], earlier(7)).heads
    assert_close(heads[1, :, :7], alone)
    assert bool(heads.isfinite().all())


@pytest.mark.parametrize("variant", ALL.values(), ids=lambda v: v.key)
@pytest.mark.parametrize("length", [1, 3, 4, 6, 10])
def test_what_is_kept_has_as_many_numbers_as_the_formula_says(variant: Variant, length: int) -> None:
    if variant.cache_tensors is None:
        assert variant.cached is None
        return
    assert variant.cached is not None
    _query, key, value = inputs(length)
    kept = variant.cache_tensors(key, value)
    assert sum(tensor.numel() for tensor in kept) == variant.cached(Shape(HEADS, length, WIDTH))


def test_a_latent_has_all_its_channels_from_the_first_token_on() -> None:
    """As a DeepSeek model's own cache has: see `numbers_per_token` and its test."""
    assert [ALL["latent"].cached(Shape(HEADS, length, WIDTH)) for length in (1, 4)] == [SIZES.rank, 4 * SIZES.rank]


def test_what_windows_and_blocks_keep_is_all_that_the_newest_query_sees() -> None:
    query, key, value = inputs()
    newest = query[:, -1:]
    for name in ("full", "window", "sinks", "blocks", "causal"):
        keys, values = ALL[name].cache_tensors(key, value)
        assert_close(full(newest, keys, values), ALL[name].attend(query, key, value, earlier()).heads[:, -1:])
    for name in ("linear", "performer"):
        state, total = ALL[name].cache_tensors(key, value)
        made = ALL[name].attend(query, key, value, earlier()).heads[:, -1]
        features = {
            "linear": lambda x: F.elu(x) + 1,
            "performer": lambda x: performer.features(x, performer.directions(16, x), (-1,)),
        }[name](newest)
        assert_close((features @ state / (features @ total[..., None]))[:, 0], made)


# Against transformers' own modules.


def test_differential_heads_are_those_of_transformers() -> None:
    from transformers.models.diffllama.configuration_diffllama import DiffLlamaConfig
    from transformers.models.diffllama.modeling_diffllama import DiffLlamaAttention

    from model.experiments.variants.differential import differential, first_lambda

    torch.manual_seed(0)
    config = DiffLlamaConfig(hidden_size=32, num_attention_heads=4, num_key_value_heads=4, attention_bias=False)
    config._attn_implementation = "eager"
    module = DiffLlamaAttention(config, layer_idx=2).double()
    seen: list[Tensor] = []
    module.groupnorm.register_forward_hook(lambda _module, given, _made: seen.append(given[0]))
    x = torch.randn(1, LENGTH, 32, dtype=torch.float64)
    straight = torch.ones(1, LENGTH, 8, dtype=torch.float64), torch.zeros(1, LENGTH, 8, dtype=torch.float64)
    module(x, straight, torch.zeros(1, 1, LENGTH, LENGTH, dtype=torch.float64))
    query, key, value = (
        layer(x)[0].view(LENGTH, 4, 8).transpose(0, 1) for layer in (module.q_proj, module.k_proj, module.v_proj)
    )
    # Its heads i and i + 2 are the two narrow ones of a head; their values are side by side.
    query, key, value = (torch.cat([x[:2], x[2:]], dim=-1) for x in (query, key, value))
    one = (module.lambda_q1 * module.lambda_k1).sum().exp() - (module.lambda_q2 * module.lambda_k2).sum().exp()
    assert module.lambda_init == pytest.approx(first_lambda(3))
    heads = differential(query, key, value, everything(), one + first_lambda(3)).heads
    assert_close(heads, seen[0][0].transpose(0, 1), rtol=1e-5, atol=1e-6)  # its λ is summed in float32


def test_latent_heads_with_a_decoupled_rotary_key_are_those_of_transformers() -> None:
    from transformers.models.deepseek_v2.configuration_deepseek_v2 import DeepseekV2Config
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Attention, apply_rotary_emb

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": None}
    sizes |= {"kv_lora_rank": 6, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}
    config = DeepseekV2Config(**sizes)
    config._attn_implementation = "eager"
    module = DeepseekV2Attention(config, layer_idx=0).double()
    x = torch.randn(1, LENGTH, 32, dtype=torch.float64)
    angles = torch.outer(torch.arange(LENGTH), torch.tensor([1.0, 0.1]))[None].double()
    turns = torch.polar(torch.ones_like(angles), angles)
    seen: list[Tensor] = []
    module.o_proj.register_forward_hook(lambda _module, given, _made: seen.append(given[0]))
    mask = torch.zeros(LENGTH, LENGTH, dtype=torch.float64).masked_fill(~earlier(), -torch.inf)[None, None]
    module(x, attention_mask=mask, position_embeddings=turns)
    plain, turned = module.q_proj(x).view(1, LENGTH, 4, 12).transpose(1, 2).split([8, 4], dim=-1)
    rows, shared = module.kv_a_proj_with_mqa(x).split([6, 4], dim=-1)
    turned, shared = apply_rotary_emb(turned, shared[:, None], turns)
    up_key, up_value = module.kv_b_proj.weight.view(4, 16, 6).mT.split([8, 8], dim=-1)
    rows = module.kv_a_layernorm(rows)
    heads = latent.latent_heads(plain, rows, up_key, up_value, earlier(), (turned, shared[:, 0])).heads
    assert_close(heads.transpose(1, 2).flatten(2), seen[0], rtol=1e-5, atol=1e-6)  # its rotation is in float32


# As modules of a network.


@pytest.mark.parametrize("variant", ALL.values(), ids=lambda v: v.key)
def test_a_network_with_a_variant_learns_and_sees_no_later_token(variant: Variant) -> None:
    from model.experiments.variants.module import VariantAttention, putting
    from model.network.config import TransformerConfig
    from model.network.transformer import build

    torch.manual_seed(0)
    options = {"d_model": 16, "n_heads": 4, "d_ff": 16, "dropout": 0.0, "max_length": 12, **(variant.options or {})}
    config = TransformerConfig(
        source_vocabulary=9, target_vocabulary=9, n_encoder_layers=1, n_decoder_layers=1, **options
    )
    network = build(config)
    if variant.options is None:
        putting(variant)(network)
    found = [type(module) for module in network.modules() if isinstance(module, VariantAttention)]
    assert len(found) == {True: 0, False: 2 - (variant.cache_tensors is None)}[variant.options is not None]
    source, target = torch.tensor([[1, 2, 3, 4, 5, 6]]), torch.tensor([[1, 2, 3, 4]])
    logits = network(source, target)
    later = network(source, torch.tensor([[1, 2, 3, 7]]))
    assert_close(logits[:, :3], later[:, :3])
    logits.logsumexp(-1).sum().backward()
    missing = [name for name, each in network.named_parameters() if each.grad is None]
    # Reformer's keys are its queries, and linear forms have all they need; nothing else is left out.
    assert [name for name in missing if variant.key != "lsh" or ".key." not in name] == []
    padded = torch.tensor([[1, 2, 3, 4, 0, 0]])
    real = padded != 0
    if variant.key != "low-rank":  # whose softmax is over rows that mix in the zeros of padding
        whole = network(padded, target, real)
        assert_close(whole, network(padded[:, :4], target), rtol=1e-4, atol=1e-5)


def test_the_norm_and_factor_of_differential_heads() -> None:
    """Equation 3: (1 − λ_init) times the head's norm."""
    from model.experiments.variants.differential import DifferentialAttention
    from model.network.config import TransformerConfig

    config = TransformerConfig.one_stack("encoder-only", 4, 1, d_model=32, n_heads=HEADS, d_ff=4)
    module = DifferentialAttention(config, causal=False).double()
    query, key, value = inputs()
    heads = module.attended(query[None], key[None], value[None], everything(), value)[0]
    assert_close(heads.square().mean(-1), torch.full((HEADS, LENGTH), 0.8**2, dtype=torch.float64), rtol=1e-2, atol=0)
    assert isinstance(module.norm, nn.RMSNorm)


def test_sizes_are_those_asked_for() -> None:
    wide = {variant.key: variant for variant in variants(replace(SIZES, width=LENGTH, rank=LENGTH))}
    given = inputs()
    for name in ("window", "sinks", "blocks", "latent", "low-rank"):
        assert_close(wide[name].attend(*given, everything()).heads, full(*given))
