"""Experts beside the blocks of Mixtral and Switch Transformer, their balance beside its equation, and what is told."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.testing import assert_close
from transformers.models.mixtral.configuration_mixtral import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock, load_balancing_loss_func
from transformers.models.switch_transformers.configuration_switch_transformers import SwitchTransformersConfig
from transformers.models.switch_transformers.modeling_switch_transformers import SwitchTransformersSparseMLP

from model.analysis.blocks import blocks, total_flops
from model.analysis.experts import load
from model.analysis.feed_forward import positions_apart, quantities
from model.analysis.residual import blocks as residual_blocks
from model.analysis.residual import placements
from model.capture.interventions import RemovedExpert, read_changes
from model.checkpoints.convert.to_huggingface import counterpart
from model.data.datasets import IGNORED, Batch
from model.network.config import RecurrentConfig, Units
from model.network.costs import active_parameters, costs, parameters
from model.network.experts import NO_UNITS, MixtureOfExperts, Routing, balance_loss, routings
from model.runtime.errors import CheckpointError, MissingQuantityError
from model.training.losses import mean_balance, summed_loss
from model.training.settings import TrainingSettings
from model.training.trainer import Trainer
from tests.model.examples import config, network, one_stack, traced

SOURCE, TARGET = (
    torch.tensor([[5, 6, 7, 3, 9], [9, 3, 0, 0, 0]]),
    torch.tensor([[1, 4, 12, 8], [1, 2, 0, 0]]),
)  # 0: padding
X = torch.randn(2, 7, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
PATH = "encoder.layers.1.feed_forward"


def mixture(**options) -> MixtureOfExperts:
    part = one_stack("decoder-only", n_experts=4, **options).double().decoder.layers[0].feed_forward
    assert isinstance(part, MixtureOfExperts)
    return part


def test_two_of_four_gated_experts_give_what_the_block_of_mixtral_gives():
    ours = mixture(activation="swiglu", bias=False)
    theirs = MixtralSparseMoeBlock(
        MixtralConfig(hidden_size=16, intermediate_size=24, num_local_experts=4, num_experts_per_tok=2)
    ).double()
    with torch.no_grad():
        theirs.gate.weight.copy_(ours.router.weight)
        for number, expert in enumerate(ours.experts):
            theirs.experts.gate_up_proj[number] = torch.cat([expert.hidden.weight, expert.linear.weight])
            theirs.experts.down_proj[number] = expert.output.weight
        assert_close(ours(X), theirs(X), rtol=1e-6, atol=1e-6)  # their router's softmax is in float32


def test_one_of_four_experts_gives_what_the_block_of_switch_gives():
    ours = mixture(experts_per_token=1, bias=False)
    theirs = SwitchTransformersSparseMLP(
        SwitchTransformersConfig(d_model=16, d_ff=24, num_experts=4, expert_capacity=9, dropout_rate=0.0)
    ).double()
    theirs.router.dtype = torch.float64
    with torch.no_grad():
        theirs.router.classifier.weight.copy_(ours.router.weight)
        for number, expert in enumerate(ours.experts):
            theirs.experts[f"expert_{number}"].wi.weight.copy_(expert.hidden.weight)
            theirs.experts[f"expert_{number}"].wo.weight.copy_(expert.output.weight)
        assert_close(ours(X), theirs.eval()(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("chosen", [1, 2])
def test_the_balance_is_its_equation_and_that_of_mixtral_per_choice(chosen):
    ours = mixture(experts_per_token=chosen)
    with routings() as layers, torch.no_grad():
        ours(X)
    logits = layers[0].logits.flatten(0, 1)
    total = 0.0
    for expert in range(4):
        picked = sum(expert in row.argsort(descending=True)[:chosen].tolist() for row in logits)
        total += picked / (chosen * len(logits)) * float(logits.softmax(-1)[:, expert].mean())
    assert float(balance_loss(layers[0])) == pytest.approx(4 * total, rel=1e-12)
    theirs = load_balancing_loss_func((logits,), 4, chosen)
    assert float(balance_loss(layers[0])) * chosen == pytest.approx(float(theirs), rel=1e-6)
    even = torch.eye(4, dtype=torch.float64)[None]
    assert float(balance_loss(Routing(40 * even, even))) == pytest.approx(1.0)
    one = torch.tensor([[[40.0, 0.0, 0.0, 0.0]]]).expand(1, 5, 4)
    assert float(balance_loss(Routing(one, (one > 0).float()))) == pytest.approx(4.0)


def test_training_counts_the_weighted_balance_of_all_layers_without_padding():
    model = network(n_experts=3, experts_per_token=1, balance=0.5)
    masks = SOURCE != 0, TARGET != 0
    batch = Batch((SOURCE, TARGET, *masks), TARGET.masked_fill(TARGET == 0, IGNORED))
    plain = network(n_experts=3, experts_per_token=1, balance=0.0)
    with routings() as layers:
        model.states(*batch.inputs)
    loss = summed_loss(model, batch, 0.0)
    each = [balance_loss(layer, masks[number // 2]) for number, layer in enumerate(layers)]
    assert len(each) == 4
    assert_close(loss - summed_loss(plain, batch, 0.0), 0.5 * batch.predicted * torch.stack(each).mean())
    cut = [Routing(*(part[:1] for part in layer)) for layer in layers]  # the first row has no padding
    alone = Batch((SOURCE[:1], TARGET[:1], None, None), TARGET[:1])
    assert_close(mean_balance(model.config, alone, cut), torch.stack([balance_loss(each) for each in cut]).mean())
    loss.backward()
    assert float(model.encoder.layers[0].feed_forward.router.weight.grad.abs().sum()) > 0


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_a_trace_has_the_router_and_the_units_of_each_expert_where_tokens_take_it(activation):
    model = network(n_experts=4, experts_per_token=2, activation=activation)
    trace = traced(model, ids=(SOURCE[:1], TARGET[:1]))
    gates, routed = trace[f"{PATH}.gates"], trace[f"{PATH}.routed"]
    assert ((gates != 0).sum(dim=-1) == 2).all()
    assert_close(gates.sum(dim=-1), torch.ones(5))
    matrix = model.encoder.layers[1].feed_forward.router.weight.detach()
    assert_close(trace[f"{PATH}.router"], routed @ matrix.T)
    total = torch.zeros_like(routed)
    for number in range(4):
        path, taken = f"{PATH}.experts.{number}", gates[:, number] != 0
        names = quantities(model, path)
        assert names[-1] == "hidden"
        units = trace[f"{path}.{names[0]}"]
        assert units[~taken].isnan().all()
        assert units[taken].isfinite().all()
        with torch.inference_mode():
            total[taken] += gates[taken, number, None] * model.get_submodule(path).output(units[taken])
    assert_close(trace[f"{PATH}.output"], total)
    assert float(load(gates).sum()) == pytest.approx(2.0)
    assert positions_apart(trace, f"{PATH}.experts.0", [4, 3, 2, 1, 0]).permuted < 1e-5
    assert quantities(model, PATH) == []
    with pytest.raises(MissingQuantityError, match=NO_UNITS):
        trace[f"{PATH}.hidden"]


def test_what_it_holds_and_what_a_token_uses():
    sparse = config(n_experts=4, experts_per_token=1)
    model, dense = network(n_experts=4, experts_per_token=1), config()
    assert sum(parameters(sparse).values()) == model.parameter_count()
    layer = model.encoder.layers[0].feed_forward
    expert = sum(weight.numel() for weight in layer.experts[0].parameters())
    assert active_parameters(sparse) == model.parameter_count() - 4 * 3 * expert
    assert active_parameters(dense) == sum(parameters(dense).values())
    router = 4 * 2 * 5 * 16 * 4  # layers, 2 a multiply-add, tokens, width, experts
    both = costs(sparse, 1, 5, 5), costs(dense, 1, 5, 5)
    assert both[0].flops["feed-forward"] == both[1].flops["feed-forward"] + router
    assert both[0].memory["weights"] > 1.9 * both[1].memory["weights"]
    trace = traced(model, ids=(SOURCE[:1], TARGET[:1]))
    assert total_flops(trace, blocks(trace)) == costs(sparse, 1, 5, 4).forward_flops
    assert sparse.units_of("decoder", 1) == Units(24, "relu", 4, 1)


def test_a_removed_expert_is_not_chosen_and_its_tokens_go_to_others():
    model = network(n_experts=3, experts_per_token=1)
    plain = traced(model, ids=(SOURCE[:1], TARGET[:1]))
    logits = plain[f"{PATH}.router"]
    gone = int(logits[0].argmax())
    (change,) = read_changes(f"encoder.1.expert.{gone}:remove")
    assert change == RemovedExpert("encoder", 1, gone)
    trace = traced(model, change, ids=(SOURCE[:1], TARGET[:1]))
    others = logits.clone()
    others[:, gone] = -torch.inf
    expected = torch.zeros_like(logits).scatter(1, others.argmax(-1, keepdim=True), others.softmax(-1).amax(-1, True))
    assert_close(trace[f"{PATH}.gates"], expected)
    assert torch.equal(trace[f"{PATH}.router"], logits)  # its own stay as they are
    assert not torch.equal(trace["output.logits"], plain["output.logits"])
    with pytest.raises(ValueError, match="no expert of layer 2 is left"):
        traced(model, *(RemovedExpert("encoder", 1, each) for each in range(3)), ids=(SOURCE[:1], TARGET[:1]))
    same = traced(network(), change, ids=(SOURCE[:1], TARGET[:1]))
    assert_close(same["output.logits"], traced(network(), ids=(SOURCE[:1], TARGET[:1]))["output.logits"])


def test_what_experts_cannot_do_is_said_in_a_sentence():
    with pytest.raises(ValueError, match=r"experts_per_token \(3\) must be at most n_experts \(2\)"):
        config(n_experts=2, experts_per_token=3)
    with pytest.raises(ValueError, match=r"n_experts .* is no option of a recurrent network"):
        RecurrentConfig(source_vocabulary=9, target_vocabulary=9, n_experts=2)
    with pytest.raises(CheckpointError, match="n_experts"):
        counterpart(config(n_experts=2))
    settings = dataclasses.replace(TrainingSettings(steps=1), compile=True)
    with pytest.raises(ValueError, match="compile is on and the network has experts"):
        Trainer(network(n_experts=2), [0], [0], settings)  # type: ignore[arg-type]


def test_the_norm_can_be_placed_otherwise_around_experts():
    model = network(n_experts=3, norm_placement="pre")
    trace = traced(model, ids=(SOURCE[:1], TARGET[:1]))
    block = [each for each in residual_blocks(model.config, "encoder") if each.sublayer == "feed_forward"][1]
    outputs = placements(model, block, trace[block.before], trace[block.read])
    assert_close(outputs["pre"], trace[block.after])
    assert not torch.allclose(outputs["wrong"], trace[block.after], atol=1e-2)
