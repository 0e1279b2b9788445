"""The same weights with other positions: against a network built and loaded in the ordinary way."""

import dataclasses
import re

import pytest
import torch
from torch.testing import assert_close

from model.analysis.checks import checks
from model.checkpoints.assembled import assembled
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.inference.copies import LONGEST, vary
from tests.model.examples import one_stack
from tests.model.network.test_kinds import TOKENIZERS
from tests.viz.small import write_small

TEXT = "The cat sees the dog."
OPTIONS = [
    {},
    {"tied_embeddings": "output", "n_key_value_heads": 1, "qk_norm": True},
    {"norm": "rms", "activation": "swiglu", "position": "rotary", "n_encoder_layers": 1},
    {"position": "rotary", "rotary_channels": 2, "rotary_stretch": 2.0, "parallel": True},
]


def two_stacks(folder, **options):
    return open_checkpoint(write_small(folder, **options))


def language_model(folder, **options):
    made = TOKENIZERS["decoder-only"]
    save_checkpoint(folder, one_stack("decoder-only", vocabulary=len(made), **options), (made, made))
    return open_checkpoint(folder)


def rebuilt(model, **changes):
    """The same from scratch: a network of the changed config, its parameters copied by name."""
    config = dataclasses.replace(model.config, **changes)
    weights = {name: each for name, each in model.network.named_parameters() if not name.endswith(".positions.table")}
    return assembled(config, weights)


@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "alibi", "none"])
@pytest.mark.parametrize("options", OPTIONS)
def test_it_computes_what_a_network_of_that_config_computes(tmp_path, options, position):
    model = two_stacks(tmp_path / "a", **options)
    changes = {"position": position, "position_base": 50.0, "max_length": 200}
    varied = vary(model, **changes)
    source, target = model.source_tokens(TEXT), model.target_tokens("")
    trace = varied.trace_tokens(source, target)
    with torch.inference_mode():
        expected = rebuilt(model, **changes)(torch.tensor([source.ids]), torch.tensor([target.ids]))
    assert_close(trace["output.logits"], expected[0])
    assert all(check.passed for check in checks(trace))
    assert varied.config == dataclasses.replace(model.config, **changes)


def test_the_weights_are_shared_and_the_checkpoint_stays_as_it_was(tmp_path):
    model = two_stacks(tmp_path / "a", tied_embeddings="output")
    before = model.trace(TEXT)["output.logits"].clone()
    generator = torch.get_rng_state()
    varied = vary(model, position="rotary")
    assert torch.equal(torch.get_rng_state(), generator)
    own = {id(each) for each in model.network.parameters()}
    assert {id(each) for each in varied.network.parameters()} == own
    assert varied.network.parameter_count() == model.network.parameter_count()
    assert varied.network.output.logits.weight is varied.network.decoder.embedding.tokens.weight
    assert not torch.equal(varied.trace(TEXT, "")["output.logits"], model.trace(TEXT, "")["output.logits"])
    assert torch.equal(model.trace(TEXT)["output.logits"], before)
    assert model.config.position == "sinusoidal"
    assert not any(each.requires_grad for network in (model.network, varied.network) for each in network.parameters())


def test_what_is_asked_for_as_trained_is_the_checkpoint_itself(tmp_path):
    model = two_stacks(tmp_path / "a")
    assert vary(model) is model
    assert vary(model, position="sinusoidal", position_base=10_000.0, max_length=32) is model


def test_a_longer_input_than_trained_on_is_read(tmp_path):
    model = language_model(tmp_path / "a")
    text = "The cat sees. " * 6
    assert model.source_tokens(text).left_out > 0
    varied = vary(model, max_length=100)
    tokens = varied.source_tokens(text)
    assert (len(tokens), tokens.left_out) == (len(text) + 1, 0)
    assert varied.trace(text)["output.logits"].shape[0] == len(tokens)
    assert varied.generate(text, length=5).ids


def test_learned_positions_are_kept_cut_or_left_out(tmp_path):
    model = language_model(tmp_path / "a", position="learned", max_length=32)
    shorter = vary(model, max_length=8)
    table = model.network.decoder.embedding.positions.table
    assert torch.equal(shorter.network.decoder.embedding.positions.table, table[:8])
    assert not shorter.network.decoder.embedding.positions.table.requires_grad
    assert_close(shorter.trace("The c")["output.logits"], model.trace("The c")["output.logits"])
    without = vary(model, position="none", max_length=64).network
    assert not [name for name, _ in without.named_parameters() if "positions" in name]
    with pytest.raises(ValueError, match=r"max_length \(33\) is above 32: the learned positions of a end there"):
        vary(model, max_length=33)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position": "learned"}, "a has no learned positions: it was trained with sinusoidal"),
        ({"position_base": 0.0}, "position_base (0.0) must be greater than 0"),
        ({"position_base": 1e-9}, "position_base (1e-09) must be between 0.001 and 1e+12"),
        ({"position_base": float("nan")}, "position_base (nan) must be a finite number"),
        ({"max_length": LONGEST + 1}, "max_length (4097) must be at most 4096"),
        ({"max_length": 0}, "max_length (0) must be at least 1"),
    ],
)
def test_impossible_wishes_are_sentences(tmp_path, changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        vary(two_stacks(tmp_path / "a"), **changes)


def test_heads_of_odd_width_cannot_be_turned(tmp_path):
    model = two_stacks(tmp_path / "a", d_model=18, n_heads=2)
    with pytest.raises(ValueError, match=r"a head's width \(9\) must be even"):
        vary(model, position="rotary")


def test_learned_distances_are_left_out_and_only_taken_where_they_are(tmp_path):
    model = two_stacks(tmp_path / "a", position="relative", position_buckets=4, position_reach=9)
    varied = vary(model, position="none")
    assert not any(".biased." in name for name, _parameter in varied.network.named_parameters())
    assert "biased" not in varied.trace(TEXT, "").maps_of("encoder.layers.0.self_attention")
    longer = vary(model, max_length=500)
    shared = longer.network.get_parameter("encoder.layers.1.self_attention.biased.table")
    assert shared is longer.network.get_parameter("encoder.layers.0.self_attention.biased.table")
    assert shared is model.network.get_parameter("encoder.layers.0.self_attention.biased.table")
    with pytest.raises(ValueError, match=r"has no encoder.layers.0.*, which positions of type relative need"):
        vary(two_stacks(tmp_path / "b"), position="relative")
