"""The options of a hosted model in ours."""

from __future__ import annotations

from typing import Any, cast

import torch

from model.hosted.feeding import activation_name
from model.hosted.parts import HostedActivation, HostedConfig, HostedFeedForward
from model.hosted.runner import Runner
from model.hosted.stacks import Built
from model.network.config import NormPlacement

LONGEST = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length")
UNBOUNDED = 2048  # tokens at most, where the model names no length
UNITS = ("intermediate_size", "ffn_dim", "decoder_ffn_dim", "encoder_ffn_dim", "d_ff", "n_inner", "ffn_hidden_size")
GATES = {"silu": "swiglu", "gelu": "geglu", "gelu-tanh": "geglu-tanh"}


def hosted_config(model: Any, runner: Runner, stacks: list[Built]) -> HostedConfig:
    """The model in our options, from what was found in it, and from its config only where that says nothing."""
    text = model.config.get_text_config()
    last = stacks[-1]
    own = {each.name: each for each in stacks}
    layer = last.layers[-1]
    attention = last.attention
    network = layer.parts.get("feed_forward")
    norms = [norm for each in stacks for norm in each.norms]
    width = layer.layer.x.shape[-1]
    heads, shared = attention.counts
    return HostedConfig(
        source_vocabulary=_vocabulary(runner.encoder, text) if "encoder" in own else 0,
        target_vocabulary=_vocabulary(runner.decoder, text) if "decoder" in own else 0,
        d_model=width,
        n_heads=heads,
        n_key_value_heads=None if shared == heads else shared,
        head_width=_head_width(layer.parts["self_attention"], layer, text),
        n_encoder_layers=len(own["encoder"].layers) if "encoder" in own else 0,
        n_decoder_layers=len(own["decoder"].layers) if "decoder" in own else 0,
        d_ff=_units(network, text, width),
        dropout=0.0,
        max_length=_longest(text),
        position=_position(text, last),
        embedding_norm=last.embedding_norm,
        norm="none" if not norms else "layer" if norms[0].centred else "rms",
        norm_placement=cast(NormPlacement, layer.placement),
        parallel=layer.parallel,
        norm_epsilon=norms[0].eps if norms else 1e-5,
        scale_embedding=last.factor != 1,
        activation=_activation(network, text),
        output_head="none" if runner.bare else "linear",
        tied_embeddings="output" if getattr(model.config, "tie_word_embeddings", False) else "none",
    )


def _vocabulary(stack: Any, text: Any) -> int:
    """Of one stack: those of an EncoderDecoderModel have a config each."""
    size = getattr(getattr(stack, "config", None), "vocab_size", None)
    return size if isinstance(size, int) else int(text.vocab_size)


def _head_width(attention: Any, layer: Any, text: Any) -> int | None:
    seen = next((event.attention for event, _s, shadow in layer.tells if shadow is attention), None)
    if seen is not None and seen.call is not None:
        return int(seen.call.query.shape[-1])
    width = getattr(text, "head_dim", None)
    return width if isinstance(width, int) else None


def _units(network: Any, text: Any, width: int) -> int:
    if isinstance(network, HostedFeedForward):
        return network.hidden.out_features
    found = (getattr(text, name, None) for name in UNITS)
    return next((each for each in found if isinstance(each, int)), 4 * width)


def _longest(text: Any) -> int:
    found = (getattr(text, name, None) for name in LONGEST)
    return next((each for each in found if isinstance(each, int) and each > 0), UNBOUNDED)


def _position(text: Any, built: Built) -> Any:
    """How tokens get positions: by what was added to them, else by what the config speaks of."""
    if built.position:
        return built.position
    if not built.attention.outside and "biased" in built.attention.maps:
        return "relative"
    if getattr(text, "alibi", False):
        return "alibi"
    turned = ("rope_parameters", "rope_theta", "rotary_dim", "rotary_emb_base")
    return "rotary" if any(getattr(text, name, None) is not None for name in turned) else "other"


def _activation(network: Any, text: Any) -> Any:
    if not isinstance(network, HostedFeedForward):
        return "relu"
    grid = torch.linspace(-4, 4, 33)
    function = cast(HostedActivation, network.activation).function
    name = activation_name(function, grid)
    return GATES.get(name, "swiglu") if hasattr(network, "gated") else name or "gelu"
