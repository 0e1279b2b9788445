"""Which part of which matrix of a file is which head's: of ours, of what is put together as ours, and by names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from model.analysis.weights.movement import moved_per_head
from model.capture.trace import ATTENTION_PATHS, AttentionKind
from model.checkpoints.bridge.missing import Reason
from model.checkpoints.bridge.modules import MirrorAttention
from model.checkpoints.load import renamed_weights
from model.checkpoints.load_hints import LoadHints
from model.checkpoints.native import CONFIG, is_ours, read_config
from model.checkpoints.tensors import read_tensors
from model.network.attention import MultiHeadAttention, for_each_head
from model.network.config import Kind, TransformerConfig
from model.network.transformer import Network
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


def head_tensors(path: Path, told: LoadHints, kind: Kind | None) -> dict[AttentionKind, Layers]:
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


# The heads of attention as matrices: how large they are and which are alike, from the weights alone.

PROJECTIONS = ("query", "key", "value", "output")
Circuit = Literal["scores", "output"]
MOST = 1 << 24  # numbers of all heads' products that are there at once


def attentions(network: Network) -> dict[str, MultiHeadAttention]:
    """Every attention of the model by its module path, in the order of computation: of a bridged model those whose
    matrices could be cut into heads.
    """
    found = {name: module for name, module in network.named_modules() if isinstance(module, MultiHeadAttention)}
    return {name: module for name, module in found.items() if not isinstance(module, MirrorAttention) or module.parts}


def unclear(network: Network) -> Reason | None:
    """Why the heads of a bridged model are not cut out of its matrices."""
    bridged = (module for module in network.modules() if isinstance(module, MirrorAttention))
    return next((module.unclear for module in bridged if not module.parts), None)


def head_weights(attention: MultiHeadAttention, projection: str) -> Float[Tensor, "head channel d_model"]:
    """W_Q, W_K, W_V or W_O of every head, W_O transposed; heads that share keys and values have the same ones."""
    if isinstance(attention, MirrorAttention):
        return for_each_head(attention.parts[projection].weight.cpu(), attention.counts[0])
    weight = getattr(attention, projection).weight.detach().cpu()
    heads = attention.query.n_heads
    if projection == "output":
        return weight.T.unflatten(0, (heads, -1))
    own = weight.unflatten(0, (getattr(attention, projection).n_heads, -1))
    return for_each_head(own, heads)


def head_norms(attention: MultiHeadAttention) -> Float[Tensor, "projection head"]:
    """The Frobenius norm of W_Q, W_K, W_V and W_O of every head, in this order (`PROJECTIONS`)."""
    weights = [head_weights(attention, projection) for projection in PROJECTIONS]
    return torch.stack([torch.linalg.vector_norm(each, dim=(1, 2), dtype=torch.float64) for each in weights])


def head_similarity(attentions: Sequence[MultiHeadAttention], circuit: Circuit) -> Float[Tensor, "head head"]:
    """The cosine of every head's product of weights with every other's, heads of all the given attentions in order.

    scores: W_Qᵀ W_K, which makes scores of what two tokens hold; output: W_O W_V, which head moves what from one token
    to the other (Elhage et al., 2021). Biases, positions and norms of queries are left out. The (d_model, d_model)
    products are made some rows at a time. A head of zeros has cosine 0.
    """
    left, right = ("query", "key") if circuit == "scores" else ("value", "output")
    first, second = _of_all(attentions, left), _of_all(attentions, right)
    kept = torch.promote_types(first.dtype, torch.float32)
    first, second = first.to(kept).transpose(1, 2).contiguous(), second.to(kept)
    heads, rows = first.shape[:2]
    at_once = max(1, MOST // (heads * second.shape[2]))
    products = torch.zeros(heads, heads, dtype=torch.float64)
    for begin in range(0, rows, at_once):
        part = (first[:, begin : begin + at_once] @ second).flatten(1)
        products += part @ part.T
    lengths = products.diagonal().clamp(min=0).sqrt()
    scale = torch.where(lengths > 0, 1 / lengths, 0.0)
    return products * scale[:, None] * scale


def _of_all(attentions: Sequence[MultiHeadAttention], projection: str) -> Float[Tensor, "head channel d_model"]:
    """The heads of several attentions in a row; narrower ones get channels of zeros, which add nothing to a product."""
    weights = [head_weights(each, projection) for each in attentions]
    widest = max(each.shape[1] for each in weights)
    return torch.cat([F.pad(each, (0, 0, 0, widest - each.shape[1])) for each in weights])


# How families pack the queries, keys and values of an attention into one matrix, where only its file is open.
#
# `model.checkpoints.bridge.heads` finds the same in a model that runs; the tests hold both against each other.

Three = tuple[Tensor, Tensor, Tensor]  # W_Q, W_K, W_V; their heads are the first dimensions, of W_Q two where grouped
Cut = Callable[[Tensor, int, int], Three]  # of a matrix (out, in), the number of heads, and of those of keys and values
TRANSPOSED = ("gpt2", "openai-gpt")  # GPT-2's Conv1D keeps (in, out)
DEVICES = 4  # for which CodeGen's matrices were cut


def in_blocks(weight: Tensor, heads: int, shared: int) -> Three:
    """All queries, all keys, all values."""
    width = len(weight) // (heads + 2 * shared)
    cut = weight.unflatten(0, (heads + 2 * shared, width))
    return cut[:heads], cut[heads : heads + shared], cut[heads + shared :]


def in_groups(weight: Tensor, heads: int, shared: int) -> Three:
    """Group by group, its queries, its key and its value; of heads that share nothing a group is one head."""
    cut = weight.unflatten(0, (shared, heads // shared + 2, -1))
    return cut[:, :-2], cut[:, -2], cut[:, -1]


def by_devices(weight: Tensor, heads: int, _shared: int) -> Three:
    """For each device the queries, values and keys of its heads."""
    cut = weight.unflatten(0, (DEVICES, 3, heads // DEVICES, -1))
    return cut[:, 0], cut[:, 2], cut[:, 1]


CUTS: dict[str, Cut] = {
    **dict.fromkeys(("gpt2", "openai-gpt", "phi3", "mpt", "modernbert", "dbrx"), in_blocks),
    **dict.fromkeys(("gpt_neox", "gpt_neox_japanese", "bloom"), in_groups),
    "codegen": by_devices,
}


def cut(weight: Tensor, settings: Mapping[str, Any], heads: int, shared: int) -> tuple[Three, int] | None:
    """The three matrices and how many heads keys and values have; None where the family's packing is not known, or
    the matrix has not as many rows.
    """
    family = settings.get("model_type")
    how = CUTS.get(str(family))
    if family in ("falcon", "gpt_bigcode"):
        how, shared = _one_or_many(settings, heads)
    rows = weight.T if family in TRANSPOSED else weight
    if how is None or not rows.numel() or max(heads, shared) > len(rows):
        return None
    try:
        return how(rows, heads, shared), shared
    except (RuntimeError, ZeroDivisionError):  # rows that these heads do not divide
        return None


def _one_or_many(settings: Mapping[str, Any], heads: int) -> tuple[Cut, int]:
    """Of families whose models differ: one key and value for all heads (Shazeer, 2019), some, or one for each."""
    if settings.get("new_decoder_architecture"):
        some = settings.get("num_kv_heads")
        return in_groups, some if type(some) is int and some > 0 else heads
    return (in_blocks, 1) if settings.get("multi_query", True) else (in_groups, heads)
