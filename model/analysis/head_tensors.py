"""Which part of which matrix of a file is which head's: of ours, of what is put together as ours, and by names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from model.analysis.head_weights import PROJECTIONS
from model.analysis.moved import moved_per_head
from model.checkpoints import CONFIG, is_ours
from model.config import Kind, TransformerConfig
from model.errors import CheckpointError
from model.foreign.opening import renamed_weights
from model.foreign.told import Told
from model.safe_folder import read_config
from model.safe_json import read_record
from model.tensors import read_tensors
from model.trace import ATTENTION_PATHS, AttentionKind

# Matrices (out, in) of attentions in transformers' own code: queries, keys, values, output.
NAMES = re.compile(
    r"^(?P<stack>.*?)\.(?P<layer>\d{1,4})\.(?P<within>(?:.*\.)?\w*att\w*\.(?:.*\.)?)"
    r"(?P<part>[qkvo]_proj|out_proj|output\.dense|dense|query|key|value)\.weight$"
)
PARTS = {"q_proj": 0, "query": 0, "k_proj": 1, "key": 1, "v_proj": 2, "value": 2}  # others are the output, 3
CROSS = re.compile(r"encoder_attn|cross|EncDec", re.I)
COUNTS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "{}_attention_heads")


@dataclass(frozen=True)
class Projection:
    """W_Q, W_K, W_V or W_O of a layer. columns: whether its heads lie along the second dimension."""

    weight: Tensor
    heads: int
    columns: bool


Layers = list[tuple[Projection, ...]]  # a layer's four, in the order of `PROJECTIONS`


def head_tensors(path: Path, told: Told, kind: Kind | None) -> dict[AttentionKind, Layers]:
    """The matrices of every kind of attention, their values still in the file.

    told: of what the file does not say. kind: of a model that transformers runs.

    Raises:
        CheckpointError: it is no model, or nothing tells which matrix is whose.
    """
    if is_ours(path):
        found = _renamed(read_config(path / CONFIG), read_tensors(path))
    elif (renamed := renamed_weights(path, told)) is not None:
        found = _renamed(*renamed)
    else:
        found = _by_names(read_tensors(path), read_record(path / CONFIG), kind)
    if not found:
        raise CheckpointError(
            f"{path.name} has no matrices of queries, keys, values and outputs by a known name: its heads are not told "
            "apart from its file"
        )
    return found


def moved_heads(before: Layers, after: Layers) -> Float[Tensor, "projection layer head"] | None:
    """‖B − A‖ / ‖A‖ of each head's part; None where they are not of the same number and shapes."""
    if [_shapes(layer) for layer in before] != [_shapes(layer) for layer in after]:
        return None
    return torch.stack([_moved(one, two) for one, two in zip(before, after, strict=True)], dim=1)


def _moved(before: tuple[Projection, ...], after: tuple[Projection, ...]) -> Float[Tensor, "projection head"]:
    """Heads that share keys and values have moved equally far."""
    rows = []
    for one, two in zip(before, after, strict=True):
        changes = moved_per_head(one.weight, two.weight, one.heads, one.columns)[0]
        rows.append(changes.repeat_interleave(before[0].heads // len(changes)))
    return torch.stack(rows)


def _shapes(layer: tuple[Projection, ...]) -> list[tuple[Any, ...]]:
    return [(tuple(each.weight.shape), each.heads) for each in layer]


def _renamed(config: TransformerConfig, weights: Mapping[str, Tensor]) -> dict[AttentionKind, Layers]:
    """By our names."""
    heads = (config.n_heads, config.kv_heads, config.kv_heads, config.n_heads)
    found: dict[AttentionKind, Layers] = {}
    for kind in get_args(AttentionKind):
        layers = []
        for layer in range(config.n_encoder_layers if kind == "encoder" else config.n_decoder_layers):
            names = [f"{ATTENTION_PATHS[kind].format(layer)}.{each}.weight" for each in PROJECTIONS]
            if all(name in weights for name in names):
                parts = zip(names, heads, range(4), strict=True)
                layers.append(tuple(Projection(weights[name], count, at == 3) for name, count, at in parts))
        if layers:
            found[kind] = layers
    return found


def _by_names(
    weights: Mapping[str, Tensor], settings: Mapping[str, Any], kind: Kind | None
) -> dict[AttentionKind, Layers]:
    """By the names that most models of transformers share; a kind without all four of every layer is left out."""
    matrices: dict[AttentionKind, dict[tuple[str, int], dict[int, Tensor]]] = {}
    for name, weight in weights.items():
        if (match := NAMES.match(name)) and weight.dim() == 2:
            whose = _kind_of(match["stack"], match["within"], kind)
            own = matrices.setdefault(whose, {}).setdefault((match["stack"], int(match["layer"])), {})
            own[PARTS.get(match["part"], 3)] = weight
    found: dict[AttentionKind, Layers] = {}
    for whose, layers in matrices.items():
        counts = _counts(settings, "encoder" if whose == "encoder" else "decoder")
        made = [_layer(layers[place], counts) for place in sorted(layers)]
        if counts and len({stack for stack, _layer_ in layers}) == 1 and all(made):
            found[whose] = [layer for layer in made if layer]
    return found


def _layer(parts: Mapping[int, Tensor], counts: tuple[int, int] | None) -> tuple[Projection, ...] | None:
    if counts is None or parts.keys() != {0, 1, 2, 3}:
        return None
    heads = (counts[0], counts[1], counts[1], counts[0])
    made = tuple(Projection(parts[at], count, at == 3) for at, count in enumerate(heads))
    fits = all(each.weight.shape[int(each.columns)] % each.heads == 0 for each in made)
    return made if fits and counts[0] % counts[1] == 0 else None


def _kind_of(stack: str, within: str, kind: Kind | None) -> AttentionKind:
    if CROSS.search(within):
        return "cross"
    if "decoder" in stack or ("encoder" not in stack and kind != "encoder-only"):
        return "decoder"
    return "encoder"


def _counts(settings: Mapping[str, Any], stack: str) -> tuple[int, int] | None:
    """How many heads there are, and how many of keys and values."""
    inner = settings.get("text_config")
    said = {**settings, **(inner if isinstance(inner, dict) else {})}
    numbers = [said.get(name.format(stack)) for name in COUNTS]
    heads = next((each for each in numbers if type(each) is int and each > 0), None)
    shared = said.get("num_key_value_heads")
    return None if heads is None else (heads, shared if type(shared) is int and shared > 0 else heads)
