"""Our own folder as a stranger may have made it: what its config claims is compared with the weights' header first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import torch

from model.config import TransformerConfig
from model.errors import CheckpointError
from model.safe_json import parse_json, read_bytes
from model.transformer import build

LARGEST_CONFIG = 1 << 20  # bytes
MOST_LAYERS = 512
LARGEST_TABLE = 1 << 25  # numbers in a table of positions, which no file holds


def read_config(path: Path) -> TransformerConfig:
    """The config in a config.json of ours.

    Raises:
        CheckpointError: it is not JSON, or an option is not one or out of its range.
    """
    content = read_bytes(path, LARGEST_CONFIG)
    parse_json(content, path.name)
    try:
        return TransformerConfig.from_json(content.decode("utf-8"))
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{path.name}: {error}") from error


def require_weights(config: TransformerConfig, shapes: Mapping[str, tuple[int, ...]], name: str) -> None:
    """Refuse a config that asks for other weights than those of the file, before any memory is taken for them.

    shapes: of each tensor in the file. name: of the checkpoint, for the sentence.

    Raises:
        CheckpointError: they differ; the sentence says where.
    """
    # A size that no tensor with values has: building the modules alone would take too long, or end in an overflow.
    widest = max((size for shape in shapes.values() if math.prod(shape) for size in shape), default=0)
    for option in ("d_model", "d_ff", "n_heads", "source_vocabulary", "target_vocabulary"):
        if (size := getattr(config, option)) > widest:
            raise CheckpointError(
                f"{name}: the config says {option} {size:,}, and no tensor in the weights is wider than {widest:,}: "
                "the two files do not belong together"
            )
    layers = config.n_encoder_layers + config.n_decoder_layers
    if layers > MOST_LAYERS:
        raise CheckpointError(f"{name}: the config says {layers:,} layers: at most {MOST_LAYERS} are opened")
    width = config.d_model if config.position == "sinusoidal" else config.d_head
    if config.max_length * width > LARGEST_TABLE:
        raise CheckpointError(
            f"{name}: the config says max_length {config.max_length:,}, whose table of positions would take "
            f"{4 * config.max_length * width / 1e9:,.1f} GB: lower it"
        )
    _require_shapes(config, shapes, name)


def _require_shapes(config: TransformerConfig, shapes: Mapping[str, tuple[int, ...]], name: str) -> None:
    try:
        with torch.device("meta"):  # modules without memory
            model = build(config)
    except (RuntimeError, OverflowError, ValueError) as error:
        raise CheckpointError(f"{name}: a model of this config cannot be built: {error}") from error
    every = dict(model.named_parameters(remove_duplicate=False))
    for tensor, shape in shapes.items():
        if tensor in every and tuple(every[tensor].shape) != shape:
            asked = tuple(every[tensor].shape)
            raise CheckpointError(f"{name}: {tensor} has shape {shape}, the config asks for {asked}")
    given = {id(every[tensor]) for tensor in shapes if tensor in every}
    for tensor, parameter in model.named_parameters():
        if id(parameter) not in given:
            raise CheckpointError(f"{name}: the weights lack {tensor}")
