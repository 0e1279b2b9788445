"""The recurrent network against torch.nn.GRU, and against its equations written out in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from model.capture.interventions import Cells, PaddingSeen, RemovedHead, intervening
from model.capture.trace import record
from model.network.config import RecurrentConfig, TransformerConfig
from model.network.costs import costs
from model.network.recurrent import GRU
from model.network.transformer import build, skeleton
from model.runtime.errors import MissingQuantityError
from tests.model.examples import SOURCE, TARGET, recurrent

SOURCES = torch.tensor([[5, 6, 7, 3, 9], [4, 8, 3, 0, 0], [10, 3, 0, 0, 0]])
REAL = SOURCES != 0
TARGETS = torch.tensor([[1, 4, 12, 5], [1, 6, 7, 8], [1, 9, 9, 2]])


def as_torch(unit: GRU, other: nn.Module, end: str) -> None:
    """Give torch's unit the weights of ours. end: of the names of its weights."""
    with torch.no_grad():
        for side, linear in (("ih", unit.from_input), ("hh", unit.from_state)):
            other.get_parameter(f"weight_{side}{end}").copy_(linear.weight)
            other.get_parameter(f"bias_{side}{end}").copy_(linear.bias)


def test_the_encoder_is_a_bidirectional_gru_of_torch_that_skips_padding() -> None:
    network = recurrent()
    expected = nn.GRU(16, 8, batch_first=True, bidirectional=True)
    as_torch(network.encoder.forwards, expected, "_l0")
    as_torch(network.encoder.backwards, expected, "_l0_reverse")
    with torch.no_grad():
        x = network.encoder.embedding(SOURCES)
        packed = nn.utils.rnn.pack_padded_sequence(x, REAL.sum(dim=1), batch_first=True)
        annotations, _ = nn.utils.rnn.pad_packed_sequence(expected(packed)[0], batch_first=True)
        assert_close(network.encode(SOURCES, REAL)[REAL], annotations[REAL])


def test_a_unit_goes_token_by_token_and_its_gradients_are_those_of_torch() -> None:
    unit, expected = GRU(3, 5).double(), nn.GRU(3, 5, batch_first=True).double()
    as_torch(unit, expected, "_l0")
    x = torch.randn(2, 7, 3, dtype=torch.float64)
    steps = unit.steps(x)
    assert_close(next(steps).state, expected(x[:, :1])[0])
    assert len(list(steps)) == 6
    (mine,), (theirs,) = (
        torch.autograd.grad(states.square().sum(), [weight])
        for states, weight in ((unit(x), unit.from_state.weight), (expected(x)[0], expected.weight_hh_l0))
    )
    assert_close(mine, theirs)


