"""Encoder-only networks as BERT of Hugging Face; pre-norm ones as Megatron's."""

from __future__ import annotations

from typing import Any

from model.counterparts.parameters import ACTIVATIONS, Made, Named, Parameters, put


def bert_layers(own: Parameters, prefix: str) -> Named:
    """Devlin et al., 2019: the norms stand behind the blocks, and one on the embeddings."""
    named = _bert_embeddings(own, f"{prefix}embeddings")
    if own.config.embedding_norm:
        put(named, own, [(f"{prefix}embeddings.LayerNorm", "encoder.embedding.output.norm")])
    post = own.config.norm_placement == "post"
    for index in range(own.config.n_encoder_layers):
        ours, theirs = f"encoder.layers.{index}", f"{prefix}encoder.layer.{index}"
        norms = ("attention.output.LayerNorm", "output.LayerNorm") if post else ("attention.ln", "ln")
        names = [(f"attention.self.{part}", f"self_attention.{part}") for part in ("query", "key", "value")]
        names += [("attention.output.dense", "self_attention.output"), ("intermediate.dense", "feed_forward.hidden")]
        names += [("output.dense", "feed_forward.output"), (norms[0], "self_attention_block.norm")]
        names += [(norms[1], "feed_forward_block.norm")]
        put(named, own, [(f"{theirs}.{name}", f"{ours}.{part}") for name, part in names])
    if not post:
        put(named, own, [(f"{prefix}encoder.ln", "encoder.norm")])
    return named


def _bert_embeddings(own: Parameters, prefix: str) -> Named:
    table = own.positions("encoder")
    return {
        f"{prefix}.word_embeddings.weight": own.embedding("encoder"),
        f"{prefix}.position_embeddings.weight": table,
        f"{prefix}.token_type_embeddings.weight": table.new_zeros(1, table.shape[1]),
    }


def pooler(own: Parameters) -> Named:
    """What theirs makes of the first token and ours does not: zeros, so that nothing of the model is by chance."""
    nothing = own["encoder.embedding.tokens.weight"].new_zeros(own.config.d_model, own.config.d_model)
    return {"pooler.dense.weight": nothing, "pooler.dense.bias": nothing[0]}


def bert_config(own: Parameters, name: str, model_type: str) -> dict[str, Any]:
    config = own.config
    return {
        "architectures": [name],
        "model_type": model_type,
        "vocab_size": config.source_vocabulary,
        "hidden_size": config.d_model,
        "num_attention_heads": config.n_heads,
        "num_hidden_layers": config.n_encoder_layers,
        "intermediate_size": config.d_ff,
        "max_position_embeddings": config.max_length,
        "type_vocab_size": 1,
        "layer_norm_eps": config.norm_epsilon,
        "hidden_act": ACTIVATIONS[config.activation],
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "tie_word_embeddings": own.tied,
    }


def bert(own: Parameters) -> Made:
    pre = own.config.norm_placement == "pre"
    name, model_type = ("MegatronBert", "megatron-bert") if pre else ("Bert", "bert")
    if own.config.output_head != "transform":
        return bert_config(own, f"{name}Model", model_type), bert_layers(own, "") | pooler(own)
    named = bert_layers(own, "bert.")
    put(named, own, [("cls.predictions.transform.dense", "output.transform")])
    put(named, own, [("cls.predictions.transform.LayerNorm", "output.norm")])
    bias = own.module("output.logits")[1]
    named |= {"cls.predictions.bias": bias, "cls.predictions.decoder.bias": bias}
    named |= {} if own.tied else {"cls.predictions.decoder.weight": own.output()}
    return bert_config(own, f"{name}ForMaskedLM", model_type), named
