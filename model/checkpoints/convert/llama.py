"""Decoder-only models with RMSNorm, rotary positions and gates: Llama, Mistral, Qwen2, Qwen3, Gemma."""

from __future__ import annotations

from functools import partial
from typing import Any

from model.checkpoints.convert.family import Family, SourceCheckpoint, UnsupportedError
from model.checkpoints.convert.gpt import embedding_and_head, head_options
from model.checkpoints.convert.weight_map import WeightMap, modules, one_more, same
from model.network.config import TransformerConfig

# The config classes' own values, where config.json leaves them out.
BASE = {"vocabulary": 32000, "width": 4096, "units": 11008, "layers": 32, "heads": 32, "longest": 2048}


def _options(given: SourceCheckpoint, usual: dict[str, int], tied: bool = False, **more: Any) -> TransformerConfig:
    """What all have. usual: sizes where config.json has none; `shared`: heads of keys and values, 0: as many as heads;
    `head`: a head's width, 0: width / heads. tied: whether the output is the embedding where config.json does not say.
    more: options of the one family.
    """
    settings, usual = given.settings, BASE | {"shared": 0, "head": 0} | usual
    width, heads = settings.count("hidden_size", usual["width"]), settings.count("num_attention_heads", usual["heads"])
    shared = given.count_or("num_key_value_heads", usual["shared"] or None, heads)
    head = given.count_or("head_dim", usual["head"] or None, width // heads)
    longest = settings.count("max_position_embeddings", usual["longest"])
    common: dict[str, Any] = {
        "scale_embedding": False,
        "bias": False,
        "activation": given.gate("hidden_act", "silu"),
        **given.rotary(longest, head),
        **head_options(given, given.tied(tied)),
    }
    return TransformerConfig.one_stack(
        "decoder-only",
        settings.count("vocab_size", usual["vocabulary"]),
        settings.count("num_hidden_layers", usual["layers"]),
        d_model=width,
        n_heads=heads,
        n_key_value_heads=None if shared == heads else shared,
        head_width=None if head * heads == width else head,
        d_ff=settings.count("intermediate_size", usual["units"]),
        dropout=0.0,
        attention_dropout=settings.number("attention_dropout", 0.0),
        max_length=longest,
        norm="rms",
        norm_placement="pre",
        norm_epsilon=settings.number("rms_norm_eps", 1e-6),
        **(common | more),
    )


def _biased(given: SourceCheckpoint, *names: str) -> list[bool]:
    return [given.settings.switch(name, False) for name in names]


def _llama(given: SourceCheckpoint) -> TransformerConfig:
    """Touvron et al., 2023; Llama 3: Grattafiori et al., 2024."""
    attention, feed_forward = _biased(given, "attention_bias", "mlp_bias")
    return _options(given, {}, bias=feed_forward, attention_bias="all" if attention else "none")


def _mistral(given: SourceCheckpoint) -> TransformerConfig:
    """Jiang et al., 2023, section 2."""
    window = given.settings.get("sliding_window", 4096)
    usual = {"units": 14336, "shared": 8, "longest": 131072}
    return _options(given, usual, window=None if window is None else given.settings.count("sliding_window", 4096))


def _window(given: SourceCheckpoint) -> int | None:
    """Qwen's: in all layers or in none; where only some have it, the model is not rebuilt."""
    settings = given.settings
    layers = settings.count("num_hidden_layers", BASE["layers"])
    used, first = settings.switch("use_sliding_window", False), settings.get("max_window_layers", 28)
    width, types = settings.get("sliding_window", 4096), settings.get("layer_types")
    if types is None:
        windowed = [used and width is not None and layer >= first for layer in range(layers)]
        types = ["sliding_attention" if each else "full_attention" for each in windowed]
    if types == ["full_attention"] * layers:
        return None
    if types != ["sliding_attention"] * layers or not used or width is None:
        raise UnsupportedError("layers differ in their window")
    return settings.count("sliding_window", 4096)


QWEN = {"vocabulary": 151936, "units": 22016, "shared": 32, "longest": 32768}


def _qwen2(given: SourceCheckpoint) -> TransformerConfig:
    """Yang et al., 2024: biases on queries, keys and values alone."""
    return _options(given, QWEN, window=_window(given), attention_bias="inputs")


def _qwen3(given: SourceCheckpoint) -> TransformerConfig:
    """Yang et al., 2025: queries and keys normalised head by head."""
    (biased,) = _biased(given, "attention_bias")
    bias = "all" if biased else "none"
    return _options(given, QWEN | {"head": 128}, window=_window(given), qk_norm=True, attention_bias=bias)


def _gemma(given: SourceCheckpoint) -> TransformerConfig:
    """Gemma Team, 2024: embeddings times √d, γ + 1. "gelu" in its config.json has always meant the tanh form."""
    given.settings.require("use_bidirectional_attention", None, False)
    given.settings.require("hidden_activation", "gelu_pytorch_tanh", None)
    given.settings.require("hidden_act", "gelu_pytorch_tanh", "gelu")
    (biased,) = _biased(given, "attention_bias")
    usual = {"vocabulary": 256000, "width": 3072, "units": 24576, "layers": 28, "heads": 16, "shared": 16}
    usual |= {"head": 256, "longest": 8192}
    bias = "all" if biased else "none"
    more: dict[str, Any] = {"activation": "geglu-tanh", "scale_embedding": True, "attention_bias": bias}
    return _options(given, usual, tied=True, **more)


def _plan(given: SourceCheckpoint, config: TransformerConfig, normed: Any = same) -> WeightMap:
    root = given.prefix
    plan = embedding_and_head(given, config, f"{root}embed_tokens.weight", "lm_head.weight")
    plan |= modules("decoder.", root, {"norm": "norm"}, bias=False, make=normed)
    attention = {f"self_attention.{own}": f"self_attn.{own[0]}_proj" for own in ("query", "key", "value")}
    lengths = {f"self_attention.{own}.norm": f"self_attn.{own[0]}_norm" for own in ("query", "key")}
    feed_forward = {
        "feed_forward.hidden": "mlp.gate_proj",
        "feed_forward.linear": "mlp.up_proj",
        "feed_forward.output": "mlp.down_proj",
    }
    norms = {"self_attention_block.norm": "input_layernorm", "feed_forward_block.norm": "post_attention_layernorm"}
    inputs_biased, output_biased = config.attention_biases
    for layer in range(config.n_decoder_layers):
        ours, theirs = f"decoder.layers.{layer}.", f"{root}layers.{layer}."
        plan |= modules(ours, theirs, attention, bias=inputs_biased)
        plan |= modules(ours, theirs, {"self_attention.output": "self_attn.o_proj"}, bias=output_biased)
        plan |= modules(ours, theirs, feed_forward, bias=config.bias)
        plan |= modules(ours, theirs, norms, bias=False, make=normed)
        plan |= modules(ours, theirs, lengths, bias=False) if config.qk_norm else {}
    return plan


def _family(name: str, options: Any, plan: Any = _plan) -> Family:
    return Family(
        options=options,
        plan=plan,
        headed=(f"{name}ForCausalLM",),
        bare=(f"{name}Model",),
        prefix="model.",
        head="lm_head.",
        unused=r".*rotary_emb\.inv_freq",
    )


LLAMA, MISTRAL = _family("Llama", _llama), _family("Mistral", _mistral)
QWEN2, QWEN3 = _family("Qwen2", _qwen2), _family("Qwen3", _qwen3)
GEMMA = _family("Gemma", _gemma, partial(_plan, normed=one_more))
