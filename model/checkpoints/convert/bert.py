"""Encoder-only models: BERT, RoBERTa, DistilBERT."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from model.checkpoints.convert.family import Family, SettingsTable, SourceCheckpoint, UnsupportedError
from model.checkpoints.convert.weight_map import Table, WeightSource, type_difference, with_type
from model.network.config import TransformerConfig

BERT_SETTINGS: SettingsTable = {
    "vocabulary": ("vocab_size", 30522),
    "n_layers": ("num_hidden_layers", 12),
    "d_model": ("hidden_size", 768),
    "n_heads": ("num_attention_heads", 12),
    "d_ff": ("intermediate_size", 3072),
    "dropout": ("hidden_dropout_prob", 0.1),
    "attention_dropout": ("attention_probs_dropout_prob", 0.1),
    "max_length": ("max_position_embeddings", 512),
    "norm_epsilon": ("layer_norm_eps", 1e-12),
    "activation": ("hidden_act", "gelu"),
}
POSITIONS = ("embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight")
BERT_WEIGHTS: Table = {
    "encoder.embedding.tokens": "embeddings.word_embeddings",
    "encoder.embedding.positions.table": WeightSource(POSITIONS, partial(with_type, rows=0)),
    "encoder.embedding.types.weight": WeightSource(POSITIONS[1:], type_difference),
    "encoder.embedding.output.norm": "embeddings.LayerNorm",
    "encoder.layers.{}.self_attention.query": "encoder.layer.{}.attention.self.query",
    "encoder.layers.{}.self_attention.key": "encoder.layer.{}.attention.self.key",
    "encoder.layers.{}.self_attention.value": "encoder.layer.{}.attention.self.value",
    "encoder.layers.{}.self_attention.output": "encoder.layer.{}.attention.output.dense",
    "encoder.layers.{}.self_attention_block.norm": "encoder.layer.{}.attention.output.LayerNorm",
    "encoder.layers.{}.feed_forward.hidden": "encoder.layer.{}.intermediate.dense",
    "encoder.layers.{}.feed_forward.output": "encoder.layer.{}.output.dense",
    "encoder.layers.{}.feed_forward_block.norm": "encoder.layer.{}.output.LayerNorm",
}
BERT_HEAD: Table = {
    "output.transform": "cls.predictions.transform.dense",
    "output.norm": "cls.predictions.transform.LayerNorm",
    "output.logits": "cls.predictions.decoder",
}
ROBERTA_HEAD: Table = {
    "output.transform": "lm_head.dense",
    "output.norm": "lm_head.layer_norm",
    "output.logits": "lm_head.decoder",
}


def _head_options(checkpoint: SourceCheckpoint) -> dict[str, Any]:
    tied = checkpoint.tied(True)
    if not checkpoint.head:
        return {"output_head": "none"}
    return {"output_head": "transform", "output_bias": True, "tied_embeddings": "output" if tied else "none"}


def _bert_options(checkpoint: SourceCheckpoint, first: int = 0, vocabulary: int = 30522) -> TransformerConfig:
    """Devlin et al., 2019. first: row of the table of positions that the first token gets. vocabulary: default of
    vocab_size.
    """
    settings = checkpoint.settings
    for name in ("is_decoder", "add_cross_attention"):
        settings.require(name, False)
    settings.require("position_embedding_type", "absolute")
    options = checkpoint.options({**BERT_SETTINGS, "vocabulary": ("vocab_size", vocabulary)})
    return TransformerConfig.one_stack(
        "encoder-only",
        position="learned",
        embedding_norm=True,
        scale_embedding=False,
        **(options | {"max_length": options["max_length"] - first}),
        **_head_options(checkpoint),
    )


def _roberta_options(checkpoint: SourceCheckpoint, vocabulary: int) -> TransformerConfig:
    """Liu et al., 2019. Its head has GELU whatever the layers have."""
    config = _bert_options(checkpoint, _padding(checkpoint) + 1, vocabulary)
    if checkpoint.head and config.activation != "gelu":
        raise UnsupportedError("the head has another activation than the layers")
    return config


def _padding(checkpoint: SourceCheckpoint) -> int:
    """Id of the padding token, behind whose row RoBERTa's table of positions begins."""
    padding = checkpoint.settings.get("pad_token_id", 1)
    if isinstance(padding, bool) or not isinstance(padding, int) or padding < 0:
        raise UnsupportedError(f"pad_token_id is {padding!r}")
    return padding


