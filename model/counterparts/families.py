"""Which published family of Hugging Face computes exactly what a network of ours computes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from model.counterparts.decoders import gpt2, gpt_neox, llama
from model.counterparts.encoders import bert
from model.counterparts.pairs import bert_to_gpt2, marian
from model.counterparts.parameters import ACTIVATIONS, Made, Parameters
from model.network.config import Kind, TransformerConfig
from model.runtime.errors import CheckpointError

TABLES = ("learned", "sinusoidal", "sinusoidal-halves", "none")  # what a table of positions can hold
PLAIN = tuple(ACTIVATIONS)
# What every family takes as it is, or what its weights can take over.
FREE = {
    *("source_vocabulary", "target_vocabulary", "d_model", "n_heads", "n_encoder_layers", "n_decoder_layers", "d_ff"),
    *("max_length", "dropout", "attention_dropout", "activation_dropout", "bias", "attention_bias", "tied_embeddings"),
    *("n_key_value_heads", "scale_embedding", "scale_attention", "scale_output", "position_base", "norm_epsilon"),
}


@dataclass(frozen=True)
class Family:
    """allowed: the values of options that it has, None: all; others must be as `TransformerConfig` has them by default.

    make: its config and its tensors. lacks: what else it has not.
    """

    title: str
    kind: Kind
    make: Callable[[Parameters], Made]
    allowed: dict[str, tuple[Any, ...] | None]
    lacks: Callable[[TransformerConfig], dict[str, Any]] = lambda _config: {}

    def missing(self, config: TransformerConfig) -> dict[str, Any]:
        """The options of a config that the family does not have, with their values."""
        found = self.lacks(config)
        for field in dataclasses.fields(config):
            name, value = field.name, getattr(config, field.name)
            known = self.allowed.get(name, None if name in FREE else (field.default,))
            if known is not None and value not in known:
                found[name] = value
        return found


def headless(config: TransformerConfig) -> dict[str, Any]:
    """BERT's head has a layer more than a plain one, which is left out: the embedding's matrix must do its work."""
    tied = config.tied_embeddings in ("output", "all") and not config.output_bias
    return {"output_head": "linear"} if config.output_head == "linear" and not tied else {}


Options = dict[str, tuple[Any, ...] | None]
DECODER: Options = {"norm": ("layer",), "norm_placement": ("pre",), "activation": PLAIN}
TURNED: Options = {"position": ("rotary",), "rotary_channels": None, "parallel": None}
GATED: Options = {"norm": ("rms",), "norm_placement": ("pre",), "activation": ("swiglu",), "position": ("rotary",)}
WIDE: Options = {"heads": None, "head_width": None}
ENCODER: Options = {"norm": ("layer",), "position": TABLES, "activation": PLAIN, "output_head": None}
POST: Options = {"norm": ("layer",), "norm_placement": ("post",), "activation": PLAIN, "norm_epsilon": (1e-5,)}
CURVES: Options = {"position": ("sinusoidal", "sinusoidal-halves"), "position_base": (10000.0,), "output_bias": None}
BERT: Options = {"norm_placement": ("post",), "embedding_norm": (True,), "output_bias": None}
MEGATRON: Options = {"norm_placement": ("pre",), "output_bias": None}
FAMILIES = (
    Family("GPT-2", "decoder-only", gpt2, DECODER | {"position": TABLES}),
    Family("GPT-NeoX", "decoder-only", gpt_neox, DECODER | TURNED),
    Family("Llama", "decoder-only", llama, GATED | WIDE),
    Family("BERT", "encoder-only", bert, ENCODER | BERT, headless),
    Family("Megatron-BERT", "encoder-only", bert, ENCODER | MEGATRON, headless),
    Family("Marian", "encoder-decoder", marian, POST | CURVES),
    Family("Megatron-BERT with GPT-2", "encoder-decoder", bert_to_gpt2, DECODER | {"position": TABLES}),
)


def counterpart(config: TransformerConfig) -> Family:
    """The family that has every option of the config.

    Raises:
        CheckpointError: there is none; the sentence names the options that the nearest one has not.
    """
    nearest = min((each for each in FAMILIES if each.kind == config.kind), key=lambda each: len(each.missing(config)))
    options = nearest.missing(config)
    if options:
        named = " and no ".join(f"{name} {value!r}" for name, value in options.items())
        raise CheckpointError(
            f"no family of Hugging Face computes what this model computes: the nearest, {nearest.title}, has no "
            f"{named}; keep it as a .zip of Vitrine's own folder instead"
        )
    return nearest
