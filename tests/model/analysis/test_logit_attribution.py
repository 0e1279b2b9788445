"""Parts of the logits add up to them in float64, and are what torch's own frozen norms lose without them."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.testing import assert_close

from model.analysis.logit_attribution import Part, block_attribution, head_attribution
from model.analysis.logit_lens import last_stack
from model.analysis.residual import blocks
from model.capture.interventions import RemovedHead
from tests.model.examples import network, one_stack, traced

OPTIONS = [
    {"norm_placement": "pre"},
    {"norm_placement": "post", "output_bias": True},
    {"norm_placement": "sandwich", "norm": "rms", "position": "rotary", "activation": "swiglu"},
    {"norm_placement": "pre", "norm": "none"},
    {"norm_placement": "post", "norm": "none", "residual": False},
    {"norm_placement": "post", "norm": "textbook-sample", "n_key_value_heads": 1, "embedding_norm": True},
    {"norm_placement": "pre", "norm": "textbook", "parallel": True, "scale_output": True, "position": "relative"},
    {"norm_placement": "post", "parallel": True, "bias": False},
    {"norm_placement": "sandwich", "position": "alibi"},
]
UNBIASED = [OPTIONS[2], OPTIONS[3], OPTIONS[4], OPTIONS[7]]  # no norm behind the blocks has a β, and no output a bias
MAKE = [network, partial(one_stack, "decoder-only"), partial(one_stack, "encoder-only")]


def centred(logits):
    return logits - logits.mean(dim=-1, keepdim=True)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("make", MAKE)
def test_all_parts_add_up_to_the_models_logits(make, options):
    trace = traced(make(**options).double())
    for position in (0, 2):
        found = block_attribution(trace, position)
        assert found.holds
        assert found.error < 1e-11
        assert_close(found.logits[:-1].sum(dim=0), centred(trace["output.logits"][position]), atol=1e-10, rtol=1e-10)
        assert_close(found.logits[-1], centred(trace["output.logits"][position]), atol=1e-10, rtol=1e-10)
        parts = blocks(trace.network.config, last_stack(trace.network))
        expected = [Part(block.sublayer, block.layer) for block in parts]
        expected += [Part("bias", is_bias=True)] * (options not in UNBIASED)
        assert found.parts == [Part("embedding"), *expected, Part("sum")]
        assert len(found.logits) == len(found.parts)


def frozen(path, trace, position, vector):
    """A norm of a vector, divided by what the trace's own state was divided by."""
    norm, x = trace.network.get_submodule(path), trace[f"{path}.input"][position]
    kind = trace.network.config.norm
    if kind == "rms":
        scaled = vector / (x.square().mean() + norm.eps).sqrt()
    elif kind == "layer":
        scaled = (vector - vector.mean()) / (x.var(correction=0) + norm.eps).sqrt()
    else:
        scaled = (vector - vector.mean()) / (x.std(correction=int(kind == "textbook-sample")) + norm.eps)
    return scaled * norm.weight + (0 if norm.bias is None else norm.bias)


@torch.no_grad()
def logits_without(trace, position, left_out):
    """Logits of the stream without one of its parts, which is numbered, with every norm's deviation as it was."""
    config, stack = trace.network.config, last_stack(trace.network)
    parts = blocks(config, stack)
    x = trace[parts[0].before][position] * (left_out != 0)
    for number, part in enumerate(parts, 1):
        y = trace[part.added][position] * (left_out != number)
        x = x + y if config.residual else y
        if part.after.endswith(".norm.output"):
            x = frozen(part.after.removesuffix(".output"), trace, position, x)
    if config.ends_in_norm and config.norm != "none":
        x = frozen(f"{stack}.norm", trace, position, x)
    return trace.network.output(x)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("make", MAKE)
def test_a_part_is_what_the_logits_lose_without_it(make, options):
    trace = traced(make(**options).double())
    found = block_attribution(trace, 1)
    whole = trace["output.logits"][1]
    assert_close(logits_without(trace, 1, -1), whole, atol=1e-10, rtol=1e-10)
    for number in range(1 + len(blocks(trace.network.config, last_stack(trace.network)))):
        lost = centred(whole - logits_without(trace, 1, number))
        assert_close(found.logits[number], lost, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("make", MAKE)
def test_heads_and_bias_add_up_to_their_attention(make, options):
    trace = traced(make(**options).double())
    both = block_attribution(trace, 1)
    for layer in (0, 1):
        found = head_attribution(trace, 1, layer)
        assert found.holds
        assert found.error < 1e-11
        for name in {part.name for part in found.parts[:-1]}:
            rows = [row for row, part in enumerate(found.parts) if part.name == name]
            assert [found.parts[row].head for row in rows][:2] == [0, 1]
            whole = both.logits[both.parts.index(Part(name, layer))]
            assert_close(found.logits[rows].sum(dim=0), whole, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("make", MAKE)
def test_without_norms_a_head_of_the_last_layer_is_what_its_removal_costs(make):
    """Nothing reads it but the vocabulary: blocks are parallel."""
    model = make(norm="none", parallel=True).double()
    kind = last_stack(model)
    whole = traced(model)
    for head in (0, 1):
        gone = traced(model, RemovedHead(kind, 1, head))
        found = head_attribution(whole, 2, 1)
        expected = centred(whole["output.logits"][2] - gone["output.logits"][2])
        assert_close(found.logits[found.parts.index(Part("self_attention", 1, head))], expected, atol=1e-10, rtol=1e-10)
        removed = head_attribution(gone, 2, 1)
        assert float(removed.logits[removed.parts.index(Part("self_attention", 1, head))].abs().max()) == 0


def test_an_output_that_is_not_linear_is_found_out():
    found = block_attribution(traced(one_stack("encoder-only", output_head="transform")), 1)
    assert not found.holds
    assert found.error > 0.01
