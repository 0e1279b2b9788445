"""Norms and likeness of heads beside the (d_model, d_model) products made in full, and beside what heads compute."""

import pytest
import torch
from torch.testing import assert_close

from model.analysis.weights import heads as head_weights_module
from model.analysis.weights.heads import PROJECTIONS, attentions, head_norms, head_similarity, head_weights
from tests.model.examples import network, one_stack


def test_attentions_are_those_of_the_model():
    assert list(attentions(network())) == [
        *(f"encoder.layers.{layer}.self_attention" for layer in range(2)),
        *(f"decoder.layers.{layer}.{kind}_attention" for layer in range(2) for kind in ("self", "cross")),
    ]


@pytest.mark.parametrize("options", [{}, {"n_heads": 4, "n_key_value_heads": 2}, {"heads": "full"}])
def test_heads_are_the_slices_that_compute_them(options):
    model = one_stack("decoder-only", bias=False, position="none", **options)
    ((_name, attention), *_rest) = attentions(model).items()
    x = torch.randn(1, 5, 16)
    heads = model.config.n_heads
    query, value = head_weights(attention, "query"), head_weights(attention, "value")
    assert_close(torch.einsum("hcd,bld->bhlc", query, x), attention.query(x))
    own = torch.einsum("hcd,bld->bhlc", value, x)
    assert_close(own[:, :: heads // model.config.kv_heads], attention.value(x))
    output = torch.einsum("hcd,bhlc->bld", head_weights(attention, "output"), own)
    assert_close(output, attention.output(own.transpose(1, 2).flatten(2)))
    norms = head_norms(attention)
    assert norms.shape == (len(PROJECTIONS), heads)
    for number, projection in enumerate(PROJECTIONS):
        expected = [torch.linalg.matrix_norm(each.double()) for each in head_weights(attention, projection)]
        assert_close(norms[number], torch.stack(expected))


CIRCUITS = {"scores": ("query", "key"), "output": ("output", "value")}


def cosines_of_products(chosen, circuit):
    """Of the matrices that the circuit's two projections make together, each in full; in float64."""
    left, right = CIRCUITS[circuit]
    products = [head_weights(each, left).double().mT @ head_weights(each, right).double() for each in chosen]
    rows = torch.cat(products).flatten(1)
    return torch.cosine_similarity(rows[:, None], rows, dim=-1)


@pytest.mark.parametrize("circuit", CIRCUITS)
@pytest.mark.parametrize("most", [1, 1000, head_weights_module.MOST])  # a row at a time, some, all
@pytest.mark.parametrize("options", [{}, {"n_heads": 4, "n_key_value_heads": 2}])
def test_likeness_is_that_of_the_full_products(monkeypatch, options, most, circuit):
    monkeypatch.setattr(head_weights_module, "MOST", most)
    chosen = list(attentions(network(**options)).values())
    assert_close(head_similarity(chosen, circuit), cosines_of_products(chosen, circuit), rtol=0, atol=1e-6)


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_heads_of_other_widths_are_compared(circuit):
    """As in Gemma 4, whose global layers have wider heads."""
    both = [one_stack("decoder-only", n_heads=heads) for heads in (2, 4)]
    chosen = [attentions(model)["decoder.layers.0.self_attention"] for model in both]
    assert_close(head_similarity(chosen, circuit), cosines_of_products(chosen, circuit), rtol=0, atol=1e-6)


def test_a_head_of_zeros_is_like_none():
    (attention, *_rest) = attentions(network()).values()
    with torch.no_grad():
        attention.query.weight[:8] = 0
    likeness = head_similarity([attention], "scores")
    assert not likeness[0].any()
    assert likeness[1, 1] == pytest.approx(1)
