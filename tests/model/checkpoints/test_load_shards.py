"""A network put around weights is the one that takes them in, without having drawn any."""

import pytest
import torch

from model.checkpoints.load import assembled
from model.runtime.errors import CheckpointError
from tests.model.examples import network, one_stack

SOURCE, TARGET = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[1, 4, 9]])


@pytest.mark.parametrize(
    "options",
    [
        {"tied_embeddings": "output"},
        {"position": "relative", "target_vocabulary": 11, "tied_embeddings": "all"},
        {"position": "sinusoidal-halves"},
        {"position": "alibi"},
        {"position": "rotary", "qk_norm": True},
    ],
    ids=str,
)
def test_it_is_the_network_that_the_weights_come_from(options):
    model = network(**options)
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    before = torch.get_rng_state()
    made = assembled(model.config, weights)
    assert torch.equal(torch.get_rng_state(), before)  # nothing was drawn
    assert made.parameter_count() == model.parameter_count()  # so ties are kept
    assert not made.training
    assert not any(parameter.requires_grad or parameter.is_meta for parameter in made.parameters())
    with torch.inference_mode():
        assert torch.equal(made(SOURCE, TARGET), model(SOURCE, TARGET))
        made.get_parameter("decoder.layers.0.feed_forward.hidden.weight").zero_()
        assert weights["decoder.layers.0.feed_forward.hidden.weight"].abs().sum() > 0  # a copy


def test_in_another_precision_the_tables_are_so_too():
    model = network().double()
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    made = assembled(model.config, weights, dtype=torch.float64)
    assert made.encoder.embedding.positions.table.dtype == torch.float64
    with torch.inference_mode():
        assert torch.equal(made(SOURCE, TARGET), model(SOURCE, TARGET))


def test_weights_that_do_not_fit_are_refused_in_a_sentence():
    model = one_stack("decoder-only")
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    first = next(iter(weights))
    with pytest.raises(CheckpointError, match=f"the weights lack {first}"):
        assembled(model.config, {name: weights[name] for name in weights if name != first})
    with pytest.raises(CheckpointError, match="the weights hold strange"):
        assembled(model.config, weights | {"strange": torch.zeros(1)})
    with pytest.raises(CheckpointError, match=rf"{first} has shape \(1, 2\), the config asks for"):
        assembled(model.config, weights | {first: torch.zeros(1, 2)})


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", [torch.complex64, torch.float4_e2m1fn_x2])
def test_weights_that_no_network_computes_with_are_refused_by_name(dtype):
    model = one_stack("decoder-only")
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    first = next(iter(weights))
    weights[first] = torch.empty(weights[first].shape, dtype=dtype)
    with pytest.raises(CheckpointError, match=f"{first} is of type {str(dtype)[6:]}, with which no network computes"):
        assembled(model.config, weights)
