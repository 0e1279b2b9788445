"""Costs by arithmetic are those of the network that is built: parameters, operations, and what autograd keeps."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from model.data.datasets import IGNORED, Batch
from model.inference.decoding import greedy
from model.network.config import TransformerConfig
from model.network.costs import Costs, costs, parameters
from model.network.kernels import plain_kernels
from model.network.transformer import Network, build
from model.training.losses import summed_loss
from tests.model.examples import config, network, one_stack
from tests.model.network.any_config import configs

PART_OF = {"embedding": "embeddings", "feed_forward": "feed-forward", "output": "output"}


def lengths(size: TransformerConfig, source: int, target: int) -> tuple[int, int]:
    return source * (size.n_encoder_layers > 0), target * (size.n_decoder_layers > 0)


def inputs(size: TransformerConfig, batch: int, source: int, target: int) -> tuple[torch.Tensor, ...]:
    """Ids for each stack that the model has."""
    sides = ((size.source_vocabulary, source), (size.target_vocabulary, target))
    return tuple(torch.randint(vocabulary, (batch, length)) for vocabulary, length in sides if length)


def parts_of(model: Network) -> dict[str, int]:
    """The weights of the network, each sorted by its name."""
    counted = dict.fromkeys(("embeddings", "attention", "feed-forward", "norms", "output"), 0)
    for name, parameter in model.named_parameters():
        path = name.split(".")
        if "norm" in path or "output_norm" in path:
            part = "norms"
        elif path[-3] in ("self_attention", "cross_attention"):
            part = "attention"
        else:
            part = next(PART_OF[each] for each in path if each in PART_OF)
        counted[part] += parameter.numel()
    return counted


@settings(max_examples=25)
@given(configs())
def test_parameters_are_those_of_the_network(size):
    with torch.device("meta"):
        model = build(size)
    assert parameters(size) == parts_of(model)
    source, target = lengths(size, 5, 4)
    cost = costs(size, 3, source, target)
    assert cost.parameter_count == model.parameter_count()
    weights = sum(parameter.nbytes for parameter in model.parameters())
    own = {"weights": weights, "gradients": weights, "moments": 2 * weights, "average": weights}
    assert own.items() <= cost.memory.items()
    assert cost.training_memory == 5 * weights + cost.memory["activations"]


@settings(max_examples=20)
@given(configs(), st.integers(1, 3), st.integers(2, 7), st.integers(2, 7))
def test_operations_are_those_that_torch_counts(size, batch, source, target):
    source, target = lengths(size, source, target)
    model, ids = build(size).eval(), inputs(size, batch, source, target)
    with plain_kernels():  # the counter does not know every fused kernel
        with FlopCounterMode(display=False) as forward:
            logits = model(*ids)
        with FlopCounterMode(display=False) as backward:
            logits.sum().backward()
    cost = costs(size, batch, source, target)
    assert cost.forward_flops == forward.get_total_flops()
    assert cost.training_flops == forward.get_total_flops() + backward.get_total_flops()
    counted = {"attention": 0, "scores": 0, "feed-forward": 0, "output": 0}
    for path, operations in forward.get_flop_counts().items():
        names = path.split(".")[1:]
        if names[-1:] == ["feed_forward"]:
            counted["feed-forward"] += sum(operations.values())
        elif names[-1:] in (["logits"], ["transform"]):
            counted["output"] += sum(operations.values())
        elif names[-1:] in (["self_attention"], ["cross_attention"]):
            products = {str(operation): count for operation, count in operations.items()}
            counted["scores"] += products.pop("aten.bmm")
            counted["attention"] += sum(products.values())
    assert cost.flops == counted


def cache_bytes(model: Network, batch: Batch) -> int:
    """What autograd keeps of a training pass: each piece of memory once, without the weights."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.Tensor] = {}  # the tensors too: freed memory would be given out again

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if (place := tensor.untyped_storage().data_ptr()) not in weights:
            kept[place] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        summed_loss(model, batch, 0.1)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@settings(max_examples=25)
