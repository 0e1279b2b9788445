"""Decoder-only models with LayerNorm: GPT-2, GPT-NeoX (Pythia), OPT."""

from __future__ import annotations

from model.checkpoints.convert.family import Family, SourceCheckpoint, UnsupportedError
from model.checkpoints.convert.weight_map import (
    WeightMap,
    modules,
    tensor,
    third,
    third_of_columns,
    third_of_heads,
    transposed,
    without_first,
)
from model.network.config import TransformerConfig

OPT_OFFSET = 2  # the first rows of its table of positions


def _gpt2_options(given: SourceCheckpoint) -> TransformerConfig:
    """Radford et al., 2019."""
    settings = given.settings
    settings.require("scale_attn_weights", True)
    for name in ("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"):
        settings.require(name, False)
    width, tied = settings.count("n_embd", 768), given.tied(True)
    settings.number("embd_pdrop", 0.1)
    return TransformerConfig.one_stack(
        "decoder-only",
        settings.count("vocab_size", 50257),
        settings.count("n_layer", 12),
        d_model=width,
        n_heads=settings.count("n_head", 12),
        d_ff=settings.count("n_inner") if settings.get("n_inner") is not None else 4 * width,
        dropout=settings.number("resid_pdrop", 0.1),
        attention_dropout=settings.number("attn_pdrop", 0.1),
        max_length=settings.count("n_positions", 1024),
        position="learned",
        norm_placement="pre",
        norm_epsilon=settings.number("layer_norm_epsilon", 1e-5),
        scale_embedding=False,
        activation=given.function("activation_function", "gelu_new"),
        **head_options(given, tied),
    )


def _gpt2_plan(given: SourceCheckpoint, config: TransformerConfig) -> WeightMap:
    root = given.prefix
    plan = embedding_and_head(given, config, f"{root}wte.weight", "lm_head.weight")
    plan |= tensor("decoder.embedding.positions.table", f"{root}wpe.weight")
    plan |= modules("decoder.", root, {"norm": "ln_f"}, bias=True)
    for layer in range(config.n_decoder_layers):
        ours, theirs = f"decoder.layers.{layer}.", f"{root}h.{layer}."
        for part, name in enumerate(("query", "key", "value")):
            own = f"{ours}self_attention.{name}"
            plan |= tensor(f"{own}.weight", f"{theirs}attn.c_attn.weight", third_of_columns(part))
            plan |= tensor(f"{own}.bias", f"{theirs}attn.c_attn.bias", third(part))
        linear = {
            "self_attention.output": "attn.c_proj",
            "feed_forward.hidden": "mlp.c_fc",
            "feed_forward.output": "mlp.c_proj",
        }
        plan |= modules(ours, theirs, linear, bias=True, make=transposed)
        norms = {"self_attention_block.norm": "ln_1", "feed_forward_block.norm": "ln_2"}
        plan |= modules(ours, theirs, norms, bias=True)
    return plan


