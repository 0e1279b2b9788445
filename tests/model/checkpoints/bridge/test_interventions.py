"""What-if changes of bridged models, padding, and two threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import pytest
import torch

from model.capture.interventions import Causal, Cells, RemovedHead, intervening, kind_and_layer
from model.capture.trace import record
from model.inference.copies import trainable
from tests.model.checkpoints.bridge.models import bridged, inputs, theirs, traced

REMOVED = {
    "llama": ("decoder.layers.1.self_attention", "model.layers.1.self_attn.o_proj"),
    "bert": ("encoder.layers.1.self_attention", "bert.encoder.layer.1.attention.output.dense"),
    "pegasus": ("decoder.layers.0.cross_attention", "model.decoder.layers.0.encoder_attn.out_proj"),
    "t5": ("encoder.layers.1.self_attention", "encoder.block.1.layer.0.SelfAttention.o"),
    "gpt_oss": ("decoder.layers.0.self_attention", "model.layers.0.self_attn.o_proj"),
}


@pytest.mark.parametrize("name", list(REMOVED))
@torch.inference_mode()
def test_a_removed_head_is_a_slice_of_zeros_before_the_output_matrix(name):
    network, (path, module) = bridged(name), REMOVED[name]
    source, *target = inputs(network)
    with intervening(network, [RemovedHead(*kind_and_layer(path), 2)]):
        changed = network(source, *target)
    other = deepcopy(theirs(name)[0])
    width = network.config.d_head

    def without(module, given):
        x = given[0].clone()
        x[..., 2 * width : 3 * width] = 0
        return (x,)

    other.get_submodule(module).register_forward_pre_hook(without)
    named = {"input_ids": source} | ({"decoder_input_ids": target[0]} if target else {})
    torch.testing.assert_close(changed, other(**named).logits, atol=1e-5, rtol=1e-5)
    assert float((changed - network(source, *target)).abs().max()) > 1e-3


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "t5"])
@torch.inference_mode()
def test_hidden_cells_have_no_weight(name):
    network = bridged(name)
    with intervening(network, [Cells("decoder", False, query=4, key=1, layer=0, head=3)]), record(network) as trace:
        network(*inputs(network))
    before = traced(network)
    path = "decoder.layers.0.self_attention"
    assert float(trace[f"{path}.weights"][3, 4, 1]) == 0
    torch.testing.assert_close(trace[f"{path}.weights"][:3], before[f"{path}.weights"][:3])
    assert float((trace["output.logits"] - before["output.logits"]).abs().max()) > 0


@torch.inference_mode()
def test_without_the_causal_mask_later_tokens_are_seen():
    network = bridged("opt")
    with intervening(network, [Causal("decoder", False)]), record(network) as trace:
        network(*inputs(network))
    assert bool((trace.attention("decoder") > 0).all())


def test_masks_that_only_the_model_knows_cannot_be_changed():
    network = bridged("gptj")
    with (
        torch.inference_mode(),
        intervening(network, [Causal("decoder", False)]),
        pytest.raises(ValueError, match="cannot be changed"),
        record(network),
    ):
        network(*inputs(network))


@pytest.mark.parametrize("name", ["gemma2", "electra", "m2m_100", "gptj"])
@torch.inference_mode()
def test_padding_changes_nothing_for_the_real_tokens(name):
    network = bridged(name)
    texts = inputs(network)
    padded = [torch.cat([ids, torch.full((1, 3), 7)], dim=1) for ids in texts]
    real = [torch.arange(each.shape[1])[None] < ids.shape[1] for ids, each in zip(texts, padded, strict=True)]
    both = [torch.cat([each, torch.full_like(each, 9)]) for each in padded]
    seen = [torch.cat([each, torch.ones_like(each)]) for each in real]
    made = network(*both, *seen)[0, : texts[-1].shape[1]]
    torch.testing.assert_close(made, network(*texts)[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["albert", "gemma2"])  # one whose layers are the same modules, and one of many
def test_two_threads_leave_a_trace_each(name):
    network = bridged(name)
    alone = [traced(network, seed) for seed in range(4)]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda seed: traced(network, seed), list(range(4)) * 2))
    for seed, trace in zip(list(range(4)) * 2, together, strict=True):
        assert trace.names() == alone[seed].names()
        for quantity in trace.names():
            torch.testing.assert_close(trace[quantity], alone[seed][quantity], equal_nan=True)


def test_a_bridged_model_is_not_copied():
    with pytest.raises(ValueError, match="cannot be copied"):
        deepcopy(bridged("gpt2"))
    with pytest.raises(ValueError, match="not copied"):
        trainable(bridged("gpt2"))
