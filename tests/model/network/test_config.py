"""TransformerConfig: what it refuses, what it keeps."""

import dataclasses
import json
import re

import pytest
from hypothesis import given

from model.message import field_of
from model.network.config import PRESETS, TransformerConfig
from tests.model.network.any_config import configs

VOCABULARIES = {"source_vocabulary": 100, "target_vocabulary": 100}


REFUSED = [
    ("source_vocabulary", {"source_vocabulary": 0}, "source_vocabulary (0) must be at least 1"),
    ("d_model", {"d_model": 7, "n_heads": 1}, "d_model (7) must be even"),
    ("d_model", {"d_model": 64, "n_heads": 5}, "d_model (64) must be divisible by n_heads (5)"),
    ("target_vocabulary", {"target_vocabulary": -1}, "target_vocabulary (-1) must be at least 1"),
    ("source_vocabulary", {"n_encoder_layers": 0}, "source_vocabulary (100) must be 0 where n_encoder_layers is 0"),
    ("target_vocabulary", {"n_decoder_layers": 0}, "target_vocabulary (100) must be 0 where n_decoder_layers is 0"),
    (
        "n_encoder_layers",
        {"n_encoder_layers": 0, "n_decoder_layers": 0},
        "n_encoder_layers (0) and n_decoder_layers (0): one of them",
    ),
    ("n_heads", {"n_key_value_heads": 3}, "n_heads (8) must be divisible by n_key_value_heads (3)"),
    ("position", {"position": "rotary", "d_model": 12, "n_heads": 4}, "a head's width (3) must be even"),
    ("", {"width": 3}, "width is not an option"),
    ("parallel", {"parallel": True, "residual": False}, "parallel needs residual"),
    ("head_width", {"head_width": 8, "heads": "full"}, "head_width (8) must be left out where heads is 'full'"),
    ("position", {"position": "rotary", "head_width": 7}, "a head's width (7) must be even"),
    (
        "rotary_channels",
        {"position": "rotary", "rotary_channels": 66},
        "rotary_channels (66) must be at most a head's width (64)",
    ),
    ("rotary_channels", {"position": "rotary", "rotary_channels": 3}, "rotary_channels (3) must be even"),
    ("rotary_short", {"rotary_short": 3.0}, "rotary_short (3.0) must be at most rotary_long (0.0)"),
    ("position_reach", {"position_reach": 16}, "position_reach (16) must be above half of position_buckets (32)"),
    (
        "output_bias",
        {"output_head": "none", "output_bias": True},
        "output_bias must not be set where output_head is 'none'",
    ),
    (
        "tied_embeddings",
        {"output_head": "none", "tied_embeddings": "all"},
        "tied_embeddings ('all') must not be set where output_head",
    ),
    ("scale_output", {"output_head": "transform", "scale_output": True}, "scale_output needs output_head 'linear'"),
    (
        "tied_embeddings",
        {"tied_embeddings": "all", "target_vocabulary": 99},
        "source_vocabulary (100) must equal target_vocabulary (99)",
    ),
]


@pytest.mark.parametrize(("field", "options", "message"), REFUSED, ids=str)
def test_an_error_names_the_value_and_the_rule_and_is_about_a_field(field, options, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        TransformerConfig.from_dict(VOCABULARIES | options)
    assert field_of(error.value, TransformerConfig.option_names()) == field


def test_the_vocabulary_sizes_must_be_given():
    with pytest.raises(ValueError, match="target_vocabulary must be given"):
        TransformerConfig.from_dict({"source_vocabulary": 10})


def test_it_is_frozen_and_keyword_only():
    config = TransformerConfig(**VOCABULARIES)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 64
    with pytest.raises(TypeError):
        TransformerConfig(100, 100)


@given(configs())
def test_json_brings_back_the_same_config(config):
    text = config.to_json()
    assert TransformerConfig.from_json(text) == config
    assert json.loads(text) == dataclasses.asdict(config)


SIDES = [
    ("encoder-only", "source_vocabulary", "n_encoder_layers"),
    ("decoder-only", "target_vocabulary", "n_decoder_layers"),
]


@pytest.mark.parametrize(("kind", "side", "stack"), SIDES)
def test_one_stack_has_nothing_of_the_other(kind, side, stack):
    config = TransformerConfig.one_stack(kind, 40, 3, d_model=32, tied_embeddings="all")
    assert (config.kind, config.vocabulary) == (kind, 40)
    sizes = [name for name in dataclasses.asdict(config) if name.endswith(("_vocabulary", "coder_layers"))]
    assert {name: getattr(config, name) for name in sizes if getattr(config, name)} == {side: 40, stack: 3}
    assert TransformerConfig.from_json(config.to_json()) == config
    with pytest.raises(ValueError, match=r"'encoder-decoder'.* must be one of encoder-only, decoder-only"):
        TransformerConfig.one_stack("encoder-decoder", 40, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[1]", "must be a JSON object, not list"),
        ('{"source_vocabulary": 10, "target_vocabulary": 10, "dropout": NaN}', "dropout (nan)"),
        ('{"source_vocabulary": 10, "target_vocabulary": 10, "layers": 2}', "layers is not an option"),
    ],
)
def test_json_that_is_no_config_is_refused(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        TransformerConfig.from_json(text)


@pytest.mark.parametrize(
    ("name", "d_model", "n_heads", "d_ff", "dropout"),
    [("paper-base", 512, 8, 2048, 0.1), ("paper-big", 1024, 16, 4096, 0.3)],
)
def test_presets_are_those_of_table_3(name, d_model, n_heads, d_ff, dropout):
    config = TransformerConfig.preset(name, **VOCABULARIES)
    expected = {"n_encoder_layers": 6, "n_decoder_layers": 6, "d_model": d_model, "n_heads": n_heads, "d_ff": d_ff}
    expected |= {"dropout": dropout, "attention_dropout": 0, "activation_dropout": 0}
    expected |= {"norm_placement": "post", "activation": "relu", "position": "sinusoidal", "position_base": 10_000}
    expected |= {"scale_embedding": True, "scale_attention": True}
    expected |= {"tied_embeddings": "all"}  # section 3.4: one matrix for both embeddings and the output
    assert expected.items() <= dataclasses.asdict(config).items()
    assert config.d_head == 64


def test_every_preset_takes_options_on_top():
    for name in PRESETS:
        assert TransformerConfig.preset(name, **VOCABULARIES, d_ff=96).d_ff == 96
    with pytest.raises(ValueError, match="preset 'huge' is not known: choose one of paper-base"):
        TransformerConfig.preset("huge", **VOCABULARIES)
