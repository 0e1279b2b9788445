"""The models whose forward pass is measured: ours, and GPT-2 in other libraries, of the same sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from model.capture.trace import record
from model.fast import install
from model.network.config import TransformerConfig
from model.network.transformer import Transformer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

install()

LENGTHS = (16, 128, 512, 1024)


@dataclass(frozen=True)
class Size:
    name: str
    d_model: int
    n_heads: int
    layers: int  # in all
    d_ff: int
    vocabulary: int


SIZES = (Size("tiny", 128, 4, 8, 512, 1000), Size("small", 768, 12, 12, 3072, 8000))

Forward = Callable[[Tensor], object]  # gives back whatever it recorded, which keeps it alive


def vitrine(size: Size) -> dict[str, Forward]:
    config = TransformerConfig(
        source_vocabulary=size.vocabulary,
        target_vocabulary=size.vocabulary,
        d_model=size.d_model,
        n_heads=size.n_heads,
        n_encoder_layers=size.layers // 2,
        n_decoder_layers=size.layers // 2,
        d_ff=size.d_ff,
        max_length=max(LENGTHS),
        norm_placement="pre",
        activation="gelu",
        tied_embeddings="output",
    )
    bare, model = Transformer(config).eval(), Transformer(config).eval()
    model.load_state_dict(bare.state_dict(), assign=True)

    def recorded(ids: Tensor, maps: bool = False) -> object:
        with record(model, maps=maps) as trace:
            return model(ids, ids), trace

    return {
        "bare": lambda ids: bare(ids, ids),
        "recorded": recorded,
        "all maps": lambda ids: recorded(ids, maps=True),
    }


def gpt2(size: Size, attention: str) -> PreTrainedModel:
    """GPT-2 of this size with random weights; nothing is downloaded."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=size.vocabulary,
        n_positions=max(LENGTHS),
        n_embd=size.d_model,
        n_head=size.n_heads,
        n_layer=size.layers,
        n_inner=size.d_ff,
        activation_function="gelu",
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel._from_config(config, attn_implementation=attention).eval()


def hugging_face(size: Size) -> dict[str, Forward]:
    bare, eager = gpt2(size, "sdpa"), gpt2(size, "eager")
    eager.load_state_dict(bare.state_dict(), assign=True)

    def recorded(ids: Tensor) -> object:
        outputs = eager(ids, use_cache=False, output_attentions=True, output_hidden_states=True)
        assert len(outputs.attentions) == size.layers
        return outputs

    return {"bare": lambda ids: bare(ids, use_cache=False), "recorded": recorded}


def transformer_model(size: Size) -> dict[str, Forward]:
    """TransformerLens 4 around the same GPT-2; its bare forward is eager too."""
    from transformer_model.model_bridge.sources import build_bridge_from_module

    model = gpt2(size, "eager")
    bridge = build_bridge_from_module(model, "GPT2LMHeadModel", hf_config=model.config)
    return {"bare": bridge, "recorded": bridge.run_with_cache}


SUBJECTS: dict[str, Callable[[Size], dict[str, Forward]]] = {
    "Vitrine": vitrine,
    "Hugging Face": hugging_face,
    "TransformerLens": transformer_model,
}
NEEDS = {"Hugging Face": "transformers", "TransformerLens": "transformer_model"}


def tokens(size: Size, length: int) -> Tensor:
    return torch.arange(length)[None] % size.vocabulary
