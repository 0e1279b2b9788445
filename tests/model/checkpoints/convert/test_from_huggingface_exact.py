"""Every family, taken apart and put together as ours: attentions, hidden states and logits are Hugging Face's own."""

import dataclasses
import math

import pytest
import torch
from torch.testing import assert_close

from model.analysis.attention_maps import Maps
from model.analysis.blocks import blocks
from model.analysis.checks import checks
from model.capture.trace import Trace, record
from model.checkpoints.assembled import assembled
from model.inference.decoding import greedy
from model.network.costs import parameters
from model.network.transformer import Network
from tests.model.checkpoints.convert.twins import (
    KINDS,
    LENGTH,
    ONCE_IN_FLOAT32,
    SOURCE,
    TARGET,
    Doubled,
    compared,
    rebuilt,
    saved,
    texts,
)

STACKS = ("encoder", "decoder")
PRECISE = ["gpt2", "llama-3", "qwen3", "roberta", "bart", "marian", "gpt-neox", "gemma", "t5", "mt5"]
WRITERS = ["gpt2", "llama-3", "mistral", "gpt-neox", "marian", "t5", "opt"]


@pytest.mark.parametrize("kind", KINDS)
def test_attentions_states_and_logits_are_theirs(kind, made):
    theirs, ours, _folder = made(kind)
    found = compared(theirs, ours)
    assert max(found.attentions, found.hidden, found.logits) < 1e-5, found
    assert found.attentions > 0 or ours.config.n_encoder_layers  # compared, and not the same tensors
    for check in checks(found.trace):
        assert check.passed, check
    require_count(theirs, ours, found.trace)


@pytest.mark.parametrize("kind", PRECISE)
def test_in_float64_they_are_the_same_to_the_last_digits(kind, tmp_path, monkeypatch):
    for module in ONCE_IN_FLOAT32:
        monkeypatch.setattr(module, "torch", Doubled())
    theirs = saved(kind, tmp_path)
    found = compared(theirs.double(), rebuilt(tmp_path, torch.float64))
    close = 1e-6 if kind.startswith("gemma") else 1e-13  # theirs rounds each norm to float32
    assert max(found.attentions, found.hidden, found.logits) < close, found


def require_count(theirs, ours: Network, trace: Trace) -> None:
    """By arithmetic, block by block and in the file there are as many weights; but for those that are left out."""
    count = ours.parameter_count()
    assert sum(parameters(ours.config).values()) == count
    assert sum(block.parameters for block in blocks(trace)) == count
    own = {name: each for name, each in theirs.named_parameters() if each.requires_grad}
    if hasattr(theirs, "final_logits_bias"):
        own["bias"] = theirs.final_logits_bias
    left_out = sum(each.numel() for name, each in own.items() if "pooler" in name or "token_type" in name)
    if hasattr(theirs, "cls") and not theirs.config.tie_word_embeddings:
        left_out += own["cls.predictions.bias"].numel()  # not what the logits get
    places = [each for name, each in own.items() if "embed_positions" in name or "position_embeddings" in name]
    left_out += sum((len(each) - ours.config.max_length) * each.shape[1] for each in places)
    assert count == sum(each.numel() for each in own.values()) - left_out


@pytest.mark.parametrize("kind", WRITERS)
def test_cached_writing_is_what_a_whole_pass_says(kind, made):
    """The logits of each step, and those of one pass over all that was written."""
    _theirs, ours, _folder = made(kind)
    first = 1 if ours.kind == "encoder-decoder" else SOURCE.shape[1]
    steps = LENGTH - 10
    with torch.inference_mode():
        context = ours.read(SOURCE, padding=1, start=2)
        rows, values, tokens = greedy(context, ends=(), limits=[steps], keep=3)
        written = torch.tensor(rows)
        if ours.kind == "encoder-decoder":
            logits = ours(SOURCE, torch.cat([torch.tensor([[2]]), written], dim=1))
        else:
            logits = ours(torch.cat([SOURCE, written], dim=1))
    expected = logits[0, first - 1 : -1].log_softmax(dim=-1)
    assert len(expected) == len(values) == steps
    assert_close(values[:, 0], expected.gather(1, tokens[:, 0]), rtol=0, atol=2e-5)


