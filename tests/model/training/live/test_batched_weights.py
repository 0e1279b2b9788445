"""Several sets of weights in one pass: each example as a network with its weights alone would read it."""

import copy

import pytest
import torch
from torch.testing import assert_close

from model.inference.copies import alone
from model.training.flat_parameters import weights_in_a_row
from model.training.live.pending_steps import READERS, BatchedWeights, can_be_several
from tests.model.network.test_options import OPTIONS
from tests.model.training.live.live_examples import material, probe, start

KINDS = [
    {"kind": "encoder-only"},
    {"kind": "decoder-only", "activation": "swiglu", "position": "alibi"},
    {"position": "rotary", "qk_norm": True},
    {"norm": "rms", "position": "learned"},
    {"norm": "textbook", "bias": False},
    {"norm": "none"},
]
EVERY = [*KINDS, *({name: value for name, value in each.items() if name != "kind"} for each in OPTIONS)]


def several_of(count: int, **options):
    """A new model in float64, `count` copies of it with other weights each, and these read together."""
    model = start(material(options.get("kind", "encoder-decoder")), **options)
    model.network.double()
    row = weights_in_a_row(tuple(model.network.parameters()))
    rows = row.whole * torch.linspace(0.5, 1.5, count, dtype=torch.float64)[:, None]
    rows = rows + 0.1 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    several = BatchedWeights(model, row)
    several.load(rows)
    singles = []
    for weights in rows:
        row.whole.copy_(weights)
        singles.append(alone(model))
    return several, singles


@pytest.mark.parametrize("options", EVERY, ids=str)
def test_each_example_is_read_with_weights_of_its_own(options):
    several, singles = several_of(3, **options)
    if not can_be_several(singles[0].network):
        assert options.get("position") == "relative" or "n_experts" in options
        return
    chosen = probe(singles[0], "abcd")
    together = several.model.trace_tokens(chosen.source, chosen.target, 3)
    for number, single in enumerate(singles):
        trace, mine = single.trace_tokens(chosen.source, chosen.target), together.example(number)
        assert trace.names() == mine.names()
        for name in trace.names():
            if name.endswith(".visible"):
                assert torch.equal(mine[name], trace[name])
            else:
                assert_close(mine[name], trace[name], rtol=1e-9, atol=1e-11, msg=f"{name}: {{}}".format)
    last = together.names()[-1]
    assert torch.equal(together[last], together.example(2)[last])
    assert together.source_tokens == trace.source_tokens


def test_weights_that_are_used_twice_are_one_in_every_set():
    several, singles = several_of(2, tied_embeddings="output")
    network, first = several.model.network, singles[0].network
    assert network.output.logits.weight is network.decoder.embedding.tokens.weight
    assert len(list(network.parameters())) == len(list(first.parameters()))
    assert [weight.shape for weight in network.parameters()] == [weight.shape for weight in first.parameters()]


def test_what_reads_its_weights_in_another_way_is_refused_and_not_read_wrongly():
    several, singles = several_of(2)
    assert can_be_several(singles[0].network)
    assert not can_be_several(start(material(), position="relative").network)
    assert not can_be_several(start(material(), n_experts=2).network)
    other = copy.copy(singles[0].network)
    other.added = torch.nn.Conv1d(2, 2, 1)
    assert type(other.added) not in READERS
    assert not can_be_several(other)
    weight = several.model.network.output.logits.weight
    with pytest.raises(NotImplementedError, match="sigmoid"):
        torch.sigmoid(weight)
