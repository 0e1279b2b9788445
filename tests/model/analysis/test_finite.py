"""The first quantity of a pass that is not finite is found, with its token; what may be −∞ is no fault."""

import math

import pytest
import torch

from model.analysis.finite import NotFinite, first_not_finite
from model.network.transformer import Network
from tests.model.examples import SOURCE, TARGET, network, one_stack, traced


def test_a_finite_pass_has_none():
    assert first_not_finite(traced(network())) is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_a_weight_that_is_not_finite_is_found_where_it_first_computes(stack, value):
    made = network()
    layer: Network = made.get_submodule(f"{stack}.layers.1.feed_forward")
    with torch.no_grad():
        layer.hidden.weight[2, 3] = value
    found = first_not_finite(traced(made))
    assert found is not None
    assert (found.tensor, found.token) == (f"{stack}.layers.1.feed_forward.hidden", 0)
    assert found.kind == ("nan" if math.isnan(value) else "infinite")


def test_the_token_is_that_whose_embedding_is_not_finite():
    made = network()
    token = 2
    with torch.no_grad():
        made.encoder.embedding.tokens.weight[SOURCE[0, token]] = math.inf
    first = int((SOURCE[0] == SOURCE[0, token]).int().argmax())
    assert first_not_finite(traced(made)) == NotFinite("encoder.embedding.tokens", first, "infinite")


def test_an_output_bias_that_forbids_tokens_is_no_fault():
    made = one_stack("decoder-only", output_bias=True)
    with torch.no_grad():
        made.output.logits.bias[3] = -math.inf
    trace = traced(made)
    assert bool(trace["output.logits"].isinf().any())
    assert first_not_finite(trace) is None
    with torch.no_grad():
        made.output.logits.bias[3] = math.nan
    assert first_not_finite(traced(made)) == NotFinite("output.logits", 0, "nan")


def test_it_is_found_in_maps_that_the_pass_recorded():
    made = network().half()
    with torch.no_grad():
        made.decoder.layers[0].self_attention.query.weight.mul_(3e4)
        made.decoder.layers[0].self_attention.key.weight.mul_(3e4)
    found = first_not_finite(traced(made, maps=True))
    assert found is not None
    assert found.tensor.startswith("decoder.layers.0.self_attention.")
    assert TARGET.shape[1] > found.token
