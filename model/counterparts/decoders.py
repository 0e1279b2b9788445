"""Decoder-only networks as GPT-2, Llama or GPT-NeoX of Hugging Face."""

from __future__ import annotations

from typing import Any

import torch

from model.counterparts.parameters import ACTIVATIONS, Made, Named, Parameters, linear, put


def gpt2_layers(own: Parameters, stack: str, prefix: str, cross: bool) -> Named:
    """Radford et al., 2019: matrices are transposed there, and query, key and value are one."""
    named: Named = {f"{prefix}.wte.weight": own.embedding(stack), f"{prefix}.wpe.weight": own.positions(stack)}
    put(named, own, [(f"{prefix}.ln_f", f"{stack}.norm")])
    for index in range(own.layers(stack)):
        ours, theirs = f"{stack}.layers.{index}", f"{prefix}.h.{index}"
        matrices = [
            (f"{theirs}.attn.c_attn", own.joined(ours, "self_attention", ("query", "key", "value"))),
            (f"{theirs}.attn.c_proj", own.module(f"{ours}.self_attention.output")),
            (f"{theirs}.mlp.c_fc", own.module(f"{ours}.feed_forward.hidden")),
            (f"{theirs}.mlp.c_proj", own.module(f"{ours}.feed_forward.output")),
        ]
        norms = [("ln_1", "self_attention_block.norm"), ("ln_2", "feed_forward_block.norm")]
        if cross:
            matrices += [
                (f"{theirs}.crossattention.q_attn", own.module(f"{ours}.cross_attention.query")),
                (f"{theirs}.crossattention.c_attn", own.joined(ours, "cross_attention", ("key", "value"))),
                (f"{theirs}.crossattention.c_proj", own.module(f"{ours}.cross_attention.output")),
            ]
            norms.append(("ln_cross_attn", "cross_attention_block.norm"))
        for name, (weight, bias) in matrices:
            linear(named, name, weight.T, bias)
        put(named, own, [(f"{theirs}.{name}", f"{ours}.{part}") for name, part in norms])
    return named


def gpt2_config(own: Parameters) -> dict[str, Any]:
    config = own.config
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": config.target_vocabulary,
        "n_embd": config.d_model,
        "n_head": config.n_heads,
        "n_layer": config.n_decoder_layers,
        "n_inner": config.d_ff,
        "n_positions": config.max_length,
        "layer_norm_epsilon": config.norm_epsilon,
        "activation_function": ACTIVATIONS[config.activation],
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "tie_word_embeddings": own.tied,
    }


def gpt2(own: Parameters) -> Made:
    named = gpt2_layers(own, "decoder", "transformer", cross=False)
    return gpt2_config(own), named | ({} if own.tied else {"lm_head.weight": own.output()})


def llama(own: Parameters) -> Made:
    """Touvron et al., 2023."""
    config = own.config
    attention_bias, bias = any(config.attention_biases), config.bias
    named: Named = {"model.embed_tokens.weight": own.embedding("decoder")}
    named |= {"model.norm.weight": own["decoder.norm.weight"]}
    named |= {} if own.tied else {"lm_head.weight": own.output()}
    for index in range(config.n_decoder_layers):
        ours, theirs = f"decoder.layers.{index}", f"model.layers.{index}"
        for name, part in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "output")):
            weight, zero = own.module(f"{ours}.self_attention.{part}", share=False)
            linear(named, f"{theirs}.self_attn.{name}_proj", weight, zero if attention_bias else None)
        for name, part in (("gate", "hidden"), ("up", "linear"), ("down", "output")):
            weight, zero = own.module(f"{ours}.feed_forward.{part}")
            linear(named, f"{theirs}.mlp.{name}_proj", weight, zero if bias else None)
        named[f"{theirs}.input_layernorm.weight"] = own[f"{ours}.self_attention_block.norm.weight"]
        named[f"{theirs}.post_attention_layernorm.weight"] = own[f"{ours}.feed_forward_block.norm.weight"]
    options = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.target_vocabulary,
        "hidden_size": config.d_model,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.d_head,
        "num_hidden_layers": config.n_decoder_layers,
        "intermediate_size": config.d_ff,
        "max_position_embeddings": config.max_length,
        "rms_norm_eps": config.norm_epsilon,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.position_base},
        "rope_theta": config.position_base,  # of transformers before version 5
        "hidden_act": "silu",
        "attention_bias": attention_bias,
        "mlp_bias": bias,
        "attention_dropout": config.attention_dropout,
        "tie_word_embeddings": own.tied,
    }
    return options, named


def gpt_neox(own: Parameters) -> Made:
    """Black et al., 2022: query, key and value of a head stand together, head by head."""
    config = own.config
    named: Named = {"gpt_neox.embed_in.weight": own.embedding("decoder")}
    put(named, own, [("gpt_neox.final_layer_norm", "decoder.norm")])
    named |= {} if own.tied else {"embed_out.weight": own.output()}
    for index in range(config.n_decoder_layers):
        ours, theirs = f"decoder.layers.{index}", f"gpt_neox.layers.{index}"
        parts = [own.module(f"{ours}.self_attention.{part}") for part in ("query", "key", "value")]
        joined = [
            torch.stack([each[place].unflatten(0, (config.n_heads, -1)) for each in parts], 1) for place in (0, 1)
        ]
        linear(named, f"{theirs}.attention.query_key_value", joined[0].flatten(0, 2), joined[1].flatten())
        names = [("attention.dense", "self_attention.output"), ("mlp.dense_h_to_4h", "feed_forward.hidden")]
        names += [("mlp.dense_4h_to_h", "feed_forward.output"), ("input_layernorm", "self_attention_block.norm")]
        names += [("post_attention_layernorm", "feed_forward_block.norm")]
        put(named, own, [(f"{theirs}.{name}", f"{ours}.{part}") for name, part in names])
    share = (config.rotary_channels or config.d_head) / config.d_head
    options = {
        "architectures": ["GPTNeoXForCausalLM"],
        "model_type": "gpt_neox",
        "vocab_size": config.target_vocabulary,
        "hidden_size": config.d_model,
        "num_attention_heads": config.n_heads,
        "num_hidden_layers": config.n_decoder_layers,
        "intermediate_size": config.d_ff,
        "max_position_embeddings": config.max_length,
        "layer_norm_eps": config.norm_epsilon,
        "rotary_pct": share,
        "rotary_emb_base": config.position_base,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": config.position_base,
            "partial_rotary_factor": share,
        },
        "hidden_act": ACTIVATIONS[config.activation],
        "use_parallel_residual": config.parallel,
        "attention_bias": True,
        "attention_dropout": config.attention_dropout,
        "hidden_dropout": config.dropout,
        "tie_word_embeddings": own.tied,
    }
    return options, named
