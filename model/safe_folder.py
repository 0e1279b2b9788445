"""Our own folder as a stranger may have made it: what its config claims is compared with the weights' header first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from model.network.config import TransformerConfig
from model.network.costs import parameters
from model.runtime.errors import CheckpointError
from model.runtime.untrusted_json import parse_json, read_bytes

LARGEST_CONFIG = 1 << 20  # bytes
MOST_LAYERS = 512
BUILT = 10_000_000  # weights that any config may ask for: what lacks in the file is named when they are loaded
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
        raise CheckpointError(f"{path.name} does not describe a model that can be built: {error}") from error


def require_weights(config: TransformerConfig, shapes: Mapping[str, tuple[int, ...]], name: str) -> None:
    """Refuse a config that asks for more than there is in the file, before any memory is taken for it.

    shapes: of each tensor in the file. name: of the checkpoint, for the sentence.

    Raises:
        CheckpointError: it asks for more; the sentence says where.
    """
    # Shapes are compared one by one when the weights are loaded; here only what could be too large to build.
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
    asked, held = sum(parameters(config).values()), sum(map(math.prod, shapes.values()))
    if asked > max(held, BUILT):
        raise CheckpointError(
            f"{name}: the config asks for {asked:,} weights, and the file holds {held:,}: they do not belong together"
        )
