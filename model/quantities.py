"""What the quantities of a trace are called."""

from __future__ import annotations

from typing import Literal

from model.attention import MAPS

AttentionKind = Literal["encoder", "decoder", "cross"]
ATTENTION_PATHS: dict[str, str] = {
    "encoder": "encoder.layers.{}.self_attention",
    "decoder": "decoder.layers.{}.self_attention",
    "cross": "decoder.layers.{}.cross_attention",
}
# Modules of these names compute something worth seeing; their path is the quantity's name.
OBSERVED = frozenset(
    {"query", "key", "value", "heads", "output", "bias", *MAPS}
    | {"hidden", "activation", "residual", "tokens", "positions", "logits"}
    | {"linear", "gated", "transform"}
)
