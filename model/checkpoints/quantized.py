"""Weights that a file keeps in few bits: FP8 times its scales is computed; codes, whole numbers, are no weights and are
refused by the name of what wrote them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from torch import Tensor

from model.checkpoints.tensors import BUFFER, TABLE, TensorInfo, is_of_training
from model.runtime.errors import CheckpointError

# Ends of names that only codes, or what turns them into weights, have; by what writes them.
WRITERS = {
    "bitsandbytes in 8 bits": r"\.(SCB|CB|weight_format)",
    "bitsandbytes in 4 bits": r"\.(nested_)?(absmax|quant_map)|\.quant_state(\..*)?",
    "GPTQ": r"\.g_idx",
    "AWQ or GPTQ": r"\.(qweight|qzeros)",
    "compressed-tensors": r"\.weight_(packed|shape|zero_point|g_idx)",
    "NVFP4": r"\.weight_(scale_2|global_scale)",
    "MXFP4": r"\.(\w+_)?blocks",
    "AQLM": r"\.codebooks",
    "QuIP#": r"\.(Qidxs\w*|codebook_id)",
    "VPTQ": r"\.(res_|outlier_)?centroids\.weight",
    "Quanto": r"\.weight\._(data|scale|shift)(\..*)?",
    "torchao": r".*weight\W?_?(qdata|int_data|scale_and_zero|tensor_impl)\w*",
    "EETQ": r"\.weight_scales",
}
ENDS = re.compile(f"(.*)({'|'.join(WRITERS.values())})")
MLX = (".scales", ".biases")  # beside a weight of whole numbers
WHOLE = re.compile(r"q?u?int\w+|bits\w+|float4\w*|bool")
LONG = ("int64", "bool")  # of indices and masks more often than of codes
# Whole numbers that are no codes: masks, indices, counts.
COUNTS = re.compile(
    r"mask|_ids?$|_index$|indices|bucket|position|(^|[._])(step|steps|epoch|version|count|counter|length|seen|size|pos|"
    r"seed|num_\w+|tril|_extra_state)$"
)
FLOAT8 = "float8"
SCALES = ("{}_scale_inv", "{}_scale", "{stem}.scale_weight", "{stem}.scale")  # each multiplies the weight
# Of the inputs of a layer, or of keys and values in a cache: they change nothing where these are not rounded.
OF_INPUTS = re.compile(
    r"(^|\.)(input_scale(_ub)?|activation_scale|scale_input|[qkv]_scale|kv_scale|output_scale|prob_output_scale|"
    r"scaled_fp8)$"
)
BLOCK = 128  # rows and columns of a block where nothing says it, as in DeepSeek-V3
ROUNDED = "weights of 8 bits (FP8) are multiplied by their scales; inputs of layers are not rounded to 8 bits"
UNSCALED = "weights of 8 bits (FP8) are taken as they are (there are no scales)"


def plain_weights(
    table: Sequence[TensorInfo], settings: Mapping[str, Any], name: str
) -> tuple[list[TensorInfo], dict[str, Any]]:
    """Tensors of a folder without its scales, FP8 weights multiplied by them when they are loaded; and the settings,
    without those of a quantization that is then undone. What is not quantized comes back as it is.

    name: of the folder, for sentences.

    Raises:
        CheckpointError: there are codes that are not turned into weights here, and nothing in the settings by which
            transformers might; or an FP8 weight has no scale, or one that does not fit.
    """
    quantization, by_name = settings.get("quantization_config"), {info.name: info for info in table}
    scales = {info.name: scale for info in table if (scale := _scale_of(info, by_name))}
    if scales:
        blocks, used = _block_sizes(quantization), {scale.name for scale in scales.values()}
        table = [
            _scaled(info, scales[info.name], blocks, name) if info.name in scales else info
            for info in table
            if info.name not in used and not OF_INPUTS.search(info.name)
        ]
    bare = [info.name for info in table if info.dtype.startswith(FLOAT8) and not info.loaded]
    if bare and quantization:
        raise CheckpointError(
            "{file}: {bare} is of 8 bits (FP8) and has no scale beside it, which its config.json speaks of: get "
            "all of its files again",
            file=name,
            bare=bare[0],
        )
    if scales and not _codes(table):
        settings = {key: value for key, value in settings.items() if key != "quantization_config"}
    elif (
        not isinstance(quantization, dict) or "quant_method" not in quantization
    ):  # by which transformers finds its code
        require_no_codes(table, name)
    return list(table), dict(settings)


def require_no_codes(table: Iterable[TensorInfo], name: str) -> None:
    """Refuse tensors among which there are codes in the place of weights. name: of the file or folder.

    Raises:
        CheckpointError: there are; the sentence names the quantization.
    """
    if codes := _codes(list(table)):
        _refuse(name, *codes)


def _refuse(name: str, kind: str, info: TensorInfo) -> NoReturn:
    raise CheckpointError(
        "{file} is quantized ({kind}): {name} ({values}) belongs to codes, from which weights are not computed "
        "here: open the model that it was made from; its tensors can be looked at under Checkpoints → Read",
        file=name,
        kind=kind,
        name=info.name,
        values=info.values,
    )


def fp8_notes(table: Iterable[TensorInfo]) -> list[str]:
    """Assumptions about FP8 weights, as a `plain_weights` table has them."""
    loaded = {bool(info.loaded) for info in table if info.dtype.startswith(FLOAT8)}
    return [ROUNDED] * (True in loaded) + [UNSCALED] * (False in loaded)


def _codes(table: Sequence[TensorInfo]) -> tuple[str, TensorInfo] | None:
    """Name of a quantization, and a tensor that holds codes or belongs to them; None: there are none."""
    names = {info.name: info for info in table}
    ends = [info for info in table if ENDS.fullmatch(info.name)]
    for kind, end in WRITERS.items():
        code = next((info for info in ends if re.fullmatch(f"(.*)({end})", info.name)), None)
        if code is not None:
            return kind, code
    for info in table:
        if info.dtype.startswith(FLOAT8) and _scale_of(info, names):
            return "FP8", info
        if _is_whole(info):
            stem, _dot, last = info.name.rpartition(".")
            kind = "MLX" if any(f"{stem}{end}" in names for end in MLX) else "HQQ" if last == "W_q" else "whole numbers"
            return kind, info
    return None


def _is_whole(info: TensorInfo) -> bool:
    """True if a tensor that would be a weight has whole numbers."""
    if not WHOLE.fullmatch(info.values) or is_of_training(info.name):
        return False
    if BUFFER.search(info.name) or TABLE.search(info.name) or COUNTS.search(info.name):
        return False
    return info.name.endswith(("weight", "bias")) or (len(info.shape) > 1 and info.values not in LONG)


def _scale_of(info: TensorInfo, names: Mapping[str, TensorInfo]) -> TensorInfo | None:
    """Scale of an FP8 weight, by its name; None: it is of another type, or has none."""
    if not info.dtype.startswith(FLOAT8) or info.loaded:
        return None
    stem = info.name.removesuffix(".weight")
    return next((names[scale] for end in SCALES if (scale := end.format(info.name, stem=stem)) in names), None)


def _block_sizes(quantization: Any) -> list[int]:
    """Rows and columns of a block by a quantization_config; empty where it does not say them."""
    waiting: list[Any] = [quantization]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for key in ("weight_block_size", "block_structure"):
                sizes = value.get(key)
                if isinstance(sizes, list) and sizes and all(type(size) is int and size > 0 for size in sizes):
                    return sizes
            waiting += value.values()
    return []


def _scaled(info: TensorInfo, scale: TensorInfo, blocks: Sequence[int], name: str) -> TensorInfo:
    """An FP8 weight times its scale.

    Raises:
        CheckpointError: the scale is in whole numbers, or has some for blocks that cannot be told.
    """
    if WHOLE.fullmatch(scale.values):  # exponents, as of MX formats
        _refuse(name, "FP8", scale)
    shape, of_scale = info.shape, scale.shape
    if math.prod(of_scale) == 1:
        of_scale = (1,) * len(shape)
    elif len(of_scale) == 1 and of_scale[0] == shape[0]:
        of_scale = (*of_scale, *(1,) * (len(shape) - 1))
    whole = (*(1,) * (len(shape) - len(blocks)), *blocks) if len(blocks) <= len(shape) else ()
    sizes = [
        _block(count, parts, whole[place] if whole else 0)
        for place, (count, parts) in enumerate(zip(shape, of_scale, strict=False))
    ]
    if len(of_scale) != len(shape) or not all(sizes):
        raise CheckpointError(
            "{name}: {name_2} has shape {shape}, which is none of scales for {name_3} {shape_2}: get all of its "
            "files again",
            name=name,
            name_2=scale.name,
            shape=scale.shape,
            name_3=info.name,
            shape_2=shape,
        )
    load = partial(_product, info.load, scale.load, of_scale, sizes)
    return replace(info, load=load, loaded="float32")


def _block(count: int, parts: int, configured: int) -> int:
    """Rows, or columns, that share a scale; 0: none is known by which there are so many parts."""
    if parts in (1, count):
        return count // parts if parts else 0
    sizes = [configured, BLOCK, count // parts if parts and count % parts == 0 else 0]
    return next((size for size in sizes if size and -(-count // size) == parts), 0)


def _product(
    codes: Callable[[], Tensor], scale: Callable[[], Tensor], shape: Sequence[int], sizes: Sequence[int]
) -> Tensor:
    """Weights in float32. shape: of the scale. sizes: of the blocks."""
    weight, factors = codes().float(), scale().float().reshape(tuple(shape))
    for place, size in enumerate(sizes):
        if size > 1 and factors.shape[place] > 1:
            factors = factors.repeat_interleave(size, place).narrow(place, 0, weight.shape[place])
    return weight * factors
