"""Bridged models against transformers' own attentions, states and logits, and against themselves step by step."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from model.analysis.blocks import blocks, elsewhere
from model.analysis.checks import checks
from model.capture.trace import record
from model.checkpoints.bridge.missing import Reason
from model.checkpoints.bridge.network import BridgedNetwork
from tests.model.checkpoints.bridge.models import FAMILIES, bridged, inputs, theirs, traced

SAME = 1e-5
WHOLE = {*"gpt2 llama gemma2 gemma3 opt phi3 bart pegasus m2m_100 mt5 t5".split()}  # nothing is missing


def expected(name: str, network: BridgedNetwork) -> Any:
    source, *target = inputs(network)
    more = {"decoder_input_ids": target[0]} if target else {}
    with torch.inference_mode():
        return theirs(name)[0](input_ids=source, output_attentions=True, output_hidden_states=True, **more)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_attentions_hidden_states_and_logits_are_those_of_transformers(name):
    network = bridged(name)
    trace, whole, wanted = traced(network), traced(network, maps=True), expected(name, network)
    two = network.kind == "encoder-decoder"
    if name != "bare":
        assert float((trace["output.logits"] - wanted.logits[0]).abs().max()) < SAME
    stacks = ("encoder", "decoder") if two else (network.kind.partition("-")[0],)
    for kind in (*stacks, "cross") if two else stacks:
        attentions = wanted[f"{kind}_attentions" if two else "attentions"]
        assert len(trace.attention_paths(kind)) == len(attentions)
        for each in (trace, whole):
            for weights, theirs_ in zip(each.attention(kind), attentions, strict=True):
                assert float((weights - theirs_[0]).abs().max()) < SAME
    for stack in stacks:
        states = wanted[f"{stack}_hidden_states" if two else "hidden_states"]
        part = "norm.output" if network.config.norm_placement == "post" else "residual"
        names = [f"{stack}.layers.{layer}.feed_forward_block.{part}" for layer in range(len(states) - 2)]
        for own, state in zip([f"{stack}.embedding.output", *names], states[:-1], strict=True):
            assert float((trace[own] - state[0]).abs().max()) < SAME, own


@pytest.mark.parametrize("name", sorted({*FAMILIES} - {"openai-gpt", "gptj", "gpt_oss", "nllb_moe"}))
def test_maps_on_demand_are_those_of_the_explicit_path(name):
    network = bridged(name)
    trace, whole = traced(network), traced(network, maps=True)
    for kind in ("encoder", "decoder", "cross"):
        for path in trace.attention_paths(kind):
            assert trace.maps_of(path)[-1] == "weights"
            for part in trace.maps_of(path):
                torch.testing.assert_close(trace[f"{path}.{part}"], whole[f"{path}.{part}"], atol=SAME, rtol=SAME)
            torch.testing.assert_close(trace[f"{path}.heads"], whole[f"{path}.heads"], atol=SAME, rtol=SAME)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_what_is_recognised_adds_up(name):
    """Norms by their formula, units by their weights, the stream by its sums, on another input than the probe's."""
    network = bridged(name)
    trace = traced(network)
    assert not [check.name for check in checks(trace) if not check.passed]
    for path in (each.removesuffix(".output") for each in trace.names() if each.endswith(".feed_forward.output")):
        if f"{path}.hidden" in trace:
            gated = f"{path}.gated" in trace
            units = trace[f"{path}.activation"] * (trace[f"{path}.linear"] if gated else 1)
            matrix = network.get_submodule(path).output
            made = torch.nn.functional.linear(units, matrix.weight, matrix.bias)
            torch.testing.assert_close(made, trace[f"{path}.output"], atol=SAME, rtol=SAME)
    assert name not in WHOLE or not network.missing
    assert all(each not in trace for each in network.missing)


# Families all of whose attentions a fused kernel computes, and others with how many it does.
FUSED = "gpt2 llama gemma3 gemma4 opt phi phi3 bert electra albert mobilebert bare bart pegasus m2m_100".split()
FEWER = {"gemma2": 0, "openai-gpt": 0, "gptj": 0, "gpt_oss": 0, "doge": 0, "mt5": 0, "t5": 0, "nllb_moe": 0}


