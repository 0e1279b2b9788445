"""The residual stream against what the recorded blocks add up to, and against the formulas of where norms stand."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from model.analysis import residual
from tests.model.examples import network, one_stack, traced

OPTIONS = [
    {"norm_placement": "post"},
    {"norm_placement": "pre"},
    {"norm_placement": "sandwich", "norm": "rms"},
    {"norm_placement": "sandwich", "norm": "none"},
    {"norm_placement": "post", "norm": "none"},
    {"norm_placement": "pre", "residual": False},
    {"norm_placement": "pre", "parallel": True},
    {"norm_placement": "post", "n_encoder_layers": 1, "n_decoder_layers": 3},
]


def part_of(trace):
    """The feed-forward block of the encoder's second layer."""
    return residual.blocks(trace.network.config, "encoder")[3]


@pytest.mark.parametrize("options", OPTIONS)
def test_every_state_is_the_one_before_and_what_its_block_adds(options):
    trace = traced(network(**options))
    config = trace.network.config
    assert residual.stacks(config) == ["encoder", "decoder"]
    for stack in residual.stacks(config):
        parts = residual.blocks(config, stack)
        layers = config.n_encoder_layers if stack == "encoder" else config.n_decoder_layers
        assert len(parts) == layers * (2 if stack == "encoder" else 3)
        assert residual.sum_error(trace, config, parts) < 1e-5
        final = "norm.input" if config.norm != "none" and config.norm_placement != "post" else None
        if final:
            assert torch.equal(trace[parts[-1].after], trace[f"{stack}.{final}"])
        for part in parts:
            block = f"{stack}.layers.{part.layer}.{part.sublayer}_block"
            read = trace[part.before]
            if part.sublayer == "self_attention":
                entered = read
            if config.norm_placement == "pre":  # the norm reads the stream, or what entered the layer
                assert torch.equal(entered if config.parallel else read, trace[f"{block}.norm.input"])
            total = read + trace[part.added] if config.residual else trace[part.added]
            assert_close(total, trace[f"{block}.residual"])


def test_a_wrong_sum_is_found():
    trace = traced(network(norm_placement="pre"))
    parts = residual.blocks(trace.network.config, "encoder")
    wrong = trace._tensors[parts[1].added].clone()
    wrong[0, 2, 3] += 0.5
    trace._tensors[parts[1].added] = wrong
    assert residual.sum_error(trace, trace.network.config, parts) == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("kind", ["decoder-only", "encoder-only"])
def test_a_model_of_one_stack_has_no_cross_attention(kind):
    model = one_stack(kind)
    (stack,) = residual.stacks(model.config)
    assert stack == kind.split("-")[0]
    parts = residual.blocks(model.config, stack)
    assert [part.sublayer for part in parts] == ["self_attention", "feed_forward"] * 2
    assert residual.stream(traced(model).__getitem__, residual.states(parts)).shape == (5, 5, 16)


def test_contributions_and_cosines_are_the_formulas():
    trace = traced(network(norm_placement="pre"))
    parts = residual.blocks(trace.network.config, "decoder")
    share, cosine = residual.contributions(trace.__getitem__, parts)
    for row, part in enumerate(parts):
        x, y = trace[part.before].double(), trace[part.added].double()
        assert_close(share[row].double(), y.norm(dim=-1) / x.norm(dim=-1), rtol=1e-5, atol=0)
        assert_close(cosine[row].double(), F.cosine_similarity(x, y, dim=-1), rtol=0, atol=1e-6)
    both = residual.stream(trace.__getitem__, residual.states(parts))
    found = residual.cosines(both)
    assert found.shape == (7, 7)
    assert_close(found.diagonal(), torch.ones(7))
    assert float(found[1, 4]) == pytest.approx(float(F.cosine_similarity(both[1], both[4], dim=-1).mean()), abs=1e-6)
    both[:, 1] = torch.nan  # a token that the pinned text has not
    known = F.cosine_similarity(both[1, [0, 2]], both[4, [0, 2]], dim=-1).mean()
    assert float(residual.cosines(both)[1, 4]) == pytest.approx(float(known), abs=1e-6)


def test_nothing_is_compared_with_what_is_not_there():
    parts = residual.blocks(network().config, "encoder")
    assert residual.stream(lambda name: None, residual.states(parts)) is None
    assert residual.contributions(lambda name: None, parts) is None


@pytest.mark.parametrize("own", ["post", "pre"])
def test_the_models_own_placement_gives_what_was_recorded_and_the_wrong_one_does_not(own):
    trace = traced(network(norm_placement=own))
    part = part_of(trace)
    x = trace[part.before]
    made = residual.placements(trace.network, part, x, trace[part.read])
    assert part.read == part.before
    assert residual.relative(made[own], trace[part.after]) < 1e-6
    assert residual.relative(made["wrong"], trace[part.after]) > 0.1
    layer = trace.network.encoder.layers[1]
    norm = layer.feed_forward_block.norm
    with torch.inference_mode():
        normal = F.layer_norm(x, (16,), norm.weight, norm.bias)
        assert_close(made["wrong"], layer.feed_forward(x[None])[0] + normal)
        assert_close(made["pre"], x + layer.feed_forward(normal[None])[0])


@pytest.mark.parametrize("own", ["post", "pre", "sandwich"])
def test_a_parallel_block_reads_what_enters_its_layer(own):
    trace = traced(network(norm_placement=own, parallel=True))
    part = part_of(trace)
    x, read = trace[part.before], trace[part.read]
    assert_close(
        read, trace[residual.states(residual.blocks(trace.network.config, "encoder"))[2]]
    )  # after the two blocks of layer 0
    made = residual.placements(trace.network, part, x, read)
    assert residual.relative(made["parallel"], trace[part.after]) < 1e-6
    assert all(residual.relative(made[name], trace[part.after]) > 1e-3 for name in ("post", "pre", "wrong"))
