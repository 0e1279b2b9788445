"""Decoder-only models with LayerNorm: GPT-2, GPT-NeoX (Pythia), OPT."""

from __future__ import annotations

from functools import partial
from typing import Any

from model.checkpoints.convert.bart import stack_weights
from model.checkpoints.convert.family import Family, SettingsTable, SourceCheckpoint, UnsupportedError
from model.checkpoints.convert.weight_map import (
    Columns,
    HeadRows,
    Table,
    WeightSource,
    packed,
)
from model.network.config import TransformerConfig

LM_HEAD: Table = {"output.logits": "lm_head"}
GPT2_SETTINGS: SettingsTable = {
    "vocabulary": ("vocab_size", 50257),
    "n_layers": ("n_layer", 12),
    "d_model": ("n_embd", 768),
    "n_heads": ("n_head", 12),
    "dropout": ("resid_pdrop", 0.1),
    "attention_dropout": ("attn_pdrop", 0.1),
    "max_length": ("n_positions", 1024),
    "norm_epsilon": ("layer_norm_epsilon", 1e-5),
    "activation": ("activation_function", "gelu_new"),
}
GPT2_WEIGHTS: Table = {
    "decoder.embedding.tokens": "wte",
    "decoder.embedding.positions.table": "wpe.weight",
    **packed("decoder.layers.{}.self_attention", "h.{}.attn.c_attn", partial(Columns, parts=3)),
    "decoder.layers.{}.self_attention.output": WeightSource(("h.{}.attn.c_proj",), Columns()),
    "decoder.layers.{}.self_attention_block.norm": "h.{}.ln_1",
    "decoder.layers.{}.cross_attention.query": WeightSource(("h.{}.crossattention.q_attn",), Columns()),
    "decoder.layers.{}.cross_attention.key": WeightSource(("h.{}.crossattention.c_attn",), Columns(0, 2)),
    "decoder.layers.{}.cross_attention.value": WeightSource(("h.{}.crossattention.c_attn",), Columns(1, 2)),
    "decoder.layers.{}.cross_attention.output": WeightSource(("h.{}.crossattention.c_proj",), Columns()),
    "decoder.layers.{}.cross_attention_block.norm": "h.{}.ln_cross_attn",
    "decoder.layers.{}.feed_forward.hidden": WeightSource(("h.{}.mlp.c_fc",), Columns()),
    "decoder.layers.{}.feed_forward.output": WeightSource(("h.{}.mlp.c_proj",), Columns()),
    "decoder.layers.{}.feed_forward_block.norm": "h.{}.ln_2",
    "decoder.norm": "ln_f",
}


def _gpt2_options(checkpoint: SourceCheckpoint) -> TransformerConfig:
    """Radford et al., 2019."""
    settings = checkpoint.settings
    settings.require("scale_attn_weights", True)
    for name in ("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"):
        settings.require(name, False)
    settings.number("embd_pdrop", 0.1)
    options = checkpoint.options(GPT2_SETTINGS)
    return TransformerConfig.one_stack(
        "decoder-only",
        d_ff=settings.count("n_inner") if settings.get("n_inner") is not None else 4 * options["d_model"],
        position="learned",
        norm_placement="pre",
        scale_embedding=False,
        **options,
        **head_options(checkpoint, tied=True),
    )


NEOX_SETTINGS: SettingsTable = {
    "vocabulary": ("vocab_size", 50432),
    "n_layers": ("num_hidden_layers", 44),
    "d_model": ("hidden_size", 6144),
    "n_heads": ("num_attention_heads", 64),
    "d_ff": ("intermediate_size", 24576),
    "dropout": ("hidden_dropout", 0.0),
    "attention_dropout": ("attention_dropout", 0.0),
    "max_length": ("max_position_embeddings", 2048),
    "norm_epsilon": ("layer_norm_eps", 1e-5),
    "parallel": ("use_parallel_residual", True),
    "activation": ("hidden_act", "gelu"),
}


