"""Feed-forward units against the weights and torch's own functions, number by number."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from model.analysis import feed_forward
from model.analysis.feed_forward import Seen
from model.network.masks import Mask
from tests.model import examples
from tests.model.examples import TARGET, network, one_stack

PLACED = [
    {"norm_placement": "pre"},
    {"norm_placement": "post"},
    {"norm_placement": "sandwich", "norm": "rms", "activation": "swiglu"},
    {"norm": "none", "residual": False, "activation": "gelu"},
    {"norm_placement": "post", "parallel": True, "activation": "geglu"},
    {"norm_placement": "pre", "parallel": True},
    {"norm": "none", "parallel": True, "output_bias": True},
]


def traced(model, source=(5, 6, 7, 3, 9)):
    trace = examples.traced(model, ids=(torch.tensor([source]), TARGET))
    trace.source_tokens, trace.target_tokens = [str(token) for token in source], ["1", "4", "12"]
    return trace


@pytest.mark.parametrize("options", PLACED)
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_positions_are_apart_in_the_network_and_not_in_attention(options, stack):
    trace = traced(network(**options))
    length = 5 if stack == "encoder" else 3
    found = feed_forward.positions_apart(trace, f"{stack}.layers.1.feed_forward", [*range(1, length), 0])
    assert found.recorded < 1e-5  # the input found is the one that was computed with
    assert found.permuted < 1e-5
    assert found.alone < 1e-5
    assert found.attention_alone > 1e-3
    layer = trace.network.get_submodule(f"{stack}.layers.1.feed_forward")
    x, hidden = feed_forward.input_of(trace, stack, 1), trace[f"{stack}.layers.1.feed_forward.hidden"]
    attention = trace.network.get_submodule(f"{stack}.layers.1.self_attention")
    with torch.inference_mode():
        assert_close(layer.hidden(x), hidden)
        single = attention.output(attention.value(x[None]).transpose(1, 2).flatten(2))  # one token sees itself alone
        apart = (single - attention(x[None], x[None], Mask())).abs().max()
    assert found.attention_alone == pytest.approx(float(apart), abs=1e-5)


def test_a_network_that_mixes_positions_is_found_out():
    trace = traced(network())

    class Mixing(torch.nn.Module):
        def forward(self, x):
            return x.cumsum(dim=1)

    trace.network.encoder.layers[1].feed_forward = Mixing()
    found = feed_forward.positions_apart(trace, "encoder.layers.1.feed_forward", [4, 3, 2, 1, 0])
    assert min(found.permuted, found.alone, found.recorded) > 0.1


def test_shares_strengths_and_order_are_counted():
    units = torch.tensor([[0.0, -0.005, 2.0, 0.0], [0.0, -3.0, 1.0, 0.02], [torch.nan] * 4])
    assert feed_forward.shares_off(units, 0.0)[:2].tolist() == [0.5, 0.25]
    assert feed_forward.shares_off(units, 0.01)[:2].tolist() == [0.75, 0.25]
    assert feed_forward.shares_off(units, 0.0)[2].isnan()
    assert feed_forward.strengths(units).tolist() == pytest.approx([0, 3, 2, 0.02])
    assert feed_forward.order_of(units, "strength") == [1, 2, 3, 0]
    assert feed_forward.order_of(units, "weakness") == [0, 3, 2, 1]
    assert feed_forward.order_of(units, "number") == [0, 1, 2, 3]
    assert [feed_forward.threshold(name) for name in ("relu", "gelu", "swiglu", "")] == [0, 0.01, 0.01, 0.01]
    path = "encoder.layers.0.feed_forward"
    assert feed_forward.quantities(network(activation="swiglu"), path)[0] == "gated"
    assert feed_forward.quantities(network(), path)[0] == "activation"
    assert feed_forward.quantities(network(), "encoder.layers.9.feed_forward") == []


def test_units_seen_are_those_of_all_texts_and_repeats_do_not_count():
    transformer, seen, path = network(), Seen(), "encoder.layers.1.feed_forward"
    traces = [traced(transformer, source) for source in ((5, 6, 7), (8, 9), (5, 6, 7))]
    for trace in traces:
        seen.add(trace, transformer.config)
    both = torch.cat([trace[f"{path}.activation"] for trace in traces[:2]])
    assert torch.equal(seen.on(transformer, path), (both > 0).any(dim=0))
    assert seen.positions(transformer, path) == 5
    assert seen.positions(transformer, "decoder.layers.0.feed_forward") == 6
    other = traced(network())
    seen.add(other, other.network.config)
    assert seen.positions(other.network, path) == 5  # another model's units are its own
    assert seen.positions(transformer, path) == 5


def test_a_unit_reads_and_writes_what_its_weights_say(model):
    transformer, unit = model.network, 7
    network_ = feed_forward.network_at(transformer, "decoder.layers.1.feed_forward")
    logits = (transformer.output.logits.weight.double() @ network_.output.weight[:, unit].double()).detach()
    found = feed_forward.writes(transformer, "decoder.layers.1.feed_forward", unit, model.target_tokenizer, keep=5)
    best = logits.topk(5)
    assert [label for label, _ in found.towards] == [model.target_tokenizer.label(int(t)) for t in best.indices]
    assert [value for _, value in found.towards] == pytest.approx(best.values.tolist(), rel=1e-4)
    assert found.away[0][1] == pytest.approx(float(logits.min()), rel=1e-4)
    embedding = transformer.encoder.embedding.tokens.weight.double()
    weight = feed_forward.network_at(transformer, "encoder.layers.0.feed_forward").hidden.weight[unit].double()
    cosines = F.cosine_similarity(embedding, weight[None]).detach()
    read = feed_forward.reads(transformer, "encoder.layers.0.feed_forward", unit, model.source_tokenizer, keep=3)
    assert [value for _, value in read.towards] == pytest.approx(cosines.topk(3).values.tolist(), rel=1e-4)
    assert read.towards[0][0] == model.source_tokenizer.label(int(cosines.argmax()))
    assert [feed_forward.reaches_output(transformer.config, stack) for stack in ("encoder", "decoder")] == [False, True]
    assert feed_forward.reaches_output(one_stack("encoder-only").config, "encoder")
