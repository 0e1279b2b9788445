"""Encoder-only models: BERT, RoBERTa, DistilBERT."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from model.checkpoints.convert.family import Family, SourceCheckpoint, UnsupportedError
from model.checkpoints.convert.weight_map import WeightMap, WeightSource, modules, tensor, with_type
from model.network.config import TransformerConfig

HEADS = {  # our modules of the head, and theirs
    "bert": {"transform": "cls.predictions.transform.dense", "norm": "cls.predictions.transform.LayerNorm"},
    "roberta": {"transform": "lm_head.dense", "norm": "lm_head.layer_norm"},
    "distilbert": {"transform": "vocab_transform", "norm": "vocab_layer_norm"},
}
# Matrix and biases, where they lie; more than one name is the same tensor.
MATRICES = {"bert": "cls.predictions.decoder", "roberta": "lm_head.decoder", "distilbert": "vocab_projector"}
BIASES = {"bert": ("cls.predictions.bias",), "roberta": ("lm_head.bias",), "distilbert": ()}


def _head(given: SourceCheckpoint) -> dict[str, Any]:
    if not given.head:
        given.tied(True)
        return {"output_head": "none"}
    tied = "output" if given.tied(True) else "none"
    return {"output_head": "transform", "output_bias": True, "tied_embeddings": tied}


def _bert_options(given: SourceCheckpoint, first: int = 0, vocabulary: int = 30522) -> TransformerConfig:
    """Devlin et al., 2019. first: the row of the table of positions that the first token gets. vocabulary: where
    config.json does not say.
    """
    settings = given.settings
    for name in ("is_decoder", "add_cross_attention"):
        settings.require(name, False)
    settings.require("position_embedding_type", "absolute")
    return TransformerConfig.one_stack(
        "encoder-only",
        settings.count("vocab_size", vocabulary),
        settings.count("num_hidden_layers", 12),
        d_model=settings.count("hidden_size", 768),
        n_heads=settings.count("num_attention_heads", 12),
        d_ff=settings.count("intermediate_size", 3072),
        dropout=settings.number("hidden_dropout_prob", 0.1),
        attention_dropout=settings.number("attention_probs_dropout_prob", 0.1),
        max_length=settings.count("max_position_embeddings", 512) - first,
        position="learned",
        embedding_norm=True,
        norm_epsilon=settings.number("layer_norm_eps", 1e-12),
        scale_embedding=False,
        activation=given.function("hidden_act", "gelu"),
        **_head(given),
    )


def _roberta_options(given: SourceCheckpoint, vocabulary: int) -> TransformerConfig:
    """Liu et al., 2019. Its head has GELU whatever the layers have."""
    config = _bert_options(given, _padding(given) + 1, vocabulary)
    if given.head and config.activation != "gelu":
        raise UnsupportedError("the head has another activation than the layers")
    return config


def _padding(given: SourceCheckpoint) -> int:
    """RoBERTa counts positions from the row behind its padding token's."""
    padding = given.settings.get("pad_token_id", 1)
    if isinstance(padding, bool) or not isinstance(padding, int) or padding < 0:
        raise UnsupportedError(f"pad_token_id is {padding!r}")
    return padding


def _bert_plan(given: SourceCheckpoint, config: TransformerConfig, kind: str) -> WeightMap:
    root = given.prefix
    first = _padding(given) + 1 if kind == "roberta" else 0
    embedding = f"{root}embeddings.word_embeddings.weight"
    places, types = (f"{root}embeddings.{name}_embeddings.weight" for name in ("position", "token_type"))
    plan = _embedding_and_head(given, config, kind, embedding)
    plan["encoder.embedding.positions.table"] = WeightSource((places, types), partial(with_type, rows=first))
    plan |= modules("encoder.embedding.", root, {"output.norm": "embeddings.LayerNorm"}, bias=True)
    parts = {
        **{f"self_attention.{own}": f"attention.self.{own}" for own in ("query", "key", "value")},
        "self_attention.output": "attention.output.dense",
        "self_attention_block.norm": "attention.output.LayerNorm",
        "feed_forward.hidden": "intermediate.dense",
        "feed_forward.output": "output.dense",
        "feed_forward_block.norm": "output.LayerNorm",
    }
    for layer in range(config.n_encoder_layers):
        plan |= modules(f"encoder.layers.{layer}.", f"{root}encoder.layer.{layer}.", parts, bias=True)
    return plan


