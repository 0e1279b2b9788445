"""A removed head against a copy of the model whose W^O has no columns for it, in float64."""

import copy
from functools import partial

import pytest
import torch
from torch.testing import assert_close

from model.analysis.checks import checks
from model.capture.interventions import Causal, EachRemoved, RemovedHead, intervening, removed_heads
from model.capture.trace import ATTENTION_PATHS, record
from model.checkpoints.bridge.load import open_network
from model.network.transformer import Network
from tests.model.checkpoints.bridge.models import bridged, inputs, settings_in, theirs
from tests.model.examples import SOURCE, TARGET, network, one_stack, traced

EXACT = {"rtol": 0, "atol": 1e-10}


def without_columns(model: Network, change: RemovedHead) -> Network:
    """A copy whose W^O multiplies what this head gives by 0."""
    other = copy.deepcopy(model)
    attention = other.get_submodule(ATTENTION_PATHS[change.kind].format(change.layer))
    width = model.config.d_head
    with torch.no_grad():
        attention.output.weight[:, change.head * width : (change.head + 1) * width] = 0
    return other


GROUPED = {"n_heads": 4, "n_key_value_heads": 2, "norm_placement": "pre"}
REMOVED = [(partial(network, **options), kind) for options in ({}, GROUPED) for kind in ("encoder", "decoder", "cross")]
REMOVED += [
    (partial(one_stack, "decoder-only", position="rotary", n_heads=4, n_key_value_heads=1), "decoder"),
    (partial(one_stack, "decoder-only", position="alibi"), "decoder"),
    (partial(one_stack, "encoder-only"), "encoder"),
]


@pytest.mark.parametrize("maps", [False, True])
@pytest.mark.parametrize(("make", "kind"), REMOVED)
def test_it_is_a_copy_without_the_heads_columns(make, kind, maps):
    model, change = make().double(), RemovedHead(kind, 1, 1)
    trace, cut = traced(model, change, maps=maps), traced(without_columns(model, change))
    assert_close(trace["output.logits"], cut["output.logits"], **EXACT)
    assert float((trace["output.logits"] - traced(model)["output.logits"]).abs().max()) > 1e-3
    path = ATTENTION_PATHS[kind].format(1)
    assert not trace[f"{path}.heads"][1].any()
    assert trace[f"{path}.heads"][0].all()
    assert trace[f"{path}.weights"][1].any()  # it looks, and gives nothing
    assert all(check.passed for check in checks(trace))


def rows_of_gpt2(model, heads: slice) -> torch.Tensor:
    return model.transformer.h[1].attn.c_proj.weight[heads]  # theirs is (in, out)


def columns_of_llama(model, heads: slice) -> torch.Tensor:
    return model.model.layers[1].self_attn.o_proj.weight[:, heads]


@pytest.mark.parametrize(("name", "part"), [("gpt2", rows_of_gpt2), ("llama", columns_of_llama)])
def test_by_transformers_it_is_theirs_without_the_heads_part_of_the_matrix(name, part):
    """Of llama four heads share two keys: each of the four can be removed alone."""
    reference, folder = theirs(name)
    model = open_network(folder, settings_in(folder), torch.device("cpu"), torch.float64)
    other, width = type(reference).from_pretrained(folder, dtype=torch.float64).eval(), model.config.d_head
    with torch.no_grad():
        part(other, slice(2 * width, 3 * width)).zero_()
    ids = inputs(model)[0]
    with torch.inference_mode(), intervening(model, [RemovedHead("decoder", 1, 2)]):
        assert_close(model(ids), other(input_ids=ids).logits, **EXACT)


def test_a_bridged_model_writes_without_it_from_its_cache():
    model, change = bridged("gpt2"), RemovedHead("decoder", 0, 2)
    ids = inputs(model)[0]
    with torch.inference_mode(), intervening(model, [change]):
        context = model.read(ids[:, :4], padding=-1, start=0)
        steps = [context.log_probabilities(fed)[0, -1] for fed in (ids[:, :4], ids[:, 4:5], ids[:, 5:6])]
        whole = model(ids)[0].log_softmax(dim=-1)
        assert_close(torch.stack(steps), whole[3:6], rtol=0, atol=1e-5)
    with torch.inference_mode():
        assert float((model(ids)[0].log_softmax(dim=-1) - whole).abs().max()) > 1e-3


def test_a_batch_of_copies_loses_one_head_each():
    model = network(n_heads=4).double()
    heads = (2, 0, 3)
    with torch.inference_mode(), intervening(model, [EachRemoved("cross", 0, heads)]):
        together = model(SOURCE.expand(3, -1), TARGET.expand(3, -1))
    for row, head in enumerate(heads):
        with torch.inference_mode(), intervening(model, [RemovedHead("cross", 0, head)]):
            assert_close(together[row], model(SOURCE, TARGET)[0], **EXACT)


def test_removed_heads_are_told_and_one_that_is_not_there_is_no_change():
    changes = [RemovedHead("cross", *place) for place in ((1, 1), (1, 0), (0, 3))] + [Causal("cross", True)]
    assert removed_heads(changes, "cross", 1) == [0, 1]
    assert removed_heads(changes, "decoder", 1) == []
    model = network()
    with torch.inference_mode():
        expected = model(SOURCE, TARGET)
        with intervening(model, [RemovedHead("cross", 9, 0), RemovedHead("cross", 0, 9)]):
            assert torch.equal(model(SOURCE, TARGET), expected)


def test_heads_that_only_the_model_has_apart_are_refused_in_a_sentence():
    model = bridged("gptj")
    with (
        torch.inference_mode(),
        intervening(model, [RemovedHead("decoder", 0, 0)]),
        pytest.raises(ValueError, match="heads of this model cannot be removed"),
        record(model),
    ):
        model(*inputs(model))
