"""Heads cut out of a bridged model's matrices, beside rows cut from its state dict by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from transformers import PhiForCausalLM

from model.analysis.weights.heads import PROJECTIONS, attentions, head_norms, head_similarity, head_weights, unclear
from model.checkpoints.bridge.hooks import register
from model.checkpoints.bridge.missing import Reason
from model.checkpoints.bridge.network import build_bridged
from model.runtime.transformers_import import quietly
from tests.model.checkpoints.bridge.models import bridged, settings_in, theirs

H, C, D = 4, 8, 32


def apart(weight: Tensor, heads: int = H) -> list[Tensor]:
    """Rows of a separate projection."""
    return list(weight.view(heads, -1, D).repeat_interleave(H // heads, dim=0))


def in_turn(weight: Tensor) -> list[list[Tensor]]:
    """The query, key and value of a head, then those of the next (GPT-NeoX, BLOOM, Falcon)."""
    return [list(weight.view(H, 3, C, D)[:, part]) for part in range(3)]


def in_blocks(weight: Tensor) -> list[list[Tensor]]:
    """All queries, then all keys, then all values (GPT-2, Phi-3, MPT)."""
    return [list(each.view(H, C, D)) for each in weight.view(3, H * C, D)]


def one_for_all(weight: Tensor) -> list[list[Tensor]]:
    """All queries, then one key and one value (Shazeer, 2019)."""
    return [list(weight[: H * C].view(H, C, D)), [weight[H * C :][:C]] * H, [weight[H * C :][C:]] * H]


def groups(weight: Tensor) -> list[list[Tensor]]:
    """Of each of two groups its two queries, its key, its value (Falcon-40B)."""
    cut = weight.view(2, 4, C, D)
    return [[cut[h // 2, h % 2] for h in range(H)], *([cut[h // 2, at] for h in range(H)] for at in (2, 3))]


def by_fours(weight: Tensor) -> list[list[Tensor]]:
    """CodeGen's four blocks for as many devices, each with a query, a value and a key."""
    cut = weight.view(4, 3, C, D)
    return [list(cut[:, at]) for at in (0, 2, 1)]


# Of a family: where the attention of its second layer is, what packs its matrices and how; or the names of separate
# ones, and how many heads keys and values have.
PACKS = {
    "gpt2": ("transformer.h.1.attn", "c_attn", lambda weight: in_blocks(weight.T), "c_proj"),
    "openai-gpt": ("transformer.h.1.attn", "c_attn", lambda weight: in_blocks(weight.T), "c_proj"),
    "phi3": ("model.layers.1.self_attn", "qkv_proj", in_blocks, "o_proj"),
    "gpt_neox": ("gpt_neox.layers.1.attention", "query_key_value", in_turn, "dense"),
    "falcon": ("transformer.h.1.self_attention", "query_key_value", in_turn, "dense"),
    "falcon-7b": ("transformer.h.1.self_attention", "query_key_value", one_for_all, "dense"),
    "falcon-40b": ("transformer.h.1.self_attention", "query_key_value", groups, "dense"),
    "bloom": ("transformer.h.1.self_attention", "query_key_value", in_turn, "dense"),
    "mpt": ("transformer.blocks.1.attn", "Wqkv", in_blocks, "out_proj"),
    "codegen": ("transformer.h.1.attn", "qkv_proj", by_fours, "out_proj"),
    "gpt_bigcode": ("transformer.h.1.attn", "c_attn", one_for_all, "c_proj"),
    "starcoder-heads": ("transformer.h.1.attn", "c_attn", in_turn, "c_proj"),
    "modernbert": ("model.layers.1.attn", "Wqkv", in_blocks, "Wo"),
}
SEPARATE = {
    "phi": ("model.layers.1.self_attn", "q_proj k_proj v_proj dense", 4),
    "gptj": ("transformer.h.1.attn", "q_proj k_proj v_proj out_proj", 4),
    "llama": ("model.layers.1.self_attn", "q_proj k_proj v_proj o_proj", 2),
    "olmo2": ("model.layers.1.self_attn", "q_proj k_proj v_proj o_proj", 4),
    "gemma3": ("model.layers.1.self_attn", "q_proj k_proj v_proj o_proj", 2),  # with norms of queries
    "bert": ("bert.encoder.layer.1.attention", "self.query self.key self.value output.dense", 4),
    "deberta-v2": (
        "deberta.encoder.layer.1.attention",
        "self.query_proj self.key_proj self.value_proj output.dense",
        4,
    ),
    "mt5": ("decoder.block.1.layer.0.SelfAttention", "q k v o", 4),
    "albert": ("albert.encoder.albert_layer_groups.0.albert_layers.0.attention", "query key value dense", 4),
}