@pytest.mark.parametrize(("kind", "length"), [("t5", 5), ("t5", 70), ("gpt-neox", 5), ("bert", 5), ("qwen3", 5)])
def test_every_weight_learns_whichever_way_attention_is_computed(kind, length, made):
    """Short texts train in plain products, long ones in the fused kernel."""
    _theirs, ours, folder = made(kind)
    ours = trained(rebuilt(folder))
    ids = torch.arange(length)[None] % 40 + 3
    inputs = (ids, ids) if ours.kind == "encoder-decoder" else (ids,)
    ours(*inputs).log_softmax(dim=-1)[..., 5].sum().backward()
    for name, parameter in ours.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0 or name.endswith("key.bias"), name


def trained(ours: Network) -> Network:
    """In training mode, nothing dropped out, so that every weight has its part."""
    for module in ours.modules():
        if hasattr(module, "dropout"):
            module.dropout = 0.0
    return ours.train().requires_grad_(True)


def test_the_gradient_of_a_bias_is_the_same_in_both_ways(made):
    """Of T5's table: in the fused kernel, and step by step, where autograd's own rules apply."""
    from model.network.kernels import plain_kernels

    gradients = []
    for explicit in (False, True):
        ours = trained(rebuilt(made("t5")[2], torch.float64))
        with plain_kernels(explicit):
            ids = torch.arange(70)[None] % 40 + 3
            ours(ids, ids).log_softmax(dim=-1)[..., 5].mean().backward()
        gradients.append([ours.get_submodule(stack).layers[0].self_attention.biased.table.grad for stack in STACKS])
    for one, other in zip(*gradients, strict=True):
        assert_close(one, other, rtol=0, atol=1e-12)


def test_a_bias_is_in_the_maps_of_all_heads_or_of_some(made, monkeypatch):
    """Steps on demand, of all heads at once and of one head's row, are those of the explicit pass."""
    _theirs, ours, _folder = made("t5")
    with torch.inference_mode(), record(ours, maps=True) as explicit:
        ours(SOURCE, TARGET)
    with torch.inference_mode(), record(ours) as trace:
        ours(SOURCE, TARGET)
    for kind, biased in (("encoder", True), ("decoder", True), ("cross", False)):
        path = trace.attention_paths(kind)[1]
        assert ("biased" in trace.maps_of(path)) == biased
        for name in trace.maps_of(path):
            assert_close(trace[f"{path}.{name}"], explicit[f"{path}.{name}"])
        monkeypatch.setattr(Maps, "small", False)
        maps = Maps(trace, kind)
        for name, row in maps.row(1, 2, 3).items():
            assert_close(row, explicit[f"{path}.{name}"][2, 3])
        assert_close(maps.computed(1, slice(1, 3)), explicit[f"{path}.weights"][1:3])
        monkeypatch.undo()
    first, second = (trace[f"encoder.layers.{layer}.self_attention.biased"] for layer in (0, 1))
    scaled = [trace[f"encoder.layers.{layer}.self_attention.scaled"] for layer in (0, 1)]
    assert_close(first - scaled[0], second - scaled[1])  # one table for all layers
    assert (first - scaled[0]).abs().max() > 0.01


def test_the_buckets_of_distances_are_theirs():
    from transformers.models.t5.modeling_t5 import T5Attention

    from model.network.positions import relative_buckets

    relative = torch.arange(-700, 701)
    for buckets, reach in ((32, 128), (32, 100), (6, 5), (8, 20), (64, 1000)):
        for both_ways in (True, False):
            expected = T5Attention._relative_position_bucket(relative, both_ways, buckets, reach)
            assert torch.equal(relative_buckets(relative, buckets, reach, both_ways), expected)


def test_a_window_and_stretched_turns_change_what_is_computed(made):
    """The options that the comparison relies on have an effect at these lengths."""
    for kind, option in (
        ("mistral", {"window": None}),
        ("llama-3", {"rotary_stretch": 1.0}),
        ("llama-linear", {"rotary_stretch": 1.0}),
        ("gpt-neox", {"rotary_channels": None}),
        ("gpt-neox", {"parallel": False}),
        ("t5", {"scale_output": False}),
        ("t5", {"position_reach": 50}),
    ):
        _theirs, ours, _folder = made(kind)
        other = assembled(dataclasses.replace(ours.config, **option), dict(ours.named_parameters()))
        with torch.inference_mode():
            change = (other(*texts(ours)) - ours(*texts(ours))).abs().max()
        assert change > 1e-3, (kind, option)
        assert math.isfinite(change)
