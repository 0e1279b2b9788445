"""T5, v1.0 and v1.1, and mT5: encoder-decoder with RMSNorm and learned relative positions (Raffel et al., 2020;
Xue et al., 2021)."""

from __future__ import annotations

from functools import partial

from model.checkpoints.convert.family import Family, SettingsTable, SourceCheckpoint, UnsupportedError
from model.checkpoints.convert.weight_map import Table, WeightMap, WeightSource, below, source
from model.network.config import TransformerConfig

STACKS = {  # their blocks in order
    "encoder": ("self_attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}
SETTINGS: SettingsTable = {
    "d_model": ("d_model", 512),
    "n_heads": ("num_heads", 8),
    "head_width": ("d_kv", 64),
    "n_encoder_layers": ("num_layers", 6),
    "d_ff": ("d_ff", 2048),
    "source_vocabulary": ("vocab_size", 32128),
    "target_vocabulary": ("vocab_size", 32128),
    "dropout": ("dropout_rate", 0.1),
    "attention_dropout": ("dropout_rate", 0.1),
    "activation_dropout": ("dropout_rate", 0.1),
    "max_length": ("n_positions", 512),
    "position_buckets": ("relative_attention_num_buckets", 32),
    "position_reach": ("relative_attention_max_distance", 128),
    "norm_epsilon": ("layer_norm_epsilon", 1e-6),
}
MT5_SETTINGS: SettingsTable = {
    **SETTINGS,
    "n_heads": ("num_heads", 6),
    "n_encoder_layers": ("num_layers", 8),
    "d_ff": ("d_ff", 1024),
    "source_vocabulary": ("vocab_size", 250112),
    "target_vocabulary": ("vocab_size", 250112),
}


def _options(
    checkpoint: SourceCheckpoint,
    table: SettingsTable = SETTINGS,
    usual: str = "relu",
    scaled: bool | None = None,
) -> TransformerConfig:
    """Config of a checkpoint. usual: default of feed_forward_proj. scaled: whether the output reads states divided by
    √d_model; None: as config.json says.
    """
    settings = checkpoint.settings
    settings.require("is_decoder", False)
    kind = settings.get("feed_forward_proj", usual)
    first, *rest = str(kind).split("-")
    if rest and (first != "gated" or len(rest) > 1):
        raise UnsupportedError(f"feed_forward_proj is {kind!r}")
    default = "gelu_new" if kind == "gated-gelu" else rest[0] if rest else first
    gated = settings.switch("is_gated_act", bool(rest))
    activation = (checkpoint.gate if gated else checkpoint.function)("dense_act_fn", default)
    options = checkpoint.options(table)
    if options["head_width"] * options["n_heads"] == options["d_model"]:
        options["head_width"] = None
    layers = checkpoint.count_or("num_decoder_layers", None, options["n_encoder_layers"])
    v1_0 = settings.switch("scale_decoder_outputs", checkpoint.tied(True)) if scaled is None else scaled
    own_head = checkpoint.has("lm_head.weight") and not (checkpoint.tied(True) and v1_0)
    return TransformerConfig(
        **options,
        n_decoder_layers=layers,
        position="relative",
        norm="rms",
        norm_placement="pre",
        scale_embedding=False,
        scale_attention=False,
        activation=activation,
        bias=False,
        tied_embeddings="inputs" if own_head or not checkpoint.head else "all",
        output_head="linear" if checkpoint.head else "none",
        scale_output=checkpoint.head and v1_0,
    )


def _weights(_checkpoint: SourceCheckpoint, config: TransformerConfig) -> Table:
    """Table of a config; the first layer of a stack keeps the relative positions of all."""
    table: WeightMap = {"output.logits": source("lm_head")}
    attentions = {"self_attention": "SelfAttention", "cross_attention": "EncDecAttention"}
    units = {"hidden": "wi_0", "linear": "wi_1", "output": "wo"} if config.gated else {"hidden": "wi", "output": "wo"}
    for stack, blocks in STACKS.items():
        layer: dict[str, str] = {}
        for place, attention in enumerate(blocks[:-1]):
            module = f"layer.{place}.{attentions[attention]}"
            layer |= {f"{attention}.{part}": f"{module}.{part[0]}" for part in ("query", "key", "value", "output")}
        last = f"layer.{len(blocks) - 1}.DenseReluDense"
        layer |= {f"feed_forward.{part}": f"{last}.{matrix}" for part, matrix in units.items()}
        layer |= {f"{block}_block.norm": f"layer.{place}.layer_norm" for place, block in enumerate(blocks)}
        biases = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        table |= {
            f"{stack}.embedding.tokens": WeightSource(("shared",), copies=(f"{stack}.embed_tokens",)),
            f"{stack}.layers.{{}}.self_attention.biased.table": source(biases),
            **below(f"{stack}.layers.{{}}.", f"{stack}.block.{{}}.", layer),
            f"{stack}.norm": source(f"{stack}.final_layer_norm"),
        }
    return table


_family = partial(
    Family,
    weights=_weights,
    prefix="",
    head=("lm_head.",),
    unused=r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
    renamed={
        "d_model": "hidden_size",
        "num_heads": "num_attention_heads",
        "num_layers": "num_hidden_layers",
        "d_kv": "head_dim",
    },
)
T5 = _family(options=_options, headed=("T5ForConditionalGeneration",), bare=("T5Model",))
# transformers always ties mT5's matrices and never scales its states, whatever the config has.
MT5 = _family(
    options=partial(_options, table=MT5_SETTINGS, usual="gated-gelu", scaled=False),
    headed=("MT5ForConditionalGeneration",),
    bare=("MT5Model",),
    known=("tie_word_embeddings",),
)