def _neox_options(given: SourceCheckpoint) -> TransformerConfig:
    """Black et al., 2022; Pythia: Biderman et al., 2023."""
    settings = given.settings
    settings.require("is_decoder", False, True)
    width, heads = settings.count("hidden_size", 6144), settings.count("num_attention_heads", 64)
    longest, tied = settings.count("max_position_embeddings", 2048), given.tied(False)
    share = settings.number("rotary_pct", 0.25)
    return TransformerConfig.one_stack(
        "decoder-only",
        settings.count("vocab_size", 50432),
        settings.count("num_hidden_layers", 44),
        d_model=width,
        n_heads=heads,
        d_ff=settings.count("intermediate_size", 24576),
        dropout=settings.number("hidden_dropout", 0.0),
        attention_dropout=settings.number("attention_dropout", 0.0),
        max_length=longest,
        norm_placement="pre",
        norm_epsilon=settings.number("layer_norm_eps", 1e-5),
        parallel=settings.switch("use_parallel_residual", True),
        scale_embedding=False,
        activation=given.function("hidden_act", "gelu"),
        attention_bias="same" if settings.switch("attention_bias", True) else "none",
        **given.rotary(longest, width // heads, share=share),
        **head_options(given, tied),
    )


def _neox_plan(given: SourceCheckpoint, config: TransformerConfig) -> WeightMap:
    root = given.prefix
    head = "lm_head.weight" if given.has("lm_head.weight") else "embed_out.weight"
    plan = embedding_and_head(given, config, f"{root}embed_in.weight", head)
    plan |= modules("decoder.", root, {"norm": "final_layer_norm"}, bias=True)
    biased = config.attention_biases[0]
    for layer in range(config.n_decoder_layers):
        ours, theirs = f"decoder.layers.{layer}.", f"{root}layers.{layer}."
        for part, name in enumerate(("query", "key", "value")):
            packed = {f"self_attention.{name}": "attention.query_key_value"}
            make = third_of_heads(part, config.n_heads)
            plan |= modules(ours, theirs, packed, bias=biased, make=make, of_bias=make)
        plan |= modules(ours, theirs, {"self_attention.output": "attention.dense"}, bias=biased)
        parts = {
            "self_attention_block.norm": "input_layernorm",
            "feed_forward.hidden": "mlp.dense_h_to_4h",
            "feed_forward.output": "mlp.dense_4h_to_h",
            "feed_forward_block.norm": "post_attention_layernorm",
        }
        plan |= modules(ours, theirs, parts, bias=True)
    return plan


def _opt_options(given: SourceCheckpoint) -> TransformerConfig:
    """Zhang et al., 2022; the model of 350 million weights, whose layers differ, is not rebuilt."""
    settings = given.settings
    for name in ("do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine"):
        settings.require(name, True)
    settings.require("_remove_final_layer_norm", False)
    width, tied = settings.count("hidden_size", 768), given.tied(True)
    if settings.get("word_embed_proj_dim") not in (None, width):
        raise UnsupportedError("words have an embedding of another width")
    return TransformerConfig.one_stack(
        "decoder-only",
        settings.count("vocab_size", 50272),
        settings.count("num_hidden_layers", 12),
        d_model=width,
        n_heads=settings.count("num_attention_heads", 12),
        d_ff=settings.count("ffn_dim", 3072),
        dropout=settings.number("dropout", 0.1),
        attention_dropout=settings.number("attention_dropout", 0.0),
        max_length=settings.count("max_position_embeddings", 2048),
        position="learned",
        norm_placement="pre",
        scale_embedding=False,
        activation=given.function("activation_function", "relu"),
        **head_options(given, tied),
    )


def _opt_plan(given: SourceCheckpoint, config: TransformerConfig) -> WeightMap:
    root = f"{given.prefix}decoder."
    plan = embedding_and_head(given, config, f"{root}embed_tokens.weight", "lm_head.weight")
    plan |= tensor("decoder.embedding.positions.table", f"{root}embed_positions.weight", without_first(OPT_OFFSET))
    plan |= modules("decoder.", root, {"norm": "final_layer_norm"}, bias=True)
    parts = {
        **{f"self_attention.{own}": f"self_attn.{own[0]}_proj" for own in ("query", "key", "value")},
        "self_attention.output": "self_attn.out_proj",
        "self_attention_block.norm": "self_attn_layer_norm",
        "feed_forward.hidden": "fc1",
        "feed_forward.output": "fc2",
        "feed_forward_block.norm": "final_layer_norm",
    }
    for layer in range(config.n_decoder_layers):
        plan |= modules(f"decoder.layers.{layer}.", f"{root}layers.{layer}.", parts, bias=True)
    return plan


def head_options(given: SourceCheckpoint, tied: bool) -> dict[str, str]:
    """Of a head that is one matrix, or none. tied: whether it is the embedding."""
    if not given.head:
        return {"output_head": "none", "tied_embeddings": "none"}
    return {"tied_embeddings": "output" if tied else "none"}


def embedding_and_head(given: SourceCheckpoint, config: TransformerConfig, embedding: str, head: str) -> WeightMap:
    """Of a decoder-only model; a tied head may lie in the file as a copy."""
    if config.tied_embeddings == "output":
        return tensor("decoder.embedding.tokens.weight", given.one_of(embedding, head))
    own = {} if config.output_head == "none" else tensor("output.logits.weight", head)
    return tensor("decoder.embedding.tokens.weight", embedding) | own


GPT2 = Family(
    options=_gpt2_options,
    plan=_gpt2_plan,
    headed=("GPT2LMHeadModel",),
    bare=("GPT2Model",),
    prefix="transformer.",
    head="lm_head.",
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
    plan=_neox_plan,
    headed=("GPTNeoXForCausalLM",),
    bare=("GPTNeoXModel",),
    prefix="gpt_neox.",
    head="embed_out.",
    unused=r".*\.attention\.((masked_)?bias|rotary_emb\.inv_freq)",
    renamed={"rope_theta": "rotary_emb_base"},
)
OPT = Family(
    options=_opt_options,
    plan=_opt_plan,
    headed=("OPTForCausalLM",),
    bare=("OPTModel",),
    prefix="model.",
    head="lm_head.",
)