def neox_weights(config: TransformerConfig) -> Table:
    """Table of all modules but the output head, which depends on the number of heads."""
    layout = partial(HeadRows, heads=config.n_heads)
    return {
        "decoder.embedding.tokens": "embed_in",
        **packed("decoder.layers.{}.self_attention", "layers.{}.attention.query_key_value", layout),
        "decoder.layers.{}.self_attention.output": "layers.{}.attention.dense",
        "decoder.layers.{}.self_attention_block.norm": "layers.{}.input_layernorm",
        "decoder.layers.{}.feed_forward.hidden": "layers.{}.mlp.dense_h_to_4h",
        "decoder.layers.{}.feed_forward.output": "layers.{}.mlp.dense_4h_to_h",
        "decoder.layers.{}.feed_forward_block.norm": "layers.{}.post_attention_layernorm",
        "decoder.norm": "final_layer_norm",
    }


def _neox_options(checkpoint: SourceCheckpoint) -> TransformerConfig:
    """Black et al., 2022; Pythia: Biderman et al., 2023."""
    settings = checkpoint.settings
    settings.require("is_decoder", False, True)
    options = checkpoint.options(NEOX_SETTINGS)
    share = settings.number("rotary_pct", 0.25)
    rotary = checkpoint.rotary(options["max_length"], options["d_model"] // options["n_heads"], share=share)
    return TransformerConfig.one_stack(
        "decoder-only",
        norm_placement="pre",
        scale_embedding=False,
        attention_bias="same" if settings.switch("attention_bias", True) else "none",
        **(options | rotary),
        **head_options(checkpoint, tied=False),
    )


OPT_SETTINGS: SettingsTable = {
    "vocabulary": ("vocab_size", 50272),
    "n_layers": ("num_hidden_layers", 12),
    "d_model": ("hidden_size", 768),
    "n_heads": ("num_attention_heads", 12),
    "d_ff": ("ffn_dim", 3072),
    "dropout": ("dropout", 0.1),
    "attention_dropout": ("attention_dropout", 0.0),
    "max_length": ("max_position_embeddings", 2048),
    "activation": ("activation_function", "relu"),
}
OPT_WEIGHTS: Table = {
    "decoder.embedding.tokens": "decoder.embed_tokens",
    **stack_weights("decoder", first=2),
    "decoder.norm": "decoder.final_layer_norm",
    **LM_HEAD,
}


def _opt_options(checkpoint: SourceCheckpoint) -> TransformerConfig:
    """Zhang et al., 2022; the model of 350 million weights, whose layers differ, is not rebuilt."""
    settings = checkpoint.settings
    for name in ("do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine"):
        settings.require(name, True)
    settings.require("_remove_final_layer_norm", False)
    options = checkpoint.options(OPT_SETTINGS)
    if settings.get("word_embed_proj_dim") not in (None, options["d_model"]):
        raise UnsupportedError("words have an embedding of another width")
    return TransformerConfig.one_stack(
        "decoder-only",
        position="learned",
        norm_placement="pre",
        scale_embedding=False,
        **options,
        **head_options(checkpoint, tied=True),
    )


def head_options(checkpoint: SourceCheckpoint, tied: bool) -> dict[str, Any]:
    """Options of `TransformerConfig` for a head that is one matrix, or none. tied: default of tie_word_embeddings."""
    tied = checkpoint.tied(tied)
    if not checkpoint.head:
        return {"output_head": "none", "tied_embeddings": "none"}
    return {"tied_embeddings": "output" if tied else "none"}


GPT2 = Family(
    options=_gpt2_options,
    weights={**GPT2_WEIGHTS, **LM_HEAD},
    headed=("GPT2LMHeadModel",),
    bare=("GPT2Model",),
    prefix="transformer.",
    head=("lm_head.",),
    unused=r".*\.attn\.(masked_)?bias",
    renamed={
        "n_embd": "hidden_size",
        "n_positions": "max_position_embeddings",
        "n_head": "num_attention_heads",
        "n_layer": "num_hidden_layers",
    },
)
GPT_NEOX = Family(
    options=_neox_options,
    weights=lambda _checkpoint, config: {
        **neox_weights(config),
        "output.logits.weight": WeightSource(("embed_out.weight",), copies=("lm_head.weight",)),
    },
    headed=("GPTNeoXForCausalLM",),
    bare=("GPTNeoXModel",),
    prefix="gpt_neox.",
    head=("embed_out.", "lm_head."),
    unused=r".*\.attention\.((masked_)?bias|rotary_emb\.inv_freq)",
    renamed={"rope_theta": "rotary_emb_base"},
)
OPT = Family(
    options=_opt_options,
    weights=OPT_WEIGHTS,
    headed=("OPTForCausalLM",),
    bare=("OPTModel",),
    prefix="model.",
    head=("lm_head.",),
)