def by_hand(name: str) -> list[list[Tensor]]:
    """W_Q, W_K, W_V and W_O transposed, of every head."""
    weights = theirs(name)[0].state_dict()
    if name in PACKS:
        place, pack, cut, output = PACKS[name]
        made = cut(weights[f"{place}.{pack}.weight"])
    else:
        place, names, shared = SEPARATE[name]
        *separate, output = names.split()
        counts = (H, shared, shared)
        made = [apart(weights[f"{place}.{one}.weight"], heads) for one, heads in zip(separate, counts, strict=True)]
    written = weights[f"{place}.{output}.weight"]
    if output == "c_proj" and not name.startswith(("gpt_bigcode", "starcoder")):
        written = written.T
    return [*made, list(written.T.reshape(H, -1, D))]


@pytest.mark.parametrize("name", [*PACKS, *SEPARATE])
def test_heads_are_those_cut_by_hand(name):
    network = bridged(name)
    stack = "encoder" if network.kind == "encoder-only" else "decoder"
    found = attentions(network)[f"{stack}.layers.1.self_attention"]
    expected = by_hand(name)
    for projection, heads in zip(PROJECTIONS, expected, strict=True):
        torch.testing.assert_close(head_weights(found, projection), torch.stack(heads), rtol=0, atol=0)
    norms = [[float(torch.linalg.matrix_norm(head.double())) for head in heads] for heads in expected]
    torch.testing.assert_close(head_norms(found), torch.tensor(norms, dtype=torch.float64))
    query, key, value, output = (torch.stack(heads).double() for heads in expected)
    for circuit, products in (("scores", query.mT @ key), ("output", output.mT @ value)):
        unit = products.flatten(1) / products.flatten(1).norm(dim=1, keepdim=True)
        torch.testing.assert_close(head_similarity([found], circuit), unit @ unit.T)
    assert unclear(network) is None


@pytest.mark.parametrize("name", ["bart", "pegasus", "t5"])
def test_cross_attention_has_its_own(name):
    network = bridged(name)
    found = attentions(network)
    weights = theirs(name)[0].state_dict()
    key = "decoder.block.1.layer.1.EncDecAttention.k" if name == "t5" else "model.decoder.layers.1.encoder_attn.k_proj"
    own = head_weights(found["decoder.layers.1.cross_attention"], "key")
    torch.testing.assert_close(own, torch.stack(apart(weights[f"{key}.weight"])), rtol=0, atol=0)
    assert len(found) == network.config.n_encoder_layers + 2 * network.config.n_decoder_layers


def test_what_is_made_in_steps_is_said():
    assert unclear(bridged("deepseek_v2")) == Reason.SEVERAL
    assert not attentions(bridged("deepseek_v2"))


def test_rows_that_mix_heads_are_refused():
    """A model that turns its channels after the matrix: no row belongs to one head, and nothing is guessed."""
    folder = theirs("phi")[1]

    class Mixed(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            made = super().forward(x)
            return made + made.roll(C, dims=-1)

    with quietly():
        made = PhiForCausalLM.from_pretrained(folder, attn_implementation=register()).eval()
        for layer in made.model.layers:
            mixed = Mixed(D, D)
            mixed.load_state_dict(layer.self_attn.q_proj.state_dict())
            layer.self_attn.q_proj = mixed
        network = build_bridged(made.requires_grad_(False), "decoder-only", settings_in(folder))
    assert unclear(network) == Reason.HEADS
    assert not attentions(network)
