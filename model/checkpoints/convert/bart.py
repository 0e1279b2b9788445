"""Encoder-decoder models with LayerNorm: BART, mBART, Marian."""

from __future__ import annotations

from functools import partial
from typing import Any

from model.checkpoints.convert.family import Family, SourceCheckpoint, UnsupportedError
from model.checkpoints.convert.weight_map import WeightMap, flat, modules, tensor, without_first
from model.network.config import TransformerConfig
from model.runtime.errors import CheckpointError

LONGEST = 1 << 17  # tokens: Marian's positions are computed for all of them
OFFSET = 2  # the first rows of BART's and mBART's tables of positions
BIAS = "final_logits_bias"
STACKS = ("encoder", "decoder")


def _options(given: SourceCheckpoint, vocabulary: int, **more: Any) -> TransformerConfig:
    """What all have. more: options of the one family."""
    settings = given.settings
    sizes: dict[str, Any] = {}
    for ours, theirs, usual in (("n_heads", "attention_heads", 16), ("d_ff", "ffn_dim", 4096)):
        both = [settings.count(f"{stack}_{theirs}", usual) for stack in STACKS]
        if both[0] != both[1]:
            raise UnsupportedError(f"encoder and decoder differ in {theirs}")
        sizes[ours] = both[0]
    settings.require("is_decoder", False)
    if not given.tied(True) and "tied_embeddings" not in more:
        raise UnsupportedError("three matrices for one vocabulary")
    options: dict[str, Any] = {
        "source_vocabulary": settings.count("vocab_size", vocabulary),
        "target_vocabulary": settings.count("vocab_size", vocabulary),
        "tied_embeddings": "all" if given.head else "inputs",
        "output_head": "linear" if given.head else "none",
    }
    return TransformerConfig(
        **(options | more),
        **sizes,
        d_model=settings.count("d_model", 1024),
        n_encoder_layers=settings.count("encoder_layers", 12),
        n_decoder_layers=settings.count("decoder_layers", 12),
        dropout=settings.number("dropout", 0.1),
        attention_dropout=settings.number("attention_dropout", 0.0),
        activation_dropout=settings.number("activation_dropout", 0.0),
        max_length=_longest(given),
        scale_embedding=settings.switch("scale_embedding", False),
        activation=given.function("activation_function", "gelu"),
        output_bias=given.head and given.has(BIAS),
    )


def _longest(given: SourceCheckpoint) -> int:
    longest = given.settings.count("max_position_embeddings", 1024)
    if longest > LONGEST:
        raise CheckpointError(f"config.json: max_position_embeddings ({longest:,}) must be at most {LONGEST:,}")
    return longest


def _flags(given: SourceCheckpoint, **values: bool) -> None:
    """Settings of old files that today's code does not read: what they say must be what the code does."""
    for name, value in values.items():
        given.settings.require(name, value)


def _bart_options(given: SourceCheckpoint) -> TransformerConfig:
    """Lewis et al., 2020."""
    _flags(given, normalize_before=False, normalize_embedding=True, add_final_layer_norm=False)
    _flags(given, static_position_embeddings=False, add_bias_logits=False)
    given.settings.require("extra_pos_embeddings", OFFSET)
    return _options(given, 50265, position="learned", embedding_norm=True)


def _mbart_options(given: SourceCheckpoint) -> TransformerConfig:
    """Liu et al., 2020."""
    _flags(given, normalize_before=True, normalize_embedding=True, add_final_layer_norm=True)
    _flags(given, static_position_embeddings=False, add_bias_logits=False)
    given.settings.require("extra_pos_embeddings", OFFSET)
    return _options(given, 50265, position="learned", embedding_norm=True, norm_placement="pre")


