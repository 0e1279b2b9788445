"""Blocks of a stack against torch's and against their formulas."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP

from model.network.layers import (
    Embedding,
    FeedForward,
    GatedFeedForward,
    NoResidual,
    PostNorm,
    PreNorm,
    Residual,
    SandwichNorm,
    TokenEmbedding,
)
from model.network.positions import sinusoidal
from tests.model.examples import config


def randomised(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module.eval()


@pytest.mark.parametrize("activation", [F.relu, F.gelu])
@pytest.mark.parametrize("bias", [True, False])
def test_feed_forward_is_equation_2(activation, bias):
    layer = randomised(FeedForward(config(activation=activation.__name__, bias=bias)).double())
    x = torch.randn(2, 3, 16, dtype=torch.float64)
    units = activation(F.linear(x, layer.hidden.weight, layer.hidden.bias))
    assert_close(layer(x), F.linear(units, layer.output.weight, layer.output.bias), rtol=0, atol=1e-10)
    assert (layer.hidden.bias is not None) == (layer.output.bias is not None) == bias


@pytest.mark.parametrize("bias", [True, False])
def test_the_gated_feed_forward_is_llamas(bias):
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}
    theirs = randomised(LlamaMLP(LlamaConfig(**sizes, mlp_bias=bias, hidden_act="silu")).double())
    ours = GatedFeedForward(config(activation="swiglu", bias=bias)).double().eval()
    pairs = [(ours.hidden, theirs.gate_proj), (ours.linear, theirs.up_proj), (ours.output, theirs.down_proj)]
    for mine, other in pairs:
        mine.load_state_dict(other.state_dict())
    x = torch.randn(2, 3, 16, dtype=torch.float64)
    assert_close(ours(x), theirs(x), rtol=0, atol=1e-12)


def normalised(x: torch.Tensor, norm: nn.Module) -> torch.Tensor:
    return F.layer_norm(x, (16,), norm.weight, norm.bias)


@pytest.mark.parametrize(
    ("block", "formula"),
    [
        (PostNorm, lambda x, block: normalised(x + x.sin(), block.norm)),
        (PreNorm, lambda x, block: x + normalised(x, block.norm).sin()),
        (SandwichNorm, lambda x, block: x + normalised(normalised(x, block.norm).sin(), block.output_norm)),
    ],
)
def test_norms_stand_where_the_placement_says(block, formula):
    x, made = torch.randn(2, 3, 16), randomised(block(config()))
    assert_close(made(x, torch.sin), formula(x, made))


@pytest.mark.parametrize("block", [PostNorm, PreNorm, SandwichNorm])
def test_without_residual_the_stream_is_the_blocks_output_alone(block):
    x = torch.randn(2, 3, 16)
    made = randomised(block(config(residual=False)))
    assert isinstance(made.residual, NoResidual)
    assert_close(made(x, torch.zeros_like), made(torch.randn(2, 3, 16), torch.zeros_like))
    bare = block(config(residual=False, norm="none")).eval()
    assert torch.equal(bare(x, torch.sin), x.sin())


def test_the_residual_drops_what_is_added_and_never_the_stream():
    residual = Residual(config(dropout=0.5)).train()
    x, y = torch.full((50, 4, 16), 100.0), torch.ones(50, 4, 16)
    written = residual(x, y) - x
    assert set(written.unique().tolist()) == {0.0, 2.0}
    assert_close(residual.eval()(x, y), x + y)


def test_activation_dropout_falls_on_the_units_while_training():
    layer = FeedForward(config(activation_dropout=0.5))
    x = torch.randn(2, 3, 16)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


@pytest.mark.parametrize(("scale_embedding", "factor"), [(True, 4.0), (False, 1.0)])
def test_token_embeddings_are_rows_times_the_root_of_d_model(scale_embedding, factor):
    embedding = TokenEmbedding(11, config(scale_embedding=scale_embedding))
    ids = torch.tensor([[3, 3, 10], [0, 1, 2]])
    assert_close(embedding(ids), embedding.weight[ids] * factor)


def test_dropout_falls_on_the_sum_of_tokens_and_positions_of_each_sentence():
    """Section 5.4: "to the sums of the embeddings and the positional encodings"."""
    embedding = Embedding(11, config(dropout=0.5)).train()
    ids = torch.randint(11, (2, 30))
    dropped = embedding(ids)
    kept = dropped != 0
    assert 0.4 < float(kept.float().mean()) < 0.6
    expected = embedding.tokens.weight[ids] * 4 + sinusoidal(30, 16).float()
    assert_close(dropped[kept], 2 * expected[kept])
    assert_close(embedding.eval()(ids), expected)
    assert not torch.equal(kept[0], kept[1])
