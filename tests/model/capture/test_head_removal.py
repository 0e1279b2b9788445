"""A removed head against a copy of the model whose W^O has no columns for it, in float64."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.testing import assert_close

from model.analysis.checks import checks
from model.capture.interventions import Causal, EachRemoved, RemovedHead, intervening, removed_heads
from model.capture.trace import ATTENTION_PATHS, record
from model.checkpoints.bridge.load import open_network
from model.network.transformer import Network
from tests.model.checkpoints.bridge.models import bridged, inputs, settings_in, theirs
from tests.model.examples import network, one_stack

SOURCE = torch.tensor([[5, 6, 7, 3, 9]])
TARGET = torch.tensor([[1, 4, 12, 8]])
EXACT = {"rtol": 0, "atol": 1e-10}


def without_columns(model: Network, change: RemovedHead) -> Network:
    """A copy whose W^O multiplies what this head gives by 0."""
    other = copy.deepcopy(model)
    attention = other.get_submodule(ATTENTION_PATHS[change.kind].format(change.layer))
    width = model.config.d_head
    with torch.no_grad():
        attention.output.weight[:, change.head * width : (change.head + 1) * width] = 0
    return other


@pytest.mark.parametrize("maps", [False, True])
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("options", [{}, {"n_heads": 4, "n_key_value_heads": 2, "norm_placement": "pre"}])
def test_it_is_a_copy_without_the_heads_columns(kind, options, maps):
    model, change = network(**options).double(), RemovedHead(kind, 1, 1)
    with torch.inference_mode(), intervening(model, [change]), record(model, maps) as trace:
        made = model(SOURCE, TARGET)
    with torch.inference_mode():
        assert_close(made, without_columns(model, change)(SOURCE, TARGET), **EXACT)
        assert float((made - model(SOURCE, TARGET)).abs().max()) > 1e-3
    heads = trace[f"{ATTENTION_PATHS[kind].format(1)}.heads"]
    assert not heads[1].any()
    assert heads[0].all()
    assert trace[f"{ATTENTION_PATHS[kind].format(1)}.weights"][1].any()  # it looks, and gives nothing
    assert all(check.passed for check in checks(trace))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("decoder-only", {"position": "rotary", "n_heads": 4, "n_key_value_heads": 1}),
        ("decoder-only", {"position": "alibi"}),
        ("encoder-only", {}),
    ],
)
def test_it_is_so_in_models_of_one_stack(kind, options):
    model = one_stack(kind, **options).double()
    change = RemovedHead("encoder" if kind == "encoder-only" else "decoder", 0, 1)
    with torch.inference_mode(), intervening(model, [change]):
        made = model(SOURCE)
    with torch.inference_mode():
        assert_close(made, without_columns(model, change)(SOURCE), **EXACT)


def test_gpt2_by_transformers_without_the_heads_rows():
    reference, folder = theirs("gpt2")
    model = open_network(folder, settings_in(folder), torch.device("cpu"), torch.float64)
    other = copy.deepcopy(reference).double()
    width = model.config.d_head
    with torch.no_grad():
        other.transformer.h[1].attn.c_proj.weight[3 * width : 4 * width] = 0  # theirs is (in, out)
    ids = inputs(model)[0]
    with torch.inference_mode(), intervening(model, [RemovedHead("decoder", 1, 3)]):
        made = model(ids)
    with torch.inference_mode():
        assert_close(made, other(input_ids=ids).logits, **EXACT)


def test_grouped_queries_by_transformers():
    """Four heads share two keys: each of the four can be removed alone."""
    reference, folder = theirs("llama")
    model = open_network(folder, settings_in(folder), torch.device("cpu"), torch.float64)
    other, width = type(reference).from_pretrained(folder, dtype=torch.float64).eval(), model.config.d_head
    with torch.no_grad():
        other.model.layers[1].self_attn.o_proj.weight[:, 2 * width : 3 * width] = 0
    ids = inputs(model)[0]
    with torch.inference_mode(), intervening(model, [RemovedHead("decoder", 1, 2)]):
        made = model(ids)
    with torch.inference_mode():
        assert_close(made, other(input_ids=ids).logits, **EXACT)


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
    changes = [
        RemovedHead("cross", 1, 1),
        RemovedHead("cross", 1, 0),
        Causal("cross", True),
        RemovedHead("cross", 0, 3),
    ]
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