def _bert_weights(checkpoint: SourceCheckpoint, config: TransformerConfig) -> Table:
    return {**BERT_WEIGHTS, **BERT_HEAD, "output.logits.bias": _bias(checkpoint, config, "cls.predictions")}


def _roberta_weights(checkpoint: SourceCheckpoint, config: TransformerConfig) -> Table:
    table = {**BERT_WEIGHTS, **ROBERTA_HEAD, "output.logits.bias": _bias(checkpoint, config, "lm_head")}
    first = partial(with_type, rows=_padding(checkpoint) + 1)
    return {**table, "encoder.embedding.positions.table": WeightSource(POSITIONS, first)}


def _bias(checkpoint: SourceCheckpoint, config: TransformerConfig, head: str) -> WeightSource:
    """Source of the output's bias. Of an untied matrix, transformers adds the bias beside it; old files may have only
    the head's.
    """
    outer, inner = f"{head}.bias", f"{head}.decoder.bias"
    if config.tied_embeddings == "output":
        return WeightSource((outer,), copies=(inner,))
    return WeightSource((outer if checkpoint.has(outer) and not checkpoint.has(inner) else inner,))


DISTILBERT_SETTINGS: SettingsTable = {
    "vocabulary": ("vocab_size", 30522),
    "n_layers": ("n_layers", 6),
    "d_model": ("dim", 768),
    "n_heads": ("n_heads", 12),
    "d_ff": ("hidden_dim", 3072),
    "dropout": ("dropout", 0.1),
    "attention_dropout": ("attention_dropout", 0.1),
    "max_length": ("max_position_embeddings", 512),
    "activation": ("activation", "gelu"),
}
DISTILBERT_WEIGHTS: Table = {
    "encoder.embedding.tokens": "embeddings.word_embeddings",
    "encoder.embedding.positions.table": "embeddings.position_embeddings.weight",
    "encoder.embedding.output.norm": "embeddings.LayerNorm",
    "encoder.layers.{}.self_attention.query": "transformer.layer.{}.attention.q_lin",
    "encoder.layers.{}.self_attention.key": "transformer.layer.{}.attention.k_lin",
    "encoder.layers.{}.self_attention.value": "transformer.layer.{}.attention.v_lin",
    "encoder.layers.{}.self_attention.output": "transformer.layer.{}.attention.out_lin",
    "encoder.layers.{}.self_attention_block.norm": "transformer.layer.{}.sa_layer_norm",
    "encoder.layers.{}.feed_forward.hidden": "transformer.layer.{}.ffn.lin1",
    "encoder.layers.{}.feed_forward.output": "transformer.layer.{}.ffn.lin2",
    "encoder.layers.{}.feed_forward_block.norm": "transformer.layer.{}.output_layer_norm",
    "output.transform": "vocab_transform",
    "output.norm": "vocab_layer_norm",
    "output.logits": "vocab_projector",
}


def _distilbert_options(checkpoint: SourceCheckpoint) -> TransformerConfig:
    """Sanh et al., 2019."""
    return TransformerConfig.one_stack(
        "encoder-only",
        position="learned",
        embedding_norm=True,
        norm_epsilon=1e-12,
        scale_embedding=False,
        **checkpoint.options(DISTILBERT_SETTINGS),
        **_head_options(checkpoint),
    )


BERT = Family(
    options=_bert_options,
    weights=_bert_weights,
    headed=("BertForMaskedLM", "BertForPreTraining"),
    bare=("BertModel",),
    prefix="bert.",
    head=("cls.predictions.",),
    unused=r"(bert\.)?(embeddings\.position_ids|pooler\..*)|cls\.seq_relationship\..*|cls\.predictions\.bias",
)
ROBERTA = Family(
    options=partial(_roberta_options, vocabulary=50265),
    weights=_roberta_weights,
    headed=("RobertaForMaskedLM",),
    bare=("RobertaModel",),
    prefix="roberta.",
    head=("lm_head.",),
    unused=r"(roberta\.)?(embeddings\.position_ids|pooler\..*)|lm_head\.bias",
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
    weights=DISTILBERT_WEIGHTS,
    headed=("DistilBertForMaskedLM",),
    bare=("DistilBertModel",),
    prefix="distilbert.",
    head=("vocab_",),
    renamed={"dim": "hidden_size", "n_heads": "num_attention_heads", "n_layers": "num_hidden_layers"},
    known=("tie_weights_",),
)
