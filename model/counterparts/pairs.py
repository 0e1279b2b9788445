"""Encoder-decoder networks as Marian of Hugging Face; pre-norm ones as Megatron's BERT, at which a GPT-2 looks."""

from __future__ import annotations

from model.counterparts.decoders import gpt2_config, gpt2_layers
from model.counterparts.encoders import bert_config, bert_layers, pooler
from model.counterparts.parameters import ACTIVATIONS, Made, Named, Parameters, put


def marian(own: Parameters) -> Made:
    """Junczys-Dowmunt et al., 2018. Its curves have the sines first: ours, where they are mixed, change places."""
    config = own.config
    own = own.with_sines_first() if config.position == "sinusoidal" else own
    named: Named = {"lm_head.weight": own.output()}
    named["final_logits_bias"] = own.module("output.logits")[1][None]
    for stack in ("encoder", "decoder"):
        named[f"model.{stack}.embed_tokens.weight"] = own.embedding(stack, scaled=False)
        for index in range(own.layers(stack)):
            ours, theirs = f"{stack}.layers.{index}", f"model.{stack}.layers.{index}"
            attentions = {"self_attention": "self_attn"}
            attentions |= {"cross_attention": "encoder_attn"} if stack == "decoder" else {}
            names = [("fc1", "feed_forward.hidden"), ("fc2", "feed_forward.output")]
            names.append(("final_layer_norm", "feed_forward_block.norm"))
            for attention, name in attentions.items():
                names.append((f"{name}_layer_norm", f"{attention}_block.norm"))
                for letter, part in (("q", "query"), ("k", "key"), ("v", "value"), ("out", "output")):
                    names.append((f"{name}.{letter}_proj", f"{attention}.{part}"))
            put(named, own, [(f"{theirs}.{name}", f"{ours}.{part}") for name, part in names])
    options = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": config.source_vocabulary,
        "decoder_vocab_size": config.target_vocabulary,
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
        "d_model": config.d_model,
        "encoder_layers": config.n_encoder_layers,
        "decoder_layers": config.n_decoder_layers,
        "encoder_attention_heads": config.n_heads,
        "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "max_position_embeddings": config.max_length,
        "activation_function": ACTIVATIONS[config.activation],
        "scale_embedding": config.scale_embedding,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "forced_eos_token_id": None,
    }
    return options, named


def bert_to_gpt2(own: Parameters) -> Made:
    """Two families side by side (Rothe et al., 2020): an encoder with its norms before the blocks, and a GPT-2."""
    named = {f"encoder.{name}": tensor for name, tensor in (bert_layers(own, "") | pooler(own)).items()}
    named |= gpt2_layers(own, "decoder", "decoder.transformer", cross=True)
    named |= {} if own.tied else {"decoder.lm_head.weight": own.output()}
    encoder = bert_config(own, "MegatronBertModel", "megatron-bert") | {"tie_word_embeddings": False}
    decoder = gpt2_config(own) | {"is_decoder": True, "add_cross_attention": True}
    options = {
        "architectures": ["EncoderDecoderModel"],
        "model_type": "encoder-decoder",
        "is_encoder_decoder": True,
        "encoder": encoder,
        "decoder": decoder,
        "tie_word_embeddings": False,
    }
    return options, named
