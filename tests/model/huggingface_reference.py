"""Tiny published models of Hugging Face with random weights in float64, and the same weights in our network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
)

from model.network.config import TransformerConfig
from model.network.transformer import Network, build

PADDING, START, END = 0, 1, 2
VOCABULARY, WIDTH, HEADS, UNITS, LAYERS, LENGTH = 17, 16, 4, 24, 2, 12
SIZES = {"d_model": WIDTH, "n_heads": HEADS, "d_ff": UNITS, "max_length": LENGTH, "dropout": 0.0}

Get = Callable[[str], Tensor]  # a weight, or a gradient, of theirs by its name
Named = dict[str, Tensor]


@dataclass
class Twins:
    """theirs and ours with the same weights. `named` turns their weights or gradients into ours: a linear map."""

    theirs: Any
    ours: Network
    named: Callable[[Get], Named]


class Doubled:
    """torch, with float64 where a module asks for float32.

    Llama's norm, softmax and rotary angles are computed in float32 whatever the model's precision. With this in place
    of `torch` its own code runs unchanged, in float64 throughout.
    """

    float32 = float = torch.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def twins(theirs: Any, config: TransformerConfig, named: Callable[[Get], Named]) -> Twins:
    theirs = theirs.double().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.requires_grad:  # Marian's positions are fixed
                parameter.add_(torch.randn_like(parameter) * 0.2)  # biases and norms too: none can hide an error
    ours = build(config).double().eval()
    ours.load_weights(named(dict(theirs.named_parameters()).__getitem__))
    return Twins(theirs, ours, named)


def _of(get: Get, ours: str, theirs: str, *parts: str) -> Named:
    """Weights and biases of a module under our name."""
    return {f"{ours}.{part}": get(f"{theirs}.{part}") for part in parts or ("weight", "bias")}


def gpt2() -> Twins:
    sizes = {"n_embd": WIDTH, "n_head": HEADS, "n_inner": UNITS, "n_layer": LAYERS, "n_positions": LENGTH}
    tokens = {"vocab_size": VOCABULARY, "pad_token_id": PADDING, "bos_token_id": START, "eos_token_id": END}
    options = {"position": "learned", "norm_placement": "pre", "activation": "gelu-tanh", "scale_embedding": False}
    config = TransformerConfig.one_stack(
        "decoder-only", VOCABULARY, LAYERS, tied_embeddings="output", **SIZES, **options
    )
    return twins(
        GPT2LMHeadModel._from_config(GPT2Config(**sizes, **tokens), attn_implementation="eager"), config, _gpt2
    )


def _gpt2(get: Get) -> Named:
    def transposed(ours: str, theirs: str) -> Named:
        return {f"{ours}.weight": get(f"{theirs}.weight").T, f"{ours}.bias": get(f"{theirs}.bias")}

    named = {"decoder.embedding.tokens.weight": get("transformer.wte.weight")}
    named |= {"decoder.embedding.positions.table": get("transformer.wpe.weight")}
    named |= _of(get, "decoder.norm", "transformer.ln_f")
    for index in range(LAYERS):
        ours, theirs = f"decoder.layers.{index}", f"transformer.h.{index}"
        weights = get(f"{theirs}.attn.c_attn.weight").T.chunk(3)
        biases = get(f"{theirs}.attn.c_attn.bias").chunk(3)
        for part, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
            named |= {f"{ours}.self_attention.{part}.weight": weight, f"{ours}.self_attention.{part}.bias": bias}
        named |= transposed(f"{ours}.self_attention.output", f"{theirs}.attn.c_proj")
        named |= transposed(f"{ours}.feed_forward.hidden", f"{theirs}.mlp.c_fc")
        named |= transposed(f"{ours}.feed_forward.output", f"{theirs}.mlp.c_proj")
        named |= _of(get, f"{ours}.self_attention_block.norm", f"{theirs}.ln_1")
        named |= _of(get, f"{ours}.feed_forward_block.norm", f"{theirs}.ln_2")
    return named


def bert() -> Twins:
    """All but the head: BERT's has a layer of its own before the logits. Ours is set to zero and not used."""
    sizes = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS}
    sizes |= {"intermediate_size": UNITS, "max_position_embeddings": LENGTH, "vocab_size": VOCABULARY}
    options = {"position": "learned", "activation": "gelu", "embedding_norm": True, "norm_epsilon": 1e-12}
    config = TransformerConfig.one_stack(
        "encoder-only", VOCABULARY, LAYERS, scale_embedding=False, tied_embeddings="output", **SIZES, **options
    )
    theirs = BertModel._from_config(
        BertConfig(**sizes, pad_token_id=PADDING), attn_implementation="eager", add_pooling_layer=False
    )
    made = twins(theirs, config, _bert)
    with torch.no_grad():  # every token is of type 0, which has a vector of its own
        made.ours.get_parameter("encoder.embedding.positions.table").add_(
            theirs.embeddings.token_type_embeddings.weight[0]
        )
    return made


