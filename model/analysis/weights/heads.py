"""Matrices of attention heads: those of a file, by our names or the usual ones of others, and those of a model."""

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
from model.checkpoints.adapters import is_adapter
from model.checkpoints.bridge.missing import Reason
from model.checkpoints.bridge.modules import MirrorAttention
from model.checkpoints.convert.from_gguf import GgufModel, gguf_in
from model.checkpoints.load import merged_adapter, renamed_weights
from model.checkpoints.load_hints import LoadHints
from model.checkpoints.native import CONFIG, is_ours, read_config
from model.checkpoints.tensors import read_tensors
from model.network.attention import MultiHeadAttention, for_each_head
from model.network.config import Kind, TransformerConfig
from model.network.recurrent import Absence, AdditiveAttention
from model.network.transformer import Network
from model.runtime.errors import CheckpointError
from model.runtime.file_pages import FilePages
from model.runtime.room import asking
from model.runtime.untrusted_json import read_record

# Matrices (out, in) of attentions in transformers' own code: queries, keys, values, output.
NAMES = re.compile(
    r"^(?P<stack>.*?)\.(?P<layer>\d{1,4})\.(?P<within>(?:.*\.)?\w*[Aa]tt\w*\.(?:.*\.)?)"
    r"(?P<part>[qkvo](?:_proj)?|out_proj|c_proj|Wo|output\.dense|dense|query|key|value|query_key_value|qkv_proj|Wqkv|c_attn)"
    r"\.weight$"
)
PROJECTIONS = ("query", "key", "value", "output")
OF_HEADS = "comparing heads by their weights"
OUTPUT, PACK = 3, 4  # other numbers than those of queries, keys and values; a pack holds these three
PARTS = {
    alias: number for number, name in enumerate(PROJECTIONS[:OUTPUT]) for alias in (name, name[0], f"{name[0]}_proj")
}
PARTS |= dict.fromkeys(("query_key_value", "qkv_proj", "Wqkv", "c_attn"), PACK)
CROSS = re.compile(r"encoder_attn|cross|EncDec", re.I)
COUNTS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "{}_attention_heads")


def projection_of(name: str) -> int | None:
    """Number among `PROJECTIONS` of a tensor with a name of ours or of transformers; None where it is none of them."""
    if re.search(r"attention\.output\.weight$", name):  # ours
        return OUTPUT
    match = NAMES.match(name)
    number = PARTS.get(match["part"], OUTPUT) if match else PACK
    return None if number == PACK else number


@dataclass(frozen=True)
class Projection:
    """W_Q, W_K, W_V or W_O of a layer. columns: whether its heads lie along the second dimension; else they lie along
    the first, or all but the last.
    """

    weight: Tensor
    heads: int
    columns: bool


Layers = list[tuple[Projection, ...]]  # a layer's four, in the order of `PROJECTIONS`


def head_tensors(path: Path, hints: LoadHints, kind: Kind | None) -> dict[AttentionKind, Layers]:
    """Matrices of every kind of attention in a checkpoint, whose values stay in the file until they are used.

    hints: facts that the file lacks. kind: of a model that transformers runs.

    Raises:
        CheckpointError: it is no model, or has no names by which its matrices can be told apart.
    """
    if is_ours(path):
        layers = _renamed(read_config(path / CONFIG), read_tensors(path))
    elif (renamed := renamed_weights(path, hints)) is not None:
        layers = _renamed(*renamed)
    elif (gguf := gguf_in(path)) is not None:
        model = GgufModel(gguf, bounded=True)
        matrices = {info.name: info.load() for info in model.tensors if NAMES.match(info.name)}
        layers = _by_names(matrices, model.settings, kind)
    else:
        layers = _by_names(*_named(path, hints), kind)
    if not layers:
        raise CheckpointError(
            "{name} has no matrices of queries, keys, values and outputs by a known name: its heads are not told "
            "apart from its file",
            name=path.name,
        )
    return layers


def _named(path: Path, hints: LoadHints) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Weights by the file's names, of an adapter with its base, and the content of config.json."""
    if is_adapter(path):
        _base, _adapter, merged = merged_adapter(path, hints)
        return {info.name: info.load() for info in merged.table}, merged.settings
    return read_tensors(path), read_record(path / CONFIG)


