"""The logit lens: after the last layer it is the model itself, before that torch's own layers say the same."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from model.analysis.logit_lens import TOGETHER, lens_logits, read_layers, stream_names
from model.capture.trace import record
from tests.model.examples import SOURCE, TARGET, network, one_stack, traced

OPTIONS = [
    {"norm_placement": "pre"},
    {"norm_placement": "post"},
    {"norm_placement": "sandwich", "norm": "rms", "position": "rotary", "activation": "swiglu"},
    {"norm_placement": "pre", "norm": "none"},
    {"norm_placement": "post", "norm": "none", "residual": False},
    {"norm_placement": "post", "output_head": "transform", "output_bias": True},
    {"norm_placement": "pre", "parallel": True, "scale_output": True, "position": "relative"},
    {"norm_placement": "post", "position": "alibi", "n_key_value_heads": 1, "embedding_norm": True},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("make", [network, partial(one_stack, "decoder-only"), partial(one_stack, "encoder-only")])
def test_after_the_last_layer_the_lens_shows_the_models_own_logits(make, options):
    trace = traced(make(**options))
    names = stream_names(trace)
    assert len(names) == 1 + 2
    assert_close(lens_logits(trace.network, trace[names[-1]]), trace["output.logits"], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(lens_logits(trace.network, trace[names[0]]), trace["output.logits"], atol=0.1)


@pytest.mark.parametrize(("placement", "end"), [("pre", "residual"), ("post", "norm.output")])
@torch.inference_mode()
def test_an_earlier_layer_goes_through_the_final_norm_of_a_pre_norm_stack_alone(placement, end):
    model = network(norm_placement=placement)
    trace = traced(model)
    name = f"decoder.layers.0.feed_forward_block.{end}"
    assert stream_names(trace)[1] == name
    state, norm = trace[name], model.decoder.norm
    if placement == "pre":
        state = F.layer_norm(state, norm.weight.shape, norm.weight, norm.bias, norm.eps)
    assert_close(lens_logits(model, trace[name]), state @ model.output.logits.weight.T)


def test_a_reading_is_counted_by_hand():
    trace = traced(network(norm_placement="pre"))
    streams = [trace[name] for name in stream_names(trace)]
    wanted = torch.tensor([[4, 12, 3], [0, 1, 2]])
    reading = read_layers(trace.network, streams, wanted)
    for layer, stream in enumerate(streams):
        for position, row in enumerate(lens_logits(trace.network, stream).double().softmax(dim=-1).tolist()):
            assert int(reading.top[layer, position]) == row.index(max(row))
            assert float(reading.top_probability[layer, position]) == pytest.approx(max(row), rel=1e-5)
            entropy = torch.distributions.Categorical(probs=torch.tensor(row)).entropy()
            assert float(reading.entropy[layer, position]) == pytest.approx(float(entropy), rel=1e-4)
            for index, token in enumerate(wanted[:, position].tolist()):
                assert float(reading.probability[index, layer, position]) == pytest.approx(row[token], rel=1e-5)
                assert int(reading.rank[index, layer, position]) == 1 + sum(each > row[token] for each in row)


def test_reading_leaves_no_mark_and_takes_long_texts_in_pieces():
    model = network(norm_placement="pre")
    stream = torch.randn(TOGETHER + 3, 16)
    wanted = torch.zeros(1, TOGETHER + 3, dtype=torch.long)
    with torch.inference_mode(), record(model) as trace:
        model(SOURCE, TARGET)
        reading = read_layers(model, [stream], wanted)  # would be computed twice, were it recorded
    assert trace["output.logits"].shape == (3, 13)
    assert_close(reading.top[0], lens_logits(model, stream).argmax(dim=-1))


def test_a_token_that_is_missing_has_no_reading():
    model = network(norm_placement="pre")
    stream = torch.randn(2, 16)
    stream[1] = torch.nan
    reading = read_layers(model, [stream], torch.zeros(1, 2, dtype=torch.long))
    assert int(reading.top[0, 0]) >= 0
    assert (int(reading.top[0, 1]), int(reading.rank[0, 0, 1])) == (-1, -1)
    assert reading.probability[0, 0].isnan().tolist() == [False, True]