@given(configs(), st.integers(1, 12))
def test_activations_are_estimated(size, predicted):
    source, target = lengths(size, 8, 6)
    model, ids = build(size).train(), inputs(size, 2, source, target)
    labels = torch.full(ids[-1].shape, IGNORED)
    labels.view(-1)[:predicted] = 1
    masks = [None] * len(ids)
    actual = cache_bytes(model, Batch((*ids, *masks), labels))
    estimate = costs(size, 2, source, target, predicted).memory["activations"]
    assert 0.6 < estimate / actual < 1.4


@pytest.mark.parametrize("options", [{}, {"n_key_value_heads": 1, "heads": "full"}])
def test_the_cache_is_what_writing_keeps(options):
    def kept(model: Network, ids: torch.Tensor, limit: int) -> int:
        context = model.read(ids, padding=0, start=1)
        greedy(context, ends=(), limits=[limit] * len(ids))
        pairs = [
            pair
            for layer in context.cache.layers
            for pair in (layer.self_attention.room, layer.cross_attention.keys_and_values)
            if pair
        ]
        length = context.cache.length
        return sum(4 * each[:, :, :length].numel() for pair in pairs for each in pair)

    # Written 8 of 9: the last token is not fed. The source is as long, so that one cut fits both.
    ids = torch.randint(3, 11, (2, 9))
    assert costs(config(**options), 2, 9, 9).memory["cache"] == kept(network(**options), ids, 9)
    model = one_stack("decoder-only", **options)
    assert costs(model.config, 2, 0, 9).memory["cache"] == kept(model, ids[:, :3], 7)
    assert costs(one_stack("encoder-only", **options).config, 2, 9, 0).memory["cache"] == 0


def test_published_sizes_are_known():
    # The paper's table 3 gives 65 and 213 million with a vocabulary of about 37,000; GPT-2's small model has 124.4.
    vocabulary = {"source_vocabulary": 37000, "target_vocabulary": 37000}
    base, big = (costs(TransformerConfig.preset(f"paper-{name}", **vocabulary), 64, 30, 30) for name in ("base", "big"))
    options = {"position": "learned", "norm_placement": "pre", "activation": "gelu-tanh", "tied_embeddings": "output"}
    sizes = {"d_model": 768, "n_heads": 12, "d_ff": 3072, "max_length": 1024}
    gpt2 = costs(TransformerConfig.one_stack("decoder-only", 50257, 12, **sizes, **options), 1, 0, 1024)
    assert [round(each.parameter_count / 1e6) for each in (base, big)] == [63, 214]
    assert gpt2.parameter_count == 124_439_808
    # Two operations a weight and token, and the scores (Kaplan et al., 2020, table 1): 2 n (N + layers · n · d).
    matrices = gpt2.parameters["attention"] + gpt2.parameters["feed-forward"] + 50257 * 768
    assert gpt2.forward_flops == pytest.approx(2 * 1024 * (matrices + 2 * 12 * 1024 * 768), rel=1e-3)


REFUSED = [
    (config(), (0, 1, 1), r"batch \(0\) must be at least 1"),
    (config(), (1, 1, 0), r"target \(0\) must be at least 1 token"),
    (one_stack("decoder-only").config, (1, 2, 2), r"source \(2\) must be 0: a model that is decoder-only does not"),
]


@pytest.mark.parametrize(("size", "numbers", "message"), REFUSED)
def test_sizes_that_make_no_sense_are_refused(size, numbers, message):
    with pytest.raises(ValueError, match=message):
        costs(size, *numbers)


def test_fewer_predictions_cost_less_at_the_output_only():
    every, few = (costs(config(), 2, 5, 4, predicted) for predicted in (None, 3))
    assert isinstance(few, Costs)
    assert {name for name in every.flops if every.flops[name] != few.flops[name]} == {"output"}
    assert every.flops["output"] * 3 == few.flops["output"] * 8
    assert every.memory["activations"] - few.memory["activations"] == 4 * 5 * config().vocabulary
