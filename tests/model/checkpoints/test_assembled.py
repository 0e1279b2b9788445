"""A network put around weights is the one that takes them in, without having drawn any."""

import pytest
import torch

from model.checkpoints.assembled import assembled
from model.runtime.errors import CheckpointError
from tests.model.examples import SOURCE, network, one_stack


def weights_of(model):
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
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
def test_it_is_the_network_that_the_weights_come_from(options, dtype):
    model = network(**options).to(dtype)
    weights, before = weights_of(model), torch.get_rng_state()
    made = assembled(model.config, weights, dtype=dtype)
    assert torch.equal(torch.get_rng_state(), before)  # nothing was drawn
    assert made.parameter_count() == model.parameter_count()  # so ties are kept
    assert not made.training
    assert not any(parameter.requires_grad or parameter.is_meta for parameter in made.parameters())
    tables = [{name: table.dtype for name, table in each.named_buffers()} for each in (made, model)]
    assert tables[0] == tables[1]
    with torch.inference_mode():
        assert torch.equal(made(SOURCE, SOURCE[:, :3]), model(SOURCE, SOURCE[:, :3]))
        made.get_parameter("decoder.layers.0.feed_forward.hidden.weight").zero_()
        assert weights["decoder.layers.0.feed_forward.hidden.weight"].abs().sum() > 0  # a copy


@pytest.mark.parametrize("name", ["decoder.embedding.tokens.weight", "output.logits.weight"])
def test_a_tied_matrix_may_have_either_name(name):
    saved = network(tied_embeddings="output")
    weights = weights_of(saved)
    weights[name] = weights.pop("decoder.embedding.tokens.weight")
    made = assembled(saved.config, weights)
    assert torch.equal(made(SOURCE, SOURCE[:, :3]), saved(SOURCE, SOURCE[:, :3]))
    assert made.output.logits.weight is made.decoder.embedding.tokens.weight


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_weights_that_do_not_fit_are_refused_in_a_sentence():
    model = one_stack("decoder-only")
    weights = weights_of(model)
    first, matrix = next(iter(weights.items()))
    changes = [
        ({name: weights[name] for name in weights if name != first}, f"the weights lack {first}"),
        (weights | {"strange": torch.zeros(1)}, "the weights hold strange"),
        (weights | {first: torch.zeros(1, 2)}, rf"{first} has shape \(1, 2\), the config asks for"),
    ]
    for dtype in (torch.complex64, torch.float4_e2m1fn_x2):
        sentence = f"{first} is of type {str(dtype)[6:]}, with which no network computes"
        changes.append((weights | {first: torch.empty(matrix.shape, dtype=dtype)}, sentence))
    for changed, sentence in changes:
        with pytest.raises(CheckpointError, match=sentence):
            assembled(model.config, changed)
