"""Mixtures of experts against transformers: logits of the router, gates, what the experts give, and their units."""

from __future__ import annotations

import pytest
import torch

from model.analysis.blocks import blocks
from model.capture.trace import record
from model.checkpoints.bridge.experts import MirrorExperts
from model.checkpoints.bridge.network import BridgedNetwork
from model.network.config import Units
from model.runtime.errors import MissingQuantityError
from tests.model.checkpoints.bridge.models import (
    EXPERTS,
    GROUPED,
    VOCABULARY,
    bridged,
    inputs,
    opened,
    random_model,
    theirs,
    traced,
)

SAME = 1e-5
ALL = [*EXPERTS, "gpt_oss", "switch", "nllb_moe"]


def paths_of(network: BridgedNetwork) -> list[str]:
    return [path for path, module in network.named_modules() if isinstance(module, MirrorExperts)]


@pytest.mark.parametrize("name", ALL)
def test_gates_times_experts_and_shared_ones_are_what_the_block_gives(name):
    network = bridged(name)
    trace = traced(network)
    assert paths_of(network)
    for path in paths_of(network):
        module, gates, x = network.get_submodule(path), trace[f"{path}.gates"], trace[f"{path}.routed"]
        total = torch.zeros_like(x)
        for expert in range(len(module.experts)):
            own, read = network.get_submodule(f"{path}.experts.{expert}"), module.read_by(expert, x, gates)
            gate = 1.0 if module.scaled else module.factor * gates[:, expert, None]
            with torch.inference_mode():
                total = total + gate * own(read[None])[0]
        assert float((total - given_by(name, path)).abs().max()) < SAME


def given_by(name: str, path: str) -> torch.Tensor:
    """What transformers' module that holds the experts gave, on the same tokens."""
    network, found = bridged(name), []
    module = expert_modules(network)[paths_of(network).index(path)]
    handle = module.register_forward_hook(lambda _module, _inputs, output: found.append(output))
    try:
        traced(network)
    finally:
        handle.remove()
    output = found[0].detach().reshape(-1, found[0].shape[-1])
    count = bridged(name).get_submodule(path).experts.count
    return output if len(output) == len(traced(network)[f"{path}.routed"]) else output.unflatten(0, (count, -1)).sum(0)


def expert_modules(network: BridgedNetwork) -> list[torch.nn.Module]:
    ends = (".experts",)
    return [module for path, module in network.runner.model.named_modules() if path.endswith(ends)]


@pytest.mark.parametrize("name", [name for name in ALL if name not in ("llama4", "nllb_moe", "granitemoeshared")])
def test_routers_logits_are_those_that_transformers_returns(name):
    network = bridged(name)
    source, *target = inputs(network)
    named = {"input_ids": source, "output_router_logits": True} | ({"decoder_input_ids": target[0]} if target else {})
    with torch.inference_mode():
        try:
            output = theirs(name)[0](**named)
        except TypeError:
            pytest.skip("transformers returns no logits of this family's router")
    found = getattr(output, "router_logits", None) or getattr(output, "decoder_router_logits", None)
    if not found:
        pytest.skip("transformers returns no logits of this family's router")
    trace, paths = traced(network), [path for path in paths_of(network) if path.startswith("decoder")]
    routers = [each[-1] if isinstance(each, tuple) else each for each in found if each is not None]
    for path, logits in zip(paths, routers[-len(paths) :], strict=True):
        assert float((trace[f"{path}.router"] - logits.reshape(-1, logits.shape[-1])).abs().max()) < SAME


def test_gates_are_the_routers_choice():
    """Mixtral: softmax over all experts, the two largest, divided by their sum (Jiang et al., 2024, section 2.1)."""
    trace = traced(bridged("mixtral"))
    for path in paths_of(bridged("mixtral")):
        chances = trace[f"{path}.router"].softmax(dim=-1)
        best, places = chances.topk(2, dim=-1)
        wanted = torch.zeros_like(chances).scatter(1, places, best / best.sum(dim=-1, keepdim=True))
        torch.testing.assert_close(trace[f"{path}.gates"], wanted, atol=SAME, rtol=SAME)


def test_units_of_an_expert_are_those_of_the_tokens_that_go_through_it():
    trace, path = traced(bridged("mixtral")), "decoder.layers.1.feed_forward"
    model, gates, x = theirs("mixtral")[0], trace[f"{path}.gates"], trace[f"{path}.routed"]
    experts = model.model.layers[1].mlp.experts
    for expert in range(4):
        units = trace[f"{path}.experts.{expert}.gated"]
        taken = gates[:, expert] != 0
        with torch.inference_mode():
            gate, linear = torch.nn.functional.linear(x, experts.gate_up_proj[expert]).chunk(2, dim=-1)
            wanted = torch.nn.functional.silu(gate) * linear
        torch.testing.assert_close(units[taken], wanted[taken], atol=SAME, rtol=SAME)
        assert bool(units[~taken].isnan().all())
    assert f"{path}.experts.4.gated" not in trace
    assert f"{path}.experts.x.gated" not in trace
    with pytest.raises(MissingQuantityError, match="mixture of experts"):
        trace[f"{path}.hidden"]


