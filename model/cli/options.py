"""Command-line options made from the fields of TransformerConfig and TrainingSettings."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from model.network.config import CHOICES, TransformerConfig
from model.training.settings import SETTING_CHOICES, TrainingSettings

HELP = {
    "d_model": "width of the residual stream; even, and divisible by the heads",
    "n_heads": "attention heads of each layer",
    "n_key_value_heads": "heads of keys and values, shared in groups by the others; 1: multi-query",
    "n_encoder_layers": "layers that read the source",
    "n_decoder_layers": "layers that write the target",
    "d_ff": "units of each feed-forward block",
    "dropout": "share of each block's output that is dropped while training",
    "attention_dropout": "the same for the attention weights",
    "activation_dropout": "the same for the feed-forward units",
    "max_length": "longest source or target, in tokens",
    "position": "how the model knows where a token stands",
    "position_base": "base of the sinusoidal or rotary wavelengths",
    "position_buckets": "relative positions: how many distances, or ranges of them, have a bias for each head",
    "position_reach": "relative positions: all that is farther shares one bias",
    "rotary_channels": "rotary positions turn so many channels of each head; without a number, all",
    "rotary_stretch": "rotary positions: long wavelengths times this, to reach farther than was trained",
    "rotary_short": "wavelengths below this, in tokens, are not stretched",
    "rotary_long": "wavelengths above this, in tokens, are stretched wholly; those between by and by",
    "window": "self-attention reaches so many tokens, its own counted",
    "separator": "encoder-only: id of the token behind which a second text begins, whose tokens get one vector more",
    "embedding_norm": "a norm on what enters a stack",
    "heads": "split d_model among the heads, or give each its full width",
    "head_width": "channels of each head, where that is not d_model divided by the heads",
    "qk_norm": "RMSNorm on each head's queries and keys",
    "norm": "LayerNorm as in torch, as in textbooks (population or sample deviation), RMSNorm, or none",
    "norm_placement": "norm after each block, as in the paper, before it, or both (sandwich)",
    "last_norm": "one more norm at the end of a post-norm stack, as torch.nn.Transformer has",
    "residual": "add each block's output to its input",
    "parallel": "all blocks of a layer read what enters it, not what the one before has written",
    "norm_epsilon": "added to the variance in a norm, to the deviation in the textbook's",
    "scale_embedding": "multiply embeddings by the square root of d_model",
    "scale_attention": "divide scores by the square root of a head's width",
    "activation": "of the feed-forward units; swiglu and geglu gate them",
    "tied_embeddings": "share the target's embedding with the output, the source (inputs), or both (all)",
    "bias": "biases in linear layers and norms",
    "attention_bias": "where attentions have biases: as elsewhere (same), on query, key and value (inputs), on their "
    "output, or on all",
    "output_head": "what makes the logits: one matrix, a layer and a norm before it (transform), or nothing (none)",
    "output_bias": "a bias on each logit",
    "scale_output": "divide what the output reads by the square root of d_model",
    **{field.name: field.metadata["help"] for field in dataclasses.fields(TrainingSettings)},
}
KINDS = {"int": int, "float": float, "int | None": int}


def add_network_options(group: Any) -> None:
    """Add an option for each field of the config but vocabularies; values not given are those of the preset."""
    for field in dataclasses.fields(TransformerConfig):
        if not field.name.endswith("_vocabulary"):
            _add(group, field, CHOICES)


def add_training_options(group: Any) -> None:
    """Add an option for each setting; those not given are missing from the namespace."""
    for field in dataclasses.fields(TrainingSettings):
        _add(group, field, SETTING_CHOICES, f" (default: {field.default})")


def settings_of(options: argparse.Namespace) -> TrainingSettings:
    """Settings with the given options.

    Raises:
        ValueError: a setting is out of its range.
    """
    return TrainingSettings(**_given(options, TrainingSettings))


def network_options(options: argparse.Namespace) -> dict[str, Any]:
    """Given options of the network by field."""
    return _given(options, TransformerConfig)


def _given(options: argparse.Namespace, kind: type[TransformerConfig] | type[TrainingSettings]) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(kind)]
    return {name: getattr(options, name) for name in names if hasattr(options, name)}


def _add(group: Any, field: dataclasses.Field[Any], choices: dict[str, tuple[str, ...]], more: str = "") -> None:
    flag, text, default = "--" + field.name.replace("_", "-"), HELP[field.name] + more, argparse.SUPPRESS
    if field.type == "bool":
        group.add_argument(flag, action=argparse.BooleanOptionalAction, default=default, help=text)
    else:
        kind = KINDS.get(str(field.type), str)
        group.add_argument(flag, type=kind, default=default, choices=choices.get(field.name), help=text)
