"""The network against torch's with copied weights, and what a Transformer must and must not see."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from model.checkpoints.assembled import assembled
from model.checkpoints.convert.layout_torch import torch_transformer
from model.checkpoints.convert.state_dict import State
from model.network.positions import sinusoidal
from model.network.transformer import Transformer
from tests.model.checkpoints.convert.layout_references import Seq2Seq, random_weights
from tests.model.examples import config, network

EXACT = {"rtol": 0, "atol": 1e-10}


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu", "bias": False}], ids=str)
def test_it_is_torchs_transformer(options):
    theirs, settings = random_weights(Seq2Seq(**options)).double(), {"nhead": 3, "norm_first": False} | options
    theirs.pos_embedding = sinusoidal(40, 12)[:, None]
    layout = torch_transformer(State("torch's", theirs.state_dict(), settings))
    ours = assembled(layout.config, layout.weights, dtype=torch.float64).requires_grad_()
    for stack in (ours.encoder, ours.decoder):  # the table was rounded to float32
        stack.embedding.positions.table = sinusoidal(40, 12)
    source, target = torch.randint(17, (3, 7)), torch.randint(19, (3, 5))
    source_real, target_real = torch.ones(3, 7, dtype=torch.bool), torch.ones(3, 5, dtype=torch.bool)
    source_real[1, 4:], target_real[2, 3:] = False, False
    padding = {"src_key_padding_mask": ~source_real, "tgt_key_padding_mask": ~target_real}
    result = ours(source, target, source_real, target_real)
    expected = theirs(source, target, **padding, memory_key_padding_mask=~source_real)
    assert_close(result, expected, **EXACT)
    slope = torch.randn_like(result)
    result.backward(slope)
    expected.backward(slope)
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}  # ours by the same linear map
    gradients = torch_transformer(State("torch's", dict(theirs.named_buffers()) | gradients, settings)).weights
    for name, parameter in ours.named_parameters():
        assert_close(parameter.grad, gradients[name], **EXACT)


@settings(max_examples=25)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 5), st.integers(0, 5), st.integers(0, 2**32 - 1))
def test_padding_changes_nothing(source_length, target_length, source_padding, target_padding, seed):
    model = network(seed=1)
    torch.manual_seed(seed)
    source, target = torch.randint(1, 11, (1, source_length)), torch.randint(1, 13, (1, target_length))
    ids = F.pad(source, (0, source_padding)), F.pad(target, (0, target_padding))
    padded = model(*ids, *(each != 0 for each in ids))
    assert_close(padded[:, :target_length], model(source, target), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_runs_and_an_empty_sentence_is_no_nan(dtype):
    model = network().to(dtype)
    source, target = torch.randint(11, (2, 4)), torch.randint(13, (2, 3))
    real = torch.tensor([[True] * 4, [False] * 4])
    logits = model(source, target, real, None)
    assert logits.dtype == dtype
    assert logits.isfinite().all()


@pytest.mark.parametrize(("tied", "matrices"), [("none", 3), ("output", 2), ("inputs", 2), ("all", 1)])
def test_tied_embeddings_share_storage_and_count_once(tied, matrices):
    model = Transformer(config(source_vocabulary=13, tied_embeddings=tied))
    weights = [stack.embedding.tokens.weight for stack in (model.encoder, model.decoder)]
    weights.append(model.output.logits.weight)
    assert len({weight.data_ptr() for weight in weights}) == matrices
    attention, feed_forward, norm = 4 * (16 * 16 + 16), 2 * 16 * 24 + 24 + 16, 2 * 16
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    assert model.parameter_count() == 2 * (encoder + decoder) + matrices * 13 * 16
    with torch.no_grad():
        weights[2].zero_()
    assert bool((weights[1] == 0).all()) == (tied in ("output", "all"))
    assert bool((weights[0] == 0).all()) == (tied == "all")


def test_embeddings_enter_with_variance_one_and_weights_are_xaviers():
    model = Transformer(config(source_vocabulary=4000, d_model=64))
    embedded = model.encoder.embedding.tokens(torch.arange(4000)[None])
    assert float(embedded.detach().std()) == pytest.approx(1, abs=0.02)
    hidden = model.encoder.layers[0].feed_forward.hidden
    assert float(hidden.weight.detach().std()) == pytest.approx(math.sqrt(2 / (64 + 24)), rel=0.1)
    assert hidden.bias.abs().max() == 0
    without_bias = Transformer(config(bias=False))
    assert not [name for name, _ in without_bias.named_parameters() if name.endswith("bias")]
