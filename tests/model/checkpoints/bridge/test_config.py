"""What is told of bridged models beside their numbers: operations, as torch counts them, units, windows, lengths."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from model.analysis.blocks import blocks, total_flops
from model.checkpoints.rotary_length import longest_text
from model.network.config import Latent, Units
from tests.model.checkpoints.bridge.models import EXPERTS, FAMILIES, PACKED, bridged, inputs, theirs, traced

LONG = {"gemma4": pytest.mark.slow}  # families that take seconds


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LONG.get(name, ())) for name in sorted(FAMILIES | PACKED | EXPERTS)]
)
def test_operations_are_those_that_torch_counts(name):
    network, model = bridged(name), theirs(name)[0]
    if model._can_set_experts_implementation():
        model.set_experts_implementation("eager")  # torch does not count its grouped products
    model.requires_grad_(False)  # else torch's tracker of modules stumbles over views of parameters
    named = dict(zip(("input_ids", "decoder_input_ids"), inputs(network), strict=False))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(**named)
    trace = traced(network)
    if name == "mobilebert":  # its head multiplies by matrices without calling their modules
        assert total_flops(trace, blocks(trace)) is None
        return
    assert total_flops(trace, blocks(trace)) == pytest.approx(counter.get_total_flops(), rel=0.01)


def units(name: str) -> list[Units]:
    config = bridged(name).config
    return [config.units_of("decoder", layer) for layer in range(config.n_decoder_layers)]


def test_experts_are_told_with_their_own_units_and_dense_layers_as_dense():
    experts = Units(24, "swiglu", experts=4, chosen=2)
    assert units("mixtral") == [replace(experts, width=48)] * 2
    assert units("qwen3_moe") == [Units(48, "swiglu"), experts]
    assert units("qwen2_moe") == [replace(experts, shared=40)] * 2
    assert units("deepseek_v3") == [Units(48, "swiglu"), replace(experts, shared=24)]
    assert units("gpt_oss") == [Units(48, "", experts=4, chosen=4)] * 2  # an activation of its own
    assert units("gemma4") == [Units(None, "")] * 2
    trace = traced(bridged("deepseek_v3"))
    assert "decoder.layers.0.feed_forward.hidden" in trace
    assert "decoder.layers.1.feed_forward.hidden" not in trace  # the shared expert is no such network by itself
    written = trace["decoder.layers.1.feed_forward.output"]
    after = trace["decoder.layers.1.feed_forward_block.residual"]
    torch.testing.assert_close(trace["decoder.layers.1.self_attention_block.residual"] + written, after)


def test_settings_are_the_models_own():
    assert (bridged("mixtral").config.window, bridged("mixtral").config.windows) == (5, (5, 5))
    assert (bridged("gemma2").config.window, bridged("gemma2").config.windows) == (None, (4, None))
    assert bridged("gemma2").config.windowed
    assert bridged("modernbert").config.windows == (None, 65)
    assert [bridged("modernbert").config.window_of(layer) for layer in (0, 1, 2)] == [None, 65, None]
    assert not bridged("llama").config.windowed
    assert bridged("deepseek_v3").config.d_head == 16
    assert bridged("gemma4").config.activation == "unknown"
    assert bridged("gemma4").config.d_ff == 0


def test_latents_are_told_and_what_the_cache_keeps():
    """Of each token: in DeepSeek's attention the latent and the shared key, in others keys and values of all heads."""
    for name, layers in (("deepseek_v3", 2), ("deepseek_v2", 2)):
        config = bridged(name).config
        assert [config.latent_of(layer) for layer in range(layers)] == [Latent(8, 4, 8, 8)] * layers
        assert [config.cached_of(layer) for layer in range(layers)] == [8 + 4] * layers
    for name in ("llama", "mixtral", "gpt2", "bart"):
        config = bridged(name).config
        assert config.latent_of(0) is None
        assert config.cached_of(0) == 2 * config.kv_heads * config.d_head
    assert bridged("gemma4").config.cached_of(1) == 2 * 2 * 24
    assert bridged("bert").config.cached_of(0) is None


@pytest.mark.parametrize(
    ("trained", "parameters", "longest"),
    [
        (16, {"rope_type": "dynamic", "factor": 4.0}, 64),
        (16, {"rope_type": "linear", "factor": 2.0}, 32),
        (16, {"type": "linear", "factor": 2.0}, 32),
        (32, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}, 128),
        (163_840, {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}, 163_840),
        (131_072, {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 131_072),
        (64, {"rope_type": "default", "factor": 4.0}, 64),
        (64, {"full_attention": {"rope_type": "linear", "factor": 8.0}}, 64),
        (64, {"rope_type": "dynamic", "factor": "many"}, 64),
        (64, None, 64),
    ],
)
def test_the_longest_text_is_what_the_scaling_of_the_positions_allows(trained, parameters, longest):
    assert longest_text(trained, parameters) == longest