def test_a_gate_of_the_models_own_is_told_apart_from_a_known_one():
    """GPT-OSS: (1 + linear) · gate · σ(1.702 · gate), both cut at 7; rows of the two alternate."""
    trace, path = traced(bridged("gpt_oss")), "decoder.layers.0.feed_forward.experts.2"
    gate, linear = trace[f"{path}.hidden"].clamp(max=7), trace[f"{path}.linear"].clamp(-7, 7)
    torch.testing.assert_close(trace[f"{path}.gated"], (1 + linear) * gate * torch.sigmoid(1.702 * gate))
    assert f"{path}.activation" not in trace


def test_experts_are_told_with_their_units():
    def told(name: str, stack: str = "decoder", layer: int = 1) -> Units:
        return bridged(name).config.units_of(stack, layer)

    assert told("olmoe") == Units(48, "swiglu", experts=4, chosen=2)
    assert told("dbrx") == Units(24, "swiglu", experts=4, chosen=2)
    assert told("granitemoeshared") == Units(48, "swiglu", experts=4, chosen=2, shared=40)
    assert told("llama4", layer=0) == Units(40, "swiglu")
    assert told("llama4") == Units(48, "swiglu", experts=4, chosen=1, shared=48)
    assert told("switch") == Units(48, "relu", experts=2, chosen=1)
    assert told("nllb_moe", "encoder") == Units(48, "relu", experts=2, chosen=2)


def test_shared_experts_stand_apart():
    trace, path = traced(bridged("deepseek_v3")), "decoder.layers.1.feed_forward"
    routed = given_by("deepseek_v3", path)
    torch.testing.assert_close(routed + trace[f"{path}.shared.output"], trace[f"{path}.output"], atol=SAME, rtol=SAME)
    assert trace[f"{path}.shared.gated"].shape[-1] == 24


def test_a_batch_has_the_gates_of_each_of_its_texts():
    network, path = bridged("mixtral"), "decoder.layers.1.feed_forward"
    rows = torch.cat([inputs(network, 1)[0], inputs(network, 2)[0]])
    with torch.inference_mode(), record(network) as trace:
        network(rows)
    for index, seed in enumerate((1, 2)):
        for name in (f"{path}.gates", f"{path}.router", f"{path}.experts.1.gated"):
            alone = traced(network, seed)[name]
            torch.testing.assert_close(trace.example(index)[name], alone, atol=SAME, rtol=SAME, equal_nan=True)


@pytest.mark.parametrize("name", ["mixtral", "deepseek_v3", "gpt_oss", "dbrx", "switch"])
def test_a_block_of_experts_has_their_parameters_and_the_routers(name):
    network, trace = bridged(name), traced(bridged(name))
    found = {block.path: block for block in blocks(trace)}
    for path in paths_of(network):
        module = expert_modules(network)[paths_of(network).index(path)]
        experts = sum(parameter.numel() for parameter in module.parameters())
        shared = sum(
            parameter.numel() for parameter in getattr(network.get_submodule(path), "shared", module).parameters()
        )
        router = trace[f"{path}.router"].shape[-1] * trace[f"{path}.routed"].shape[-1]
        rest = found[path].parameters - experts - (shared if hasattr(network.get_submodule(path), "shared") else 0)
        assert rest in (router, router + trace[f"{path}.router"].shape[-1])  # the router's bias


def test_a_function_of_a_gate_and_of_what_it_gates_is_not_called_as_an_activation(tmp_path):
    """Inkling 2's experts: how they are gated is not known, and all else is seen."""
    sizes = {**GROUPED, "layer_types": ["hybrid_sliding", "hybrid"], "moe_intermediate_size": 48, "n_routed_experts": 4}
    sizes |= {f"swa_{name}": GROUPED[name] for name in ("num_attention_heads", "num_key_value_heads", "head_dim")}
    model = random_model("Inkling2ForCausalLM", **sizes, unpadded_vocab_size=VOCABULARY, num_experts_per_tok=2)
    model.save_pretrained(tmp_path)
    network = opened(tmp_path)
    with torch.inference_mode():
        wanted = model(*inputs(network)).logits[0]
    assert float((traced(network)["output.logits"] - wanted).abs().max()) < SAME
