"""T5, v1.0 and v1.1, and mT5: encoder-decoder with RMSNorm and learned relative positions (Raffel et al., 2020;
Xue et al., 2021)."""

from __future__ import annotations

from functools import partial
from typing import Any

from model.checkpoints.convert.family import Family, SourceCheckpoint, UnsupportedError
from model.checkpoints.convert.weight_map import WeightMap, modules, tensor
from model.network.config import TransformerConfig

STACKS = ("encoder", "decoder")
USUAL = {"vocabulary": 32128, "heads": 8, "layers": 6, "units": 2048, "network": "relu"}
USUAL_OF_MT5 = {"vocabulary": 250112, "heads": 6, "layers": 8, "units": 1024, "network": "gated-gelu"}


def _options(given: SourceCheckpoint, usual: dict[str, Any] = USUAL, scaled: bool | None = None) -> TransformerConfig:
    """usual: what a config leaves out. scaled: whether the output reads states divided by √d_model; None: as said."""
    settings = given.settings
    settings.require("is_decoder", False)
    kind = settings.get("feed_forward_proj", usual["network"])
    first, *rest = str(kind).split("-")
    if rest and (first != "gated" or len(rest) > 1):
        raise UnsupportedError(f"feed_forward_proj is {kind!r}")
    default = "gelu_new" if kind == "gated-gelu" else rest[0] if rest else first
    gated = settings.switch("is_gated_act", bool(rest))
    activation = (given.gate if gated else given.function)("dense_act_fn", default)
    layers = settings.count("num_layers", usual["layers"])
    decoder = layers if settings.get("num_decoder_layers") is None else settings.count("num_decoder_layers")
    width, heads = settings.count("d_model", 512), settings.count("num_heads", usual["heads"])
    head_width = settings.count("d_kv", 64)
    vocabulary, rate = settings.count("vocab_size", usual["vocabulary"]), settings.number("dropout_rate", 0.1)
    v1_0 = settings.switch("scale_decoder_outputs", given.tied(True)) if scaled is None else scaled
    own_head = given.has("lm_head.weight") and not (given.tied(True) and v1_0)
    return TransformerConfig(
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
        d_model=width,
        n_heads=heads,
        head_width=None if head_width * heads == width else head_width,
        n_encoder_layers=layers,
        n_decoder_layers=decoder,
        d_ff=settings.count("d_ff", usual["units"]),
        dropout=rate,
        attention_dropout=rate,
        activation_dropout=rate,
        max_length=settings.count("n_positions", 512),
        position="relative",
        position_buckets=settings.count("relative_attention_num_buckets", 32),
        position_reach=settings.count("relative_attention_max_distance", 128),
        norm="rms",
        norm_placement="pre",
        norm_epsilon=settings.number("layer_norm_epsilon", 1e-6),
        scale_embedding=False,
        scale_attention=False,
        activation=activation,
        bias=False,
        tied_embeddings="inputs" if own_head or not given.head else "all",
        output_head="linear" if given.head else "none",
        scale_output=given.head and v1_0,
    )


def _plan(given: SourceCheckpoint, config: TransformerConfig) -> WeightMap:
    head = "lm_head.weight"
    own = [f"{stack}.embed_tokens.weight" for stack in STACKS]
    names = ("shared.weight", *own, *([head] if config.tied_embeddings == "all" else []))
    plan = tensor("decoder.embedding.tokens.weight", given.one_of(*names))
    if config.output_head != "none" and config.tied_embeddings == "inputs":
        plan |= tensor("output.logits.weight", head)
    for stack, layers in zip(STACKS, (config.n_encoder_layers, config.n_decoder_layers), strict=True):
        biases = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        plan |= tensor(f"{stack}.layers.0.self_attention.biased.table", biases)
        plan |= modules(f"{stack}.", f"{stack}.", {"norm": "final_layer_norm"}, bias=False)
        attentions = {"self_attention": "SelfAttention"}
        attentions |= {"cross_attention": "EncDecAttention"} if stack == "decoder" else {}
        parts: dict[str, str] = {}
        for place, (ours, theirs) in enumerate(attentions.items()):
            parts |= {
                f"{ours}.{part}": f"layer.{place}.{theirs}.{part[0]}" for part in ("query", "key", "value", "output")
            }
            parts |= {f"{ours}_block.norm": f"layer.{place}.layer_norm"}
        last = f"layer.{len(attentions)}"
        parts |= {f"feed_forward.{own}": f"{last}.DenseReluDense.{name}" for own, name in _units(config).items()}
        parts |= {"feed_forward_block.norm": f"{last}.layer_norm"}
        for layer in range(layers):
            plan |= modules(f"{stack}.layers.{layer}.", f"{stack}.block.{layer}.", parts, bias=False)
    return plan


def _units(config: TransformerConfig) -> dict[str, str]:
    return {"hidden": "wi_0", "linear": "wi_1", "output": "wo"} if config.gated else {"hidden": "wi", "output": "wo"}


_family = partial(
    Family,
    plan=_plan,
    prefix="",
    head="lm_head.",
    unused=r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
    renamed={
        "d_model": "hidden_size",
        "num_heads": "num_attention_heads",
        "num_layers": "num_hidden_layers",
        "d_kv": "head_dim",
    },
)
T5 = _family(options=_options, headed=("T5ForConditionalGeneration",), bare=("T5Model",))
# Its code always ties and never scales, whatever the config says.
MT5 = _family(
    options=partial(_options, usual=USUAL_OF_MT5, scaled=False),
    headed=("MT5ForConditionalGeneration",),
    bare=("MT5Model",),
    known=("tie_word_embeddings",),
)