def _bert(get: Get) -> Named:
    named = {"encoder.embedding.tokens.weight": get("embeddings.word_embeddings.weight")}
    named |= {"encoder.embedding.positions.table": get("embeddings.position_embeddings.weight")}
    named |= _of(get, "encoder.embedding.output.norm", "embeddings.LayerNorm")
    for index in range(LAYERS):
        ours, theirs = f"encoder.layers.{index}", f"encoder.layer.{index}"
        for part in ("query", "key", "value"):
            named |= _of(get, f"{ours}.self_attention.{part}", f"{theirs}.attention.self.{part}")
        named |= _of(get, f"{ours}.self_attention.output", f"{theirs}.attention.output.dense")
        named |= _of(get, f"{ours}.self_attention_block.norm", f"{theirs}.attention.output.LayerNorm")
        named |= _of(get, f"{ours}.feed_forward.hidden", f"{theirs}.intermediate.dense")
        named |= _of(get, f"{ours}.feed_forward.output", f"{theirs}.output.dense")
        named |= _of(get, f"{ours}.feed_forward_block.norm", f"{theirs}.output.LayerNorm")
    return named


def llama() -> Twins:
    """Call this, and what it makes, with `torch` of Hugging Face's module replaced by `Doubled()`."""
    sizes = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS}
    sizes |= {"intermediate_size": UNITS, "max_position_embeddings": LENGTH, "vocab_size": VOCABULARY}
    tokens = {"pad_token_id": PADDING, "bos_token_id": START, "eos_token_id": END}
    options = {"position": "rotary", "norm": "rms", "norm_placement": "pre", "activation": "swiglu", "bias": False}
    config = TransformerConfig.one_stack(
        "decoder-only",
        VOCABULARY,
        LAYERS,
        n_key_value_heads=2,
        scale_embedding=False,
        norm_epsilon=1e-6,
        **SIZES,
        **options,
    )
    theirs = LlamaForCausalLM._from_config(
        LlamaConfig(**sizes, **tokens, num_key_value_heads=2, rms_norm_eps=1e-6), attn_implementation="eager"
    )
    return twins(theirs, config, _llama)


def _llama(get: Get) -> Named:
    named = {"decoder.embedding.tokens.weight": get("model.embed_tokens.weight")}
    named |= {"decoder.norm.weight": get("model.norm.weight"), "output.logits.weight": get("lm_head.weight")}
    parts = {
        "self_attention.query": "self_attn.q_proj",
        "self_attention.key": "self_attn.k_proj",
        "self_attention.value": "self_attn.v_proj",
        "self_attention.output": "self_attn.o_proj",
        "self_attention_block.norm": "input_layernorm",
        "feed_forward.hidden": "mlp.gate_proj",
        "feed_forward.linear": "mlp.up_proj",
        "feed_forward.output": "mlp.down_proj",
        "feed_forward_block.norm": "post_attention_layernorm",
    }
    for index in range(LAYERS):
        for ours, theirs in parts.items():
            named |= _of(get, f"decoder.layers.{index}.{ours}", f"model.layers.{index}.{theirs}", "weight")
    return named


def marian() -> Twins:
    sizes = {"d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "max_position_embeddings": LENGTH}
    sizes |= {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "vocab_size": VOCABULARY}
    sizes |= {"encoder_ffn_dim": UNITS, "decoder_ffn_dim": UNITS}
    # Marian begins to write with its padding token, whose embedding does not learn; here with one that does.
    tokens = {"pad_token_id": PADDING, "decoder_start_token_id": START, "eos_token_id": END}
    theirs = MarianMTModel._from_config(
        MarianConfig(
            **sizes, **tokens, forced_eos_token_id=None, activation_function="swish", scale_embedding=True, dropout=0.0
        ),
        attn_implementation="eager",
    )
    config = TransformerConfig(
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        n_encoder_layers=LAYERS,
        n_decoder_layers=LAYERS,
        activation="silu",
        position="learned",  # the paper's curves, the sines before the cosines
        tied_embeddings="all",
        **SIZES,
    )
    return twins(theirs, config, _marian)


def _marian(get: Get) -> Named:
    named = {"encoder.embedding.tokens.weight": get("model.shared.weight")}
    for stack in ("encoder", "decoder"):
        named[f"{stack}.embedding.positions.table"] = get(f"model.{stack}.embed_positions.weight")
        for index in range(LAYERS):
            ours, theirs = f"{stack}.layers.{index}", f"model.{stack}.layers.{index}"
            attentions = {"self_attention": "self_attn"}
            attentions |= {"cross_attention": "encoder_attn"} if stack == "decoder" else {}
            for attention, other in attentions.items():
                for part, name in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "out")):
                    named |= _of(get, f"{ours}.{attention}.{part}", f"{theirs}.{other}.{name}_proj")
                named |= _of(get, f"{ours}.{attention}_block.norm", f"{theirs}.{other}_layer_norm")
            named |= _of(get, f"{ours}.feed_forward.hidden", f"{theirs}.fc1")
            named |= _of(get, f"{ours}.feed_forward.output", f"{theirs}.fc2")
            named |= _of(get, f"{ours}.feed_forward_block.norm", f"{theirs}.final_layer_norm")
    return named