def _marian_options(given: SourceCheckpoint) -> TransformerConfig:
    """Junczys-Dowmunt et al., 2018."""
    _flags(given, normalize_before=False, normalize_embedding=False, add_final_layer_norm=False)
    _flags(given, static_position_embeddings=True, add_bias_logits=False)
    given.settings.get("extra_pos_embeddings")
    kept = given.has(f"{given.prefix}encoder.embed_positions.weight")  # as precise as the file is
    more: dict[str, Any] = {"position": "learned" if kept else "sinusoidal-halves"}
    shared, target = given.settings.switch("share_encoder_decoder_embeddings", True), None
    if given.settings.get("decoder_vocab_size") is not None:
        target = given.settings.count("decoder_vocab_size")
    if shared and target not in (None, given.settings.count("vocab_size", 58101)):
        raise UnsupportedError("one matrix for two vocabularies")
    if not shared:
        tied = "output" if given.tied(True) and given.head else "none"
        more |= {"tied_embeddings": tied} | ({"target_vocabulary": target} if target else {})
    return _options(given, 58101, **more)


def _embeddings_and_head(given: SourceCheckpoint, config: TransformerConfig) -> WeightMap:
    """A tied matrix lies in the file once, or in copies."""
    root, plan = given.prefix, WeightMap()
    shared, head = f"{root}shared.weight", "lm_head.weight"
    own = {stack: f"{root}{stack}.embed_tokens.weight" for stack in STACKS}
    tied = config.tied_embeddings
    if tied in ("all", "inputs"):
        names = (shared, own["decoder"], own["encoder"], *([head] if tied == "all" else []))
        plan |= tensor("decoder.embedding.tokens.weight", given.one_of(*names))
    else:
        plan |= tensor("encoder.embedding.tokens.weight", own["encoder"])
        names = (own["decoder"], *([head] if tied == "output" else []))
        plan |= tensor("decoder.embedding.tokens.weight", given.one_of(*names))
    if config.output_head != "none" and tied in ("none", "inputs"):
        plan |= tensor("output.logits.weight", head)
    return plan | (tensor("output.logits.bias", BIAS, flat) if config.output_bias else {})


def _plan(given: SourceCheckpoint, config: TransformerConfig, offset: int = OFFSET) -> WeightMap:
    """offset: the row of the tables of positions that the first token gets."""
    plan = _embeddings_and_head(given, config)
    for stack, layers in zip(STACKS, (config.n_encoder_layers, config.n_decoder_layers), strict=True):
        ours, theirs = f"{stack}.", f"{given.prefix}{stack}."
        if config.position == "learned":
            table = f"{theirs}embed_positions.weight"
            plan |= tensor(f"{ours}embedding.positions.table", table, without_first(offset))
        if config.embedding_norm:
            plan |= modules(ours, theirs, {"embedding.output.norm": "layernorm_embedding"}, bias=True)
        if config.norm_placement == "pre":
            plan |= modules(ours, theirs, {"norm": "layer_norm"}, bias=True)
        parts = {
            "feed_forward.hidden": "fc1",
            "feed_forward.output": "fc2",
            "feed_forward_block.norm": "final_layer_norm",
        }
        attentions = {"self_attention": "self_attn"} | (
            {"cross_attention": "encoder_attn"} if stack == "decoder" else {}
        )
        for own, other in attentions.items():
            parts |= {f"{own}.{part}": f"{other}.{part[0]}_proj" for part in ("query", "key", "value")}
            parts |= {f"{own}.output": f"{other}.out_proj", f"{own}_block.norm": f"{other}_layer_norm"}
        for layer in range(layers):
            plan |= modules(f"{ours}layers.{layer}.", f"{theirs}layers.{layer}.", parts, bias=True)
    return plan


_family = partial(Family, prefix="model.", head="lm_head.")
SIZES = {"d_model": "hidden_size", "encoder_attention_heads": "num_attention_heads"}
SIZES |= {"encoder_layers": "num_hidden_layers"}
BART = _family(
    options=_bart_options,
    plan=_plan,
    headed=("BartForConditionalGeneration",),
    bare=("BartModel",),
    renamed=SIZES,
    unused=r"(model\.)?(en|de)coder\.version",
)
MBART = _family(
    options=_mbart_options,
    plan=_plan,
    headed=("MBartForConditionalGeneration",),
    bare=("MBartModel",),
    renamed=SIZES,
)
MARIAN = _family(
    options=_marian_options,
    plan=partial(_plan, offset=0),
    headed=("MarianMTModel",),
    bare=("MarianModel",),
    renamed=SIZES,
)
