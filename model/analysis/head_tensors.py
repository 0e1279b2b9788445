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
from model.analysis.packed_heads import TRANSPOSED, cut
from model.capture.trace import ATTENTION_PATHS, AttentionKind
from model.checkpoints.hints import Told
from model.checkpoints.load import renamed_weights
from model.checkpoints.native import CONFIG, is_ours, read_config
from model.checkpoints.tensors import read_tensors
from model.network.config import Kind, TransformerConfig
from model.runtime.errors import CheckpointError
from model.runtime.untrusted_json import read_record

# Matrices (out, in) of attentions in transformers' own code: queries, keys, values, output.
NAMES = re.compile(
    r"^(?P<stack>.*?)\.(?P<layer>\d{1,4})\.(?P<within>(?:.*\.)?\w*[Aa]tt\w*\.(?:.*\.)?)"
    r"(?P<part>[qkvo](?:_proj)?|out_proj|c_proj|Wo|output\.dense|dense|query|key|value|query_key_value|qkv_proj|Wqkv|c_attn)"
    r"\.weight$"
)
MADE = ("query", "key", "value")
PARTS = {
    name: MADE.index(each) for each in MADE for name in (each, each[0], f"{each[0]}_proj")
}  # others: the output, 3
PACK = 4
PARTS |= dict.fromkeys(("query_key_value", "qkv_proj", "Wqkv", "c_attn"), PACK)
CROSS = re.compile(r"encoder_attn|cross|EncDec", re.I)
COUNTS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "{}_attention_heads")


def projection_of(name: str) -> int | None:
    """Which of `PROJECTIONS` a tensor of that name is, as ours and as transformers' code call them."""
    if re.search(r"attention\.output\.weight$", name):  # ours
        return 3
    found = NAMES.match(name)
    place = PARTS.get(found["part"], 3) if found else PACK
    return None if place == PACK else place


@dataclass(frozen=True)
class Projection:
    """W_Q, W_K, W_V or W_O of a layer. columns: whether its heads lie along the second dimension, else along the first,
    or all but the last.
    """

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


def moved_heads(before: Layers, after: Layers) -> Float[Tensor, "number projection layer head"] | None:
    """‖B − A‖ / ‖A‖ of each head's part, and the cosine; None where they are not of the same number and shapes."""
    if [_shapes(layer) for layer in before] != [_shapes(layer) for layer in after]:
        return None
    return torch.stack([_moved(one, two) for one, two in zip(before, after, strict=True)], dim=2)


def _moved(before: tuple[Projection, ...], after: tuple[Projection, ...]) -> Float[Tensor, "number projection head"]:
    """Heads that share keys and values have moved equally far."""
    rows = []
    for one, two in zip(before, after, strict=True):
        numbers = moved_per_head(one.weight, two.weight, one.heads, one.columns)
        rows.append(numbers.repeat_interleave(before[0].heads // one.heads, dim=1))
    return torch.stack(rows, dim=1)


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
        made = [_layer(layers[place], counts, settings) for place in sorted(layers)]
        if counts and len({stack for stack, _layer_ in layers}) == 1 and all(made):
            found[whose] = [layer for layer in made if layer]
    return found


def _layer(
    parts: Mapping[int, Tensor], counts: tuple[int, int] | None, settings: Mapping[str, Any]
) -> tuple[Projection, ...] | None:
    if counts is None:
        return None
    heads, shared = counts
    output = parts.get(3)
    if parts.keys() == {3, PACK} and output is not None:
        found = cut(parts[PACK], settings, heads, shared)
        if found is None:
            return None
        three, shared = found
        output = output.T if settings.get("model_type") in TRANSPOSED else output
        fits = three[0][..., 0].numel() == output.shape[1]
    elif parts.keys() == {0, 1, 2, 3} and output is not None:
        three = parts[0], parts[1], parts[2]
        fits = all(len(each) % count == 0 for each, count in zip(three, (heads, shared, shared), strict=True))
    else:
        return None
    if not fits or output.shape[1] % heads or heads % shared:
        return None
    own = [Projection(each, count, False) for each, count in zip(three, (heads, shared, shared), strict=True)]
    return (*own, Projection(output, heads, True))


def _kind_of(stack: str, within: str, kind: Kind | None) -> AttentionKind:
    if CROSS.search(within):
        return "cross"
    if "decoder" in stack or ("encoder" not in stack and kind != "encoder-only"):
        return "decoder"
    return "encoder"


def _counts(settings: Mapping[str, Any], stack: str) -> tuple[int, int] | None:
    """How many heads there are, and how many of keys and values."""
    said = {**settings, **_inner(settings, "text_config")}
    numbers = [said.get(name.format(stack)) for name in COUNTS]
    heads = next((each for each in numbers if type(each) is int and each > 0), None)
    shared = said.get("num_key_value_heads", _inner(said, "attn_config").get("kv_n_heads"))
    return None if heads is None else (heads, shared if type(shared) is int and shared > 0 else heads)


def _inner(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = settings.get(name)
    return inner if isinstance(inner, dict) else {}