def moved_heads(before: Layers, after: Layers) -> Float[Tensor, "number projection layer head"] | None:
    """‖B − A‖ / ‖A‖ and cosine of each head's part; None where numbers or shapes differ."""
    if [_shapes(layer) for layer in before] != [_shapes(layer) for layer in after]:
        return None
    layers, pages = [], FilePages()
    with asking(name=OF_HEADS):
        for one, two in zip(before, after, strict=True):
            layers.append(_moved(one, two))
            for projection in (*one, *two):
                pages.read(projection.weight)
        pages.let_go()
        return torch.stack(layers, dim=2)


def _moved(before: tuple[Projection, ...], after: tuple[Projection, ...]) -> Float[Tensor, "number projection head"]:
    """Relative change and cosine of a layer's heads; heads that share keys and values have the same ones."""
    rows = []
    for one, two in zip(before, after, strict=True):
        numbers = moved_per_head(one.weight, two.weight, one.heads, one.columns)
        rows.append(numbers.repeat_interleave(before[0].heads // one.heads, dim=1))
    return torch.stack(rows, dim=1)


def _shapes(layer: tuple[Projection, ...]) -> list[tuple[Any, ...]]:
    return [(tuple(projection.weight.shape), projection.heads) for projection in layer]


def _renamed(config: TransformerConfig, weights: Mapping[str, Tensor]) -> dict[AttentionKind, Layers]:
    """Matrices by our names."""
    heads = (config.n_heads, config.kv_heads, config.kv_heads, config.n_heads)
    kinds: dict[AttentionKind, Layers] = {}
    for kind in get_args(AttentionKind):
        for layer in range(config.n_encoder_layers if kind == "encoder" else config.n_decoder_layers):
            path = ATTENTION_PATHS[kind].format(layer)
            names = {projection: f"{path}.{projection}.weight" for projection in PROJECTIONS}
            if all(name in weights for name in names.values()):
                kinds.setdefault(kind, []).append(
                    tuple(
                        Projection(weights[name], count, projection == "output")
                        for (projection, name), count in zip(names.items(), heads, strict=True)
                    )
                )
    return kinds


def _by_names(
    weights: Mapping[str, Tensor], settings: Mapping[str, Any], kind: Kind | None
) -> dict[AttentionKind, Layers]:
    """Matrices by the names that most models of transformers share; a kind without all four of every layer is left
    out, and so is one that several stacks have.
    """
    matrices: dict[AttentionKind, dict[tuple[str, int], dict[int, Tensor]]] = {}
    for name, weight in weights.items():
        if (match := NAMES.match(name)) and weight.dim() == 2:
            layers = matrices.setdefault(_kind_of(match["stack"], match["within"], kind), {})
            parts = layers.setdefault((match["stack"], int(match["layer"])), {})
            parts[PARTS.get(match["part"], OUTPUT)] = weight
    kinds: dict[AttentionKind, Layers] = {}
    for attention, layers in matrices.items():
        counts = _counts(settings, "encoder" if attention == "encoder" else "decoder")
        if counts is None or len({stack for stack, _layer_ in layers}) > 1:
            continue
        projections = [_layer(layers[place], *counts, settings) for place in sorted(layers)]
        if all(projections):
            kinds[attention] = [layer for layer in projections if layer]
    return kinds


def _layer(
    parts: Mapping[int, Tensor], heads: int, shared: int, settings: Mapping[str, Any]
) -> tuple[Projection, ...] | None:
    """Projections of a layer, by numbers of `PARTS`; None where one is missing or the heads do not fit."""
    output = parts.get(OUTPUT)
    if parts.keys() == {OUTPUT, PACK} and output is not None:
        pieces = cut(parts[PACK], settings, heads, shared)
        if pieces is None:
            return None
        three, shared = pieces
        output = output.T if settings.get("model_type") in TRANSPOSED else output
        fits = three[0][..., 0].numel() == output.shape[1]
    elif parts.keys() == {0, 1, 2, OUTPUT} and output is not None:
        three = parts[0], parts[1], parts[2]
        fits = all(len(weight) % count == 0 for weight, count in zip(three, (heads, shared, shared), strict=True))
    else:
        return None
    if not fits or output.shape[1] % heads or heads % shared:
        return None
    inputs = [Projection(weight, count, False) for weight, count in zip(three, (heads, shared, shared), strict=True)]
    return (*inputs, Projection(output, heads, True))


def _kind_of(stack: str, within: str, kind: Kind | None) -> AttentionKind:
    if CROSS.search(within):
        return "cross"
    if "decoder" in stack or ("encoder" not in stack and kind != "encoder-only"):
        return "decoder"
    return "encoder"


def _counts(settings: Mapping[str, Any], stack: str) -> tuple[int, int] | None:
    """Numbers of heads of queries, and of keys and values, by a config.json; None where it has none."""
    config = {**settings, **_inner(settings, "text_config")}
    heads = next((count for name in COUNTS if (count := _positive(config.get(name.format(stack))))), None)
    shared = _positive(config.get("num_key_value_heads", _inner(config, "attn_config").get("kv_n_heads")))
    return None if heads is None else (heads, shared or heads)


def _positive(count: object) -> int | None:
    """A setting that is a positive integer, else None."""
    return count if type(count) is int and count > 0 else None


def _inner(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = settings.get(name)
    return inner if isinstance(inner, dict) else {}


# Sizes and similarities of heads, from the weights alone.

Circuit = Literal["scores", "output"]
MOST = 1 << 24  # numbers of all heads' products that are there at once


def attentions(network: Network) -> dict[str, MultiHeadAttention]:
    """Attentions of a model by module path, in the order of computation; of a bridged model only those whose matrices
    could be cut into heads, and none that is additive.
    """
    modules = {name: module for name, module in network.named_modules() if isinstance(module, MultiHeadAttention)}
    modules = {name: module for name, module in modules.items() if not isinstance(module, AdditiveAttention)}
    return {name: module for name, module in modules.items() if not isinstance(module, MirrorAttention) or module.parts}


def unclear(network: Network) -> Reason | Absence | None:
    """Reason why the heads of a model are not cut out of its matrices; None where they are."""
    if network.kind == "recurrent":
        return Absence.ADDITIVE
    bridged = (module for module in network.modules() if isinstance(module, MirrorAttention))
    return next((module.unclear for module in bridged if not module.parts), None)


def head_weights(attention: MultiHeadAttention, projection: str) -> Float[Tensor, "head channel d_model"]:
    """W_Q, W_K, W_V or transposed W_O of every head; heads that share keys and values have the same ones."""
    if isinstance(attention, MirrorAttention):
        return for_each_head(attention.parts[projection].weight.cpu(), attention.counts[0])
    weight = getattr(attention, projection).weight.detach().cpu()
    heads = attention.query.n_heads
    if projection == "output":
        columns: Tensor = weight.T.unflatten(0, (heads, -1))
        return columns
    return for_each_head(weight.unflatten(0, (getattr(attention, projection).n_heads, -1)), heads)


def head_norms(attention: MultiHeadAttention) -> Float[Tensor, "projection head"]:
    """Frobenius norms of every head's `PROJECTIONS`."""
    with asking(name=OF_HEADS):
        weights = (head_weights(attention, projection) for projection in PROJECTIONS)
        return torch.stack([torch.linalg.vector_norm(weight, dim=(1, 2), dtype=torch.float64) for weight in weights])


def head_similarity(attentions: Sequence[MultiHeadAttention], circuit: Circuit) -> Float[Tensor, "head head"]:
    """Cosine of every head's product of weights with every other's; heads of all attentions in order.

    scores: W_Qᵀ W_K, by which the contents of two tokens give a score; output: W_O W_V, by which a head moves contents
    from one token to another (Elhage et al., 2021, "A Mathematical Framework for Transformer Circuits"). Biases,
    positions and norms of queries are left out. The products (d_model, d_model) are computed some rows at a time. A
    head of zeros has cosine 0.

    Raises:
        NoRoomError: memory has no room for the matrices of all heads.
    """
    with asking(name=OF_HEADS):
        return _similarity(attentions, circuit)


def _similarity(attentions: Sequence[MultiHeadAttention], circuit: Circuit) -> Float[Tensor, "head head"]:
    left, right = ("query", "key") if circuit == "scores" else ("value", "output")
    first, second = _of_all(attentions, left), _of_all(attentions, right)
    dtype = torch.promote_types(first.dtype, torch.float32)
    first, second = first.to(dtype).transpose(1, 2).contiguous(), second.to(dtype)
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
    """Heads of several attentions in order; narrower ones get channels of zeros, which add nothing to a product."""
    weights = [head_weights(attention, projection) for attention in attentions]
    widest = max(weight.shape[1] for weight in weights)
    return torch.cat([F.pad(weight, (0, 0, 0, widest - weight.shape[1])) for weight in weights])


# Packings of queries, keys and values in one matrix, by the family's name, where only the file is open.
#
# `model.checkpoints.bridge.head_slices` finds the same in a model that runs; the tests compare both.

Three = tuple[Tensor, Tensor, Tensor]  # W_Q, W_K, W_V (head, channel, in); W_Q may have two dimensions of heads
Cut = Callable[[Tensor, int, int], Three]  # of a matrix (out, in), the number of heads, and of those of keys and values
TRANSPOSED = ("gpt2", "openai-gpt")  # GPT-2's Conv1D keeps (in, out)
DEVICES = 4  # for which CodeGen's matrices were cut


def in_blocks(weight: Tensor, heads: int, shared: int) -> Three:
    """Pieces of a matrix (out, in) with all queries, then all keys, then all values."""
    width = len(weight) // (heads + 2 * shared)
    cut = weight.unflatten(0, (heads + 2 * shared, width))
    return cut[:heads], cut[heads : heads + shared], cut[heads + shared :]


def in_groups(weight: Tensor, heads: int, shared: int) -> Three:
    """Pieces of a matrix (out, in) with the queries, the key and the value of each group of heads."""
    cut = weight.unflatten(0, (shared, heads // shared + 2, -1))
    return cut[:, :-2], cut[:, -2], cut[:, -1]


def by_devices(weight: Tensor, heads: int, _shared: int) -> Three:
    """Pieces of a matrix (out, in) with the queries, values and keys of each device's heads, one after another."""
    cut = weight.unflatten(0, (DEVICES, 3, heads // DEVICES, -1))
    return cut[:, 0], cut[:, 2], cut[:, 1]


CUTS: dict[str, Cut] = {
    **dict.fromkeys(("gpt2", "openai-gpt", "phi3", "mpt", "modernbert", "dbrx"), in_blocks),
    **dict.fromkeys(("gpt_neox", "gpt_neox_japanese", "bloom"), in_groups),
    "codegen": by_devices,
}


def cut(weight: Tensor, settings: Mapping[str, Any], heads: int, shared: int) -> tuple[Three, int] | None:
    """W_Q, W_K and W_V of a packed matrix (out, in), and the number of heads of keys and values.

    None where the family's packing is not known, or the rows do not fit the numbers of heads. settings: config.json.
    """
    family = settings.get("model_type")
    packing = CUTS.get(str(family))
    if family in ("falcon", "gpt_bigcode"):
        packing, shared = _one_or_many(settings, heads)
    rows = weight.T if family in TRANSPOSED else weight
    if packing is None or not rows.numel() or max(heads, shared) > len(rows):
        return None
    try:
        return packing(rows, heads, shared), shared
    except (RuntimeError, ZeroDivisionError):  # rows that these heads do not divide
        return None


def _one_or_many(settings: Mapping[str, Any], heads: int) -> tuple[Cut, int]:
    """Packing and number of keys and values of families whose models differ: one for all heads (Shazeer, 2019), some,
    or one for each head.
    """
    if settings.get("new_decoder_architecture"):
        return in_groups, _positive(settings.get("num_kv_heads")) or heads
    return (in_blocks, 1) if settings.get("multi_query", True) else (in_groups, heads)
