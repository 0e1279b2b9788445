"""Decoder-only models with RMSNorm, rotary positions and gates: Llama, Mistral, Qwen2, Qwen3, Gemma."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from model.checkpoints.convert.family import Family, SettingsTable, SourceCheckpoint, UnsupportedError
from model.checkpoints.convert.gpt import LM_HEAD, head_options
from model.checkpoints.convert.weight_map import Table, one_more, source
from model.network.config import TransformerConfig

LLAMA_SETTINGS: SettingsTable = {
    "vocabulary": ("vocab_size", 32000),
    "n_layers": ("num_hidden_layers", 32),
    "d_model": ("hidden_size", 4096),
    "n_heads": ("num_attention_heads", 32),
    "d_ff": ("intermediate_size", 11008),
    "attention_dropout": ("attention_dropout", 0.0),
    "max_length": ("max_position_embeddings", 2048),
    "norm_epsilon": ("rms_norm_eps", 1e-6),
}
LLAMA_WEIGHTS: Table = {
    "decoder.embedding.tokens": "embed_tokens",
    "decoder.layers.{}.self_attention.query": "layers.{}.self_attn.q_proj",
    "decoder.layers.{}.self_attention.query.norm": "layers.{}.self_attn.q_norm",
    "decoder.layers.{}.self_attention.key": "layers.{}.self_attn.k_proj",
    "decoder.layers.{}.self_attention.key.norm": "layers.{}.self_attn.k_norm",
    "decoder.layers.{}.self_attention.value": "layers.{}.self_attn.v_proj",
    "decoder.layers.{}.self_attention.output": "layers.{}.self_attn.o_proj",
    "decoder.layers.{}.self_attention_block.norm": "layers.{}.input_layernorm",
    "decoder.layers.{}.feed_forward.hidden": "layers.{}.mlp.gate_proj",
    "decoder.layers.{}.feed_forward.linear": "layers.{}.mlp.up_proj",
    "decoder.layers.{}.feed_forward.output": "layers.{}.mlp.down_proj",
    "decoder.layers.{}.feed_forward_block.norm": "layers.{}.post_attention_layernorm",
    "decoder.norm": "norm",
}


def _options(
    checkpoint: SourceCheckpoint,
    usual: Mapping[str, int],
    kv_heads: int | None = None,
    head_width: int | None = None,
    tied: bool = False,
    **more: Any,
) -> TransformerConfig:
    """Config of a checkpoint. usual: defaults of sizes that are not Llama's. kv_heads, head_width, tied: defaults of
    the number of heads of keys and values (None: as many as heads), of their width (None: d_model / heads), and of
    tie_word_embeddings. more: options of one family alone.
    """
    sizes = {option: (name, usual.get(option, value)) for option, (name, value) in LLAMA_SETTINGS.items()}
    options = checkpoint.options(sizes)
    width, heads = options["d_model"], options["n_heads"]
    shared = checkpoint.count_or("num_key_value_heads", kv_heads, heads)
    head = checkpoint.count_or("head_dim", head_width, width // heads)
    common: dict[str, Any] = {
        "scale_embedding": False,
        "bias": False,
        "activation": checkpoint.gate("hidden_act", "silu"),
        **checkpoint.rotary(options["max_length"], head),
        **head_options(checkpoint, tied),
    }
    return TransformerConfig.one_stack(
        "decoder-only",
        n_key_value_heads=None if shared == heads else shared,
        head_width=None if head * heads == width else head,
        dropout=0.0,
        norm="rms",
        norm_placement="pre",
        **(options | common | more),
    )


def _attention_bias(checkpoint: SourceCheckpoint) -> str:
    return "all" if checkpoint.settings.switch("attention_bias", False) else "none"


def _llama(checkpoint: SourceCheckpoint) -> TransformerConfig:
    """Touvron et al., 2023; Llama 3: Grattafiori et al., 2024."""
    bias = checkpoint.settings.switch("mlp_bias", False)
    return _options(checkpoint, {}, bias=bias, attention_bias=_attention_bias(checkpoint))


def _mistral(checkpoint: SourceCheckpoint) -> TransformerConfig:
    """Jiang et al., 2023, section 2."""
    windowed = checkpoint.settings.get("sliding_window", 4096) is not None
    window = checkpoint.settings.count("sliding_window", 4096) if windowed else None
    return _options(checkpoint, {"d_ff": 14336, "max_length": 131072}, kv_heads=8, window=window)


def _window(checkpoint: SourceCheckpoint) -> int | None:
    """Width of the window of Qwen's layers, in tokens; None: they have none.

    Raises:
        UnsupportedError: only some layers have a window.
    """
    settings = checkpoint.settings
    layers = settings.count("num_hidden_layers", 32)
    used, first = settings.switch("use_sliding_window", False), settings.get("max_window_layers", 28)
    width, types = settings.get("sliding_window", 4096), settings.get("layer_types")
    if types is None:
        windowed = [used and width is not None and layer >= first for layer in range(layers)]
        types = ["sliding_attention" if window else "full_attention" for window in windowed]
    if types == ["full_attention"] * layers:
        return None
    if types != ["sliding_attention"] * layers or not used or width is None:
        raise UnsupportedError("layers differ in their window")
    return settings.count("sliding_window", 4096)


QWEN = {"vocabulary": 151936, "d_ff": 22016, "max_length": 32768}


def _qwen2(checkpoint: SourceCheckpoint) -> TransformerConfig:
    """Yang et al., 2024: biases on queries, keys and values alone."""
    return _options(checkpoint, QWEN, kv_heads=32, window=_window(checkpoint), attention_bias="inputs")


def _qwen3(checkpoint: SourceCheckpoint) -> TransformerConfig:
    """Yang et al., 2025: queries and keys normalised head by head."""
    more: dict[str, Any] = {"window": _window(checkpoint), "attention_bias": _attention_bias(checkpoint)}
    return _options(checkpoint, QWEN, kv_heads=32, head_width=128, qk_norm=True, **more)


def _gemma(checkpoint: SourceCheckpoint) -> TransformerConfig:
    """Gemma Team, 2024: embeddings times √d, γ + 1. "gelu" in its config.json has always meant the tanh form."""
    checkpoint.settings.require("use_bidirectional_attention", None, False)
    checkpoint.settings.require("hidden_activation", "gelu_pytorch_tanh", None)
    checkpoint.settings.require("hidden_act", "gelu_pytorch_tanh", "gelu")
    usual = {"vocabulary": 256000, "d_model": 3072, "d_ff": 24576, "n_layers": 28, "n_heads": 16, "max_length": 8192}
    more = {"activation": "geglu-tanh", "scale_embedding": True, "attention_bias": _attention_bias(checkpoint)}
    return _options(checkpoint, usual, kv_heads=16, head_width=256, tied=True, **more)


def _family(
    name: str, options: Callable[[SourceCheckpoint], TransformerConfig], weights: Table = LLAMA_WEIGHTS
) -> Family:
    return Family(
        options=options,
        weights={**weights, **LM_HEAD},
        headed=(f"{name}ForCausalLM",),
        bare=(f"{name}Model",),
        prefix="model.",
        head=("lm_head.",),
        unused=r".*rotary_emb\.inv_freq",
    )


LLAMA, MISTRAL = _family("Llama", _llama), _family("Mistral", _mistral)
QWEN2, QWEN3 = _family("Qwen2", _qwen2), _family("Qwen3", _qwen3)
GEMMA_WEIGHTS: Table = {
    ours: replace(source(row), make=one_more) if ours.endswith("norm") else row for ours, row in LLAMA_WEIGHTS.items()
}
GEMMA = _family("Gemma", _gemma, GEMMA_WEIGHTS)