def written_out(network: nn.Module, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (target, vocabulary) and alignment (target, source) of one pair, by torch's GRU and loops, in float64."""
    network = network.double()
    layer, read = network.decoder.layers[0], network.decoder.readout
    attention, unit = layer.cross_attention, layer.unit
    encoder = nn.GRU(16, 8, bidirectional=True).double()
    as_torch(network.encoder.forwards, encoder, "_l0")
    as_torch(network.encoder.backwards, encoder, "_l0_reverse")
    root = 16**0.5
    h, _ = encoder(network.encoder.embedding.tokens.weight[source] * root)
    cell = nn.GRUCell(32, 16).double()
    with torch.no_grad():
        cell.weight_ih.copy_(torch.cat([unit.from_input.weight, unit.from_context.weight], dim=1))
        cell.bias_ih.copy_(unit.from_input.bias)
        cell.weight_hh.copy_(unit.from_state.weight)
        cell.bias_hh.copy_(unit.from_state.bias)
    w, u, b = attention.from_state.weight, attention.from_annotation.weight, attention.from_annotation.bias
    v = attention.energy.weight[0]
    s = torch.tanh(unit.from_source.weight @ h[0, 8:] + unit.from_source.bias)
    logits, alignment = [], []
    for token in target:
        y = network.decoder.embedding.tokens.weight[token] * root
        e = torch.stack([v @ torch.tanh(w @ s + u @ each + b) for each in h])
        alpha = e.exp() / e.exp().sum()
        c = sum(weight * each for weight, each in zip(alpha, h, strict=True))
        s = cell(torch.cat([y, c])[None], s[None])[0]
        t = (
            read.from_state.weight @ s
            + read.from_state.bias
            + read.from_token.weight @ y
            + read.from_context.weight @ c
        )
        t = torch.stack([torch.max(t[2 * channel], t[2 * channel + 1]) for channel in range(16)])
        logits.append(network.output.logits.weight @ t)
        alignment.append(alpha)
    return torch.stack(logits), torch.stack(alignment)


@torch.no_grad()
def test_logits_and_alignment_are_those_of_the_equations() -> None:
    network = recurrent()
    logits, alignment = written_out(recurrent(), SOURCE[0], TARGET[0])
    with record(network) as trace:
        assert_close(network(SOURCE, TARGET)[0].double(), logits, atol=1e-5, rtol=1e-5)
    assert_close(trace.attention("cross")[0, 0].double(), alignment, atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_a_trace_holds_the_three_steps_of_the_attention() -> None:
    network = recurrent()
    with record(network) as trace:
        network(SOURCE, TARGET)
    path, attention = "decoder.layers.0.cross_attention", network.decoder.layers[0].cross_attention
    query, key = trace[f"{path}.query"][0], trace[f"{path}.key"][0]
    energies = attention.energy(torch.tanh(query[:, None] + key[None]))[..., 0]
    assert_close(trace[f"{path}.energies"][0], energies)
    assert_close(trace[f"{path}.weights"][0], energies.softmax(dim=-1))
    annotations = trace["encoder.annotations"]
    assert_close(trace[f"{path}.context"], trace[f"{path}.weights"][0] @ annotations)
    states, update, candidate = (trace[f"decoder.layers.0.unit.{name}"] for name in ("states", "update", "candidate"))
    assert_close(states[1:], (1 - update[1:]) * candidate[1:] + update[1:] * states[:-1])
    assert len(trace.names()) == len(set(trace.names()))


@torch.no_grad()
def test_a_padded_batch_gives_what_each_text_gives_alone() -> None:
    network = recurrent()
    together = network(SOURCES, TARGETS, REAL)
    for row, (source, real) in enumerate(zip(SOURCES, REAL, strict=True)):
        assert_close(together[row], network(source[real][None], TARGETS[row][None])[0])


@torch.no_grad()
def test_no_token_changes_what_comes_before_it() -> None:
    network, other = recurrent(), TARGETS.clone()
    other[:, 2] = 3
    before, after = network(SOURCES, TARGETS, REAL), network(SOURCES, other, REAL)
    assert_close(before[:, :2], after[:, :2], atol=0, rtol=0)
    assert not torch.allclose(before[:, 2:], after[:, 2:])


@torch.no_grad()
def test_a_hidden_source_token_gets_no_weight_in_training_and_in_decoding() -> None:
    network = recurrent()
    change = Cells("cross", visible=False, query=1, key=2)
    with intervening(network, [change]), record(network) as trace:
        logits = network(SOURCE, TARGET)
    weights = trace.attention("cross")[0, 0]
    assert weights[1, 2] == 0
    assert_close(weights.sum(dim=-1), torch.ones(3))
    assert weights[0, 2] > 0
    assert weights[2, 2] > 0
    with intervening(network, [change]):
        state = network.read(SOURCE, padding=0, start=1)
        steps = [state.log_probabilities(TARGET[:, place : place + 1]) for place in range(3)]
    assert_close(torch.cat(steps, dim=1), logits.log_softmax(dim=-1))
    plain = network(SOURCES, TARGETS, REAL)
    with intervening(network, [PaddingSeen("cross")]):
        seen = network(SOURCES, TARGETS, REAL)
    assert_close(seen[0], plain[0])
    assert not torch.allclose(seen[1:], plain[1:])
    with intervening(network, [RemovedHead("cross", 0, 0)]), pytest.raises(ValueError, match="cannot be removed"):
        network(SOURCE, TARGET)


def test_what_a_transformer_has_and_it_has_not_is_named() -> None:
    network = recurrent()
    for path in ("encoder.layers.0.self_attention", "decoder.layers.0.feed_forward", "encoder.norm"):
        with pytest.raises(MissingQuantityError, match="recurrent"):
            network.get_submodule(path)
    with torch.no_grad(), record(network) as trace:
        network(SOURCE, TARGET)
    with pytest.raises(MissingQuantityError, match="vᵀ tanh"):
        trace["decoder.layers.0.cross_attention.scores"]


def test_a_config_is_written_read_and_refused() -> None:
    config = RecurrentConfig(source_vocabulary=11, target_vocabulary=13, d_model=16, dropout=0.2)
    assert TransformerConfig.from_json(config.to_json()) == config
    assert type(TransformerConfig.from_json(config.to_json())) is RecurrentConfig
    assert RecurrentConfig.preset("tiny", source_vocabulary=3, target_vocabulary=4).d_model == 64
    for wrong, message in (
        ({"n_heads": 4}, r"n_heads \(4\) is no option of a recurrent network"),
        ({"d_model": 15}, r"d_model \(15\) must be even"),
        ({"dropout": 1.0}, r"dropout \(1.0\) must be at least 0"),
        ({"tied_embeddings": "all"}, "needs one vocabulary"),
        ({"source_vocabulary": 0}, r"source_vocabulary \(0\) must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            RecurrentConfig(**{"source_vocabulary": 11, "target_vocabulary": 13, "d_model": 16} | wrong)
    with pytest.raises(ValueError, match="d_ff is not an option"):
        TransformerConfig.from_dict({"kind": "recurrent", "source_vocabulary": 3, "target_vocabulary": 3, "d_ff": 4})


@pytest.mark.parametrize("tied", ["none", "output", "inputs", "all"])
def test_its_costs_count_every_weight(tied: str) -> None:
    config = RecurrentConfig(source_vocabulary=13, target_vocabulary=13, d_model=16, tied_embeddings=tied)
    network = build(config)
    found = costs(config, batch=3, source=5, target=4)
    assert found.parameter_count == network.parameter_count() == skeleton(config).parameter_count()
    assert found.forward_flops == measured_flops(network)


def measured_flops(network: nn.Module) -> int:
    """Operations of all matrix products of a pass on 3 texts of 5 and 4 tokens, by torch's own counter."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(torch.randint(1, 13, (3, 5)), torch.randint(1, 13, (3, 4)))
    return counter.get_total_flops()
