"""Encoder-decoder models with LayerNorm: BART, mBART, Marian."""

from __future__ import annotations

from functools import partial
from typing import Any

from model.checkpoints.convert.family import Family, SettingsTable, SourceCheckpoint, UnsupportedError
from model.checkpoints.convert.weight_map import Table, WeightSource, below, flat, without_first
from model.network.config import TransformerConfig
from model.runtime.errors import CheckpointError

LONGEST = 1 << 17  # tokens: Marian's positions are computed for all of them
OFFSET = 2  # the first rows of BART's and mBART's tables of positions
BIAS = "final_logits_bias"
STACKS = ("encoder", "decoder")


BART_SETTINGS: SettingsTable = {
    "d_model": ("d_model", 1024),
    "n_encoder_layers": ("encoder_layers", 12),
    "n_decoder_layers": ("decoder_layers", 12),
    "dropout": ("dropout", 0.1),
    "attention_dropout": ("attention_dropout", 0.0),
    "activation_dropout": ("activation_dropout", 0.0),
    "max_length": ("max_position_embeddings", 1024),
    "scale_embedding": ("scale_embedding", False),
    "activation": ("activation_function", "gelu"),
}


def stack_weights(stack: str, first: int = 0) -> Table:
    """Table of the "encoder" or "decoder" without its token embedding. first: row of the table of positions that the
    first token gets.
    """
    attentions = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
    layer: dict[str, str] = {
        "feed_forward.hidden": "fc1",
        "feed_forward.output": "fc2",
        "feed_forward_block.norm": "final_layer_norm",
    }
    for attention, module in attentions.items():
        layer |= {f"{attention}.{name}": f"{module}.{name[0]}_proj" for name in ("query", "key", "value")}
        layer |= {f"{attention}.output": f"{module}.out_proj", f"{attention}_block.norm": f"{module}_layer_norm"}
    rows: Table = {
        "embedding.positions.table": WeightSource(("embed_positions.weight",), without_first(first)),
        "embedding.output.norm": "layernorm_embedding",
        **below("layers.{}.", "layers.{}.", layer),
        "norm": "layer_norm",
    }
    return below(f"{stack}.", f"{stack}.", rows)


def _weights(checkpoint: SourceCheckpoint, config: TransformerConfig, first: int = OFFSET) -> Table:
    """Table of a checkpoint; a matrix that both stacks share is in the file once, or in copies."""
    shared = config.tied_embeddings in ("all", "inputs")
    tokens = {
        f"{stack}.embedding.tokens.weight": WeightSource(
            ("shared.weight" if shared else f"{stack}.embed_tokens.weight",),
            copies=(f"{stack}.embed_tokens.weight",),
        )
        for stack in STACKS
    }
    head: Table = {"output.logits.weight": "lm_head.weight", "output.logits.bias": WeightSource((BIAS,), flat)}
    return {**tokens, **stack_weights("encoder", first), **stack_weights("decoder", first), **head}


def _options(checkpoint: SourceCheckpoint, vocabulary: int, **more: Any) -> TransformerConfig:
    """Config of a checkpoint. vocabulary: default of vocab_size. more: options of one family alone."""
    settings = checkpoint.settings
    sizes: dict[str, Any] = {}
    for option, name, default in (("n_heads", "attention_heads", 16), ("d_ff", "ffn_dim", 4096)):
        both = [settings.count(f"{stack}_{name}", default) for stack in STACKS]
        if both[0] != both[1]:
            raise UnsupportedError(f"encoder and decoder differ in {name}")
        sizes[option] = both[0]
    settings.require("is_decoder", False)
    if not checkpoint.tied(True) and "tied_embeddings" not in more:
        raise UnsupportedError("three matrices for one vocabulary")
    options = checkpoint.options(BART_SETTINGS)
    if (longest := options["max_length"]) > LONGEST:
        raise CheckpointError(
            "config.json: max_position_embeddings ({longest:,}) must be at most {longest_2:,}",
            longest=longest,
            longest_2=LONGEST,
        )
    options |= {
        "source_vocabulary": settings.count("vocab_size", vocabulary),
        "target_vocabulary": settings.count("vocab_size", vocabulary),
        "tied_embeddings": "all" if checkpoint.head else "inputs",
        "output_head": "linear" if checkpoint.head else "none",
        "output_bias": checkpoint.head and checkpoint.has(BIAS),
    }
    return TransformerConfig(**(options | sizes | more))


def _flags(checkpoint: SourceCheckpoint, **values: bool) -> None:
    """Require of settings of old files, which transformers reads no more, the values that its code implies."""
    for name, value in (values | {"add_bias_logits": False}).items():
        checkpoint.settings.require(name, value)


def _bart_options(checkpoint: SourceCheckpoint) -> TransformerConfig:
    """Lewis et al., 2020."""
    _flags(checkpoint, normalize_before=False, normalize_embedding=True, add_final_layer_norm=False)
    _flags(checkpoint, static_position_embeddings=False)
    checkpoint.settings.require("extra_pos_embeddings", OFFSET)
    return _options(checkpoint, 50265, position="learned", embedding_norm=True)


def _mbart_options(checkpoint: SourceCheckpoint) -> TransformerConfig:
    """Liu et al., 2020."""
    _flags(checkpoint, normalize_before=True, normalize_embedding=True, add_final_layer_norm=True)
    _flags(checkpoint, static_position_embeddings=False)
    checkpoint.settings.require("extra_pos_embeddings", OFFSET)
    return _options(checkpoint, 50265, position="learned", embedding_norm=True, norm_placement="pre")


def _marian_options(checkpoint: SourceCheckpoint) -> TransformerConfig:
    """Junczys-Dowmunt et al., 2018."""
    _flags(checkpoint, normalize_before=False, normalize_embedding=False, add_final_layer_norm=False)
    _flags(checkpoint, static_position_embeddings=True)
    checkpoint.settings.get("extra_pos_embeddings")
    has_table = checkpoint.has(f"{checkpoint.prefix}encoder.embed_positions.weight")  # as precise as the file is
    more: dict[str, Any] = {"position": "learned" if has_table else "sinusoidal-halves"}
    shared, target = checkpoint.settings.switch("share_encoder_decoder_embeddings", True), None
    if checkpoint.settings.get("decoder_vocab_size") is not None:
        target = checkpoint.settings.count("decoder_vocab_size")
    if shared and target not in (None, checkpoint.settings.count("vocab_size", 58101)):
        raise UnsupportedError("one matrix for two vocabularies")
    if not shared:
        tied = "output" if checkpoint.tied(True) and checkpoint.head else "none"
        more |= {"tied_embeddings": tied} | ({"target_vocabulary": target} if target else {})
    return _options(checkpoint, 58101, **more)


_family = partial(Family, prefix="model.", head=("lm_head.", BIAS))
SIZES = {"d_model": "hidden_size", "encoder_attention_heads": "num_attention_heads"}
SIZES |= {"encoder_layers": "num_hidden_layers"}
BART = _family(
    options=_bart_options,
    weights=_weights,
    headed=("BartForConditionalGeneration",),
    bare=("BartModel",),
    renamed=SIZES,
    unused=r"(model\.)?(en|de)coder\.version",
)
MBART = _family(
    options=_mbart_options,
    weights=_weights,
    headed=("MBartForConditionalGeneration",),
    bare=("MBartModel",),
    renamed=SIZES,
)
MARIAN = _family(
    options=_marian_options,
    weights=partial(_weights, first=0),
    headed=("MarianMTModel",),
    bare=("MarianModel",),
    renamed=SIZES,
)