@pytest.mark.parametrize("name", [*FUSED, *FEWER])
def test_fused_heads_are_compared_where_the_kernel_ran(name, monkeypatch):
    """As often as torch's attention is called, a few tokens or many; and our modules are in evaluation mode."""
    network, calls = bridged(name), []
    assert not any(module.training for module in network.modules())
    compute = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or compute(*a, **k)
    )
    trace = traced(network)
    fused = next(check for check in checks(trace) if check.name == "fused")
    paths = [path for kind in ("encoder", "decoder", "cross") for path in trace.attention_paths(kind)]
    assert fused.all_modules == len(paths)
    assert fused.modules == len(calls) == FEWER.get(name, len(paths))
    assert fused.possible is bool(calls)


def test_missing_quantities_say_why():
    assert bridged("gptj").missing["decoder.layers.0.self_attention.scores"] == Reason.OUTSIDE
    assert bridged("gpt_oss").missing["decoder.layers.0.self_attention.masked"] == Reason.SINK
    assert bridged("gpt_oss").missing["decoder.layers.0.feed_forward.hidden"] == Reason.EXPERTS
    assert bridged("gemma4").missing["decoder.layers.0.feed_forward.hidden"] == Reason.UNITS
    assert bridged("electra").missing["encoder.embedding.tokens"] == Reason.EMBEDDING
    assert bridged("bare").missing["output.logits"] == Reason.OUTPUT


def test_configs_describe_what_runs():
    gemma, t5, phi = (bridged(name).config for name in ("gemma2", "t5", "phi"))
    assert (gemma.kv_heads, gemma.d_head, gemma.norm, gemma.norm_placement) == (2, 16, "rms", "sandwich")
    assert (gemma.activation, gemma.position, gemma.max_length, gemma.vocabulary) == ("geglu-tanh", "rotary", 64, 49)
    assert (t5.position, t5.norm, t5.n_encoder_layers, t5.n_decoder_layers, t5.d_ff) == ("relative", "rms", 2, 2, 48)
    assert phi.parallel
    assert bridged("opt").config.position == "learned"
    assert bridged("pegasus").config.position == "sinusoidal"
    assert bridged("albert").config.n_encoder_layers == 2


@pytest.mark.parametrize("name", ["gptj", "phi"])
def test_blocks_side_by_side_add_up_to_the_layer(name):
    network = bridged(name)
    trace = traced(network)
    state = trace["decoder.embedding.output"]
    for layer in ("decoder.layers.0", "decoder.layers.1"):
        torch.testing.assert_close(trace[f"{layer}.self_attention_block.norm.input"], state)
        state = state + trace[f"{layer}.self_attention.output"]
        torch.testing.assert_close(trace[f"{layer}.self_attention_block.residual"], state)
        state = state + trace[f"{layer}.feed_forward.output"]
        torch.testing.assert_close(trace[f"{layer}.feed_forward_block.residual"], state)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_blocks_and_the_rest_have_as_many_parameters_as_the_model(name):
    """None counts twice, whether tied, transposed or packed; where all was recognised, the rest are the projections."""
    network = bridged(name)
    rest, own = elsewhere(network, blocks(traced(network))), theirs(name)[0]
    places = {each.data_ptr() for each in own.parameters()}
    assert 0 <= rest < network.parameter_count() == sum(each.numel() for each in own.parameters())
    assert len(places) == len(list(own.parameters()))
    if name in ("llama", "gemma2", "t5"):
        projections = re.compile(r"\.([qkv]_proj|[qkv]|relative_attention_bias)\.")
        assert rest == sum(each.numel() for name, each in own.named_parameters() if projections.search(name))


@pytest.mark.parametrize("name", ["m2m_100", "mt5"])
def test_a_single_token_of_a_target_sees_all_of_the_source(name):
    network = bridged(name)
    source, target = inputs(network)
    with torch.inference_mode(), record(network) as trace:
        network(source, target[:, :1])
    assert not [check.name for check in checks(trace) if not check.passed]
    assert not any(trace.mask(path).causal for path in trace.attention_paths("cross"))


def test_a_window_is_a_rule_of_ours():
    trace = traced(bridged("gemma2"))
    first, second = (trace.mask(path) for path in trace.attention_paths("decoder"))
    assert (first.causal, first.window, first.pattern) == (True, 4, None)
    assert (second.causal, second.window, second.pattern) == (True, None, None)