def _embedding_and_head(given: SourceCheckpoint, config: TransformerConfig, kind: str, embedding: str) -> WeightMap:
    matrix = MATRICES[kind]
    if not given.head:
        return tensor("encoder.embedding.tokens.weight", embedding)
    plan = modules("output.", "", HEADS[kind], bias=True)
    if config.tied_embeddings == "output":
        plan |= tensor("output.logits.bias", given.one_of(*BIASES[kind], f"{matrix}.bias"))
        return plan | tensor("encoder.embedding.tokens.weight", given.one_of(embedding, f"{matrix}.weight"))
    # Without ties it is the matrix's own bias that today's code adds; old files may have only the other.
    plan |= tensor("output.logits.bias", given.first_of(f"{matrix}.bias", *BIASES[kind]))
    plan |= tensor("encoder.embedding.tokens.weight", embedding)
    return plan | tensor("output.logits.weight", f"{matrix}.weight")


def _distilbert_options(given: SourceCheckpoint) -> TransformerConfig:
    """Sanh et al., 2019."""
    settings, head = given.settings, _head(given)
    return TransformerConfig.one_stack(
        "encoder-only",
        settings.count("vocab_size", 30522),
        settings.count("n_layers", 6),
        d_model=settings.count("dim", 768),
        n_heads=settings.count("n_heads", 12),
        d_ff=settings.count("hidden_dim", 3072),
        dropout=settings.number("dropout", 0.1),
        attention_dropout=settings.number("attention_dropout", 0.1),
        max_length=settings.count("max_position_embeddings", 512),
        position="learned",
        embedding_norm=True,
        norm_epsilon=1e-12,
        scale_embedding=False,
        activation=given.function("activation", "gelu"),
        **head,
    )


def _distilbert_plan(given: SourceCheckpoint, config: TransformerConfig) -> WeightMap:
    root = given.prefix
    plan = _embedding_and_head(given, config, "distilbert", f"{root}embeddings.word_embeddings.weight")
    plan |= tensor("encoder.embedding.positions.table", f"{root}embeddings.position_embeddings.weight")
    plan |= modules("encoder.embedding.", root, {"output.norm": "embeddings.LayerNorm"}, bias=True)
    parts = {
        **{f"self_attention.{own}": f"attention.{own[0]}_lin" for own in ("query", "key", "value")},
        "self_attention.output": "attention.out_lin",
        "self_attention_block.norm": "sa_layer_norm",
        "feed_forward.hidden": "ffn.lin1",
        "feed_forward.output": "ffn.lin2",
        "feed_forward_block.norm": "output_layer_norm",
    }
    for layer in range(config.n_encoder_layers):
        plan |= modules(f"encoder.layers.{layer}.", f"{root}transformer.layer.{layer}.", parts, bias=True)
    return plan


BERT = Family(
    options=_bert_options,
    plan=partial(_bert_plan, kind="bert"),
    headed=("BertForMaskedLM", "BertForPreTraining"),
    bare=("BertModel",),
    prefix="bert.",
    head="cls.predictions.",
    unused=r"(bert\.)?(embeddings\.position_ids|pooler\..*)|cls\.seq_relationship\..*",
)
ROBERTA = Family(
    options=partial(_roberta_options, vocabulary=50265),
    plan=partial(_bert_plan, kind="roberta"),
    headed=("RobertaForMaskedLM",),
    bare=("RobertaModel",),
    prefix="roberta.",
    head="lm_head.",
    unused=r"(roberta\.)?(embeddings\.position_ids|pooler\..*)",
)
XLM_ROBERTA, CAMEMBERT = (
    replace(
        ROBERTA,
        options=partial(_roberta_options, vocabulary=30522),
        headed=(f"{name}ForMaskedLM",),
        bare=(f"{name}Model",),
    )
    for name in ("XLMRoberta", "Camembert")
)
DISTILBERT = Family(
    options=_distilbert_options,
    plan=_distilbert_plan,
    headed=("DistilBertForMaskedLM",),
    bare=("DistilBertModel",),
    prefix="distilbert.",
    head="vocab_",
    renamed={"dim": "hidden_size", "n_heads": "num_attention_heads", "n_layers": "num_hidden_layers"},
    known=("tie_weights_",),
)
