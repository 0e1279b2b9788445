"""What a TransformerConfig must keep to; each rule that is broken names the value and the rule."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model.config import TransformerConfig

LEAST = {"d_model": 1, "n_heads": 1, "d_ff": 1, "max_length": 1, "position_buckets": 4, "position_reach": 1}
OPTIONAL = ("n_key_value_heads", "window", "head_width", "rotary_channels")
SWITCHES = (
    *("residual", "parallel", "qk_norm", "embedding_norm", "last_norm", "scale_embedding", "scale_attention"),
    *("bias", "output_bias", "scale_output"),
)
RATES = ("dropout", "attention_dropout", "activation_dropout")


def require_valid(config: TransformerConfig) -> None:
    """Every number and switch is of its kind and in its range, and they go together.

    Raises:
        ValueError: one is not; the message names the value and the rule.
    """
    for name, least in LEAST.items():
        _require_count(name, getattr(config, name), least)
    for name in OPTIONAL:
        if getattr(config, name) is not None:
            _require_count(name, getattr(config, name), 1)
    for name in ("n_encoder_layers", "n_decoder_layers"):
        _require_count(name, getattr(config, name), 0)
    _require_stacks(config)
    for name in RATES:
        rate = _require_number(name, getattr(config, name))
        if not 0 <= rate < 1:
            raise ValueError(f"{name} ({rate}) must be at least 0 and below 1")
    for name in SWITCHES:
        if not isinstance(getattr(config, name), bool):
            raise ValueError(f"{name} ({getattr(config, name)!r}) must be true or false")
    for name in ("position_base", "norm_epsilon", "rotary_stretch"):
        if _require_number(name, getattr(config, name)) <= 0:
            raise ValueError(f"{name} ({getattr(config, name)}) must be greater than 0")
    if config.parallel and not config.residual:
        raise ValueError("parallel needs residual: without it, only the last block of a layer would go on")
    _require_heads(config)
    _require_positions(config)
    _require_embeddings(config)


def _require_stacks(config: TransformerConfig) -> None:
    if config.n_encoder_layers == config.n_decoder_layers == 0:
        raise ValueError("n_encoder_layers (0) and n_decoder_layers (0): one of them must be at least 1")
    for stack, side in (("encoder", "source"), ("decoder", "target")):
        name, layers = f"{side}_vocabulary", f"n_{stack}_layers"
        _require_count(name, getattr(config, name), 1 if getattr(config, layers) else 0)
        if getattr(config, name) and not getattr(config, layers):
            raise ValueError(f"{name} ({getattr(config, name)}) must be 0 where {layers} is 0: nothing reads it")

    if config.kind == "encoder-only" and config.max_length < 3:
        raise ValueError(f"max_length ({config.max_length}) must be at least 3: a text stands between <s> and </s>")


def _require_heads(config: TransformerConfig) -> None:
    if config.d_model % 2:
        raise ValueError(f"d_model ({config.d_model}) must be even: sinusoidal positions pair a sine with a cosine")
    if config.heads == "full" and config.head_width is not None:
        raise ValueError(f"head_width ({config.head_width}) must be left out where heads is 'full': that is d_model")
    if config.heads == "split" and config.head_width is None and config.d_model % config.n_heads:
        raise ValueError(f"d_model ({config.d_model}) must be divisible by n_heads ({config.n_heads})")
    if config.n_heads % config.kv_heads:
        raise ValueError(f"n_heads ({config.n_heads}) must be divisible by n_key_value_heads ({config.kv_heads})")


def _require_positions(config: TransformerConfig) -> None:
    turned = config.rotary_channels or config.d_head
    if config.position == "rotary" and turned > config.d_head:
        raise ValueError(f"rotary_channels ({turned}) must be at most a head's width ({config.d_head})")
    if config.position == "rotary" and turned % 2:
        what = "a head's width" if config.rotary_channels is None else "rotary_channels"
        raise ValueError(f"{what} ({turned}) must be even: rotary positions turn pairs of channels")
    for name in ("rotary_short", "rotary_long"):
        if _require_number(name, getattr(config, name)) < 0:
            raise ValueError(f"{name} ({getattr(config, name)}) must be at least 0")
    if config.rotary_short > config.rotary_long:
        raise ValueError(f"rotary_short ({config.rotary_short}) must be at most rotary_long ({config.rotary_long})")
    if config.position_reach <= config.position_buckets // 2:
        raise ValueError(
            f"position_reach ({config.position_reach}) must be above half of position_buckets "
            f"({config.position_buckets}): so many distances have a bucket of their own"
        )


def _require_embeddings(config: TransformerConfig) -> None:
    one_matrix = config.tied_embeddings in ("inputs", "all") and config.kind == "encoder-decoder"
    if one_matrix and config.source_vocabulary != config.target_vocabulary:
        raise ValueError(
            f"tied_embeddings {config.tied_embeddings!r} needs one vocabulary: "
            f"source_vocabulary ({config.source_vocabulary}) must equal target_vocabulary ({config.target_vocabulary})"
        )
    if config.output_head == "none" and (config.tied_embeddings in ("output", "all") or config.output_bias):
        what = "output_bias" if config.output_bias else f"tied_embeddings ({config.tied_embeddings!r})"
        raise ValueError(f"{what} must not be set where output_head is 'none': there are no logits")
    if config.scale_output and config.output_head != "linear":
        raise ValueError(f"scale_output needs output_head 'linear', and it is {config.output_head!r}")


def _require_count(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} ({value!r}) must be a whole number")
    if value < least:
        raise ValueError(f"{name} ({value}) must be at least {least}")


def _require_number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} ({value!r}) must be a finite number")
    return value
