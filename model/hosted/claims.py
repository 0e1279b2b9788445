"""What a stranger's config.json makes transformers build: bounded by what its files hold, before memory is taken."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.nn.modules import module

from model.runtime.errors import CheckpointError
from model.safe_folder import BUILT, MOST_LAYERS
from model.tensors import TensorInfo, tensor_table

# Configs write lists of that many entries, and models as many modules, before anybody looks at the weights.
COUNTED = re.compile(r"layers?$|^n(um)?_.*(layer|block|label)|^attention_types$")
NAMES = ("id2label", "label2id")  # of classes, with a number each
PARTS = 8  # parameters and buffers that a tensor of the files may become: those of the experts lie in one
TIMES = 3  # so many numbers of the files: a table of tokens may be built for both stacks and the output
PACKED = 8  # numbers in one of a quantized file


def require_modest(settings: dict[str, Any], folder: Path) -> list[TensorInfo]:
    """The tensors of the folder, where no setting asks for many more layers than they can be.

    Raises:
        CheckpointError: one does, a file is damaged, or what the settings say of classes or files is no such thing.
    """
    table = tensor_table(folder)
    wrote = settings.get("architectures") or []
    if not isinstance(wrote, list) or not all(isinstance(name, str) for name in wrote):
        raise CheckpointError(f"{folder.name}: architectures in config.json must be a list of names")
    if "transformers_weights" in settings:
        raise CheckpointError(f"{folder.name}: config.json names another file of weights: call it model.safetensors")
    most = max(MOST_LAYERS, len(table))
    for name, count in _counts(settings):
        if count > most:
            raise CheckpointError(
                f"{folder.name}: config.json says {name} {count:,}, and the weights hold {len(table):,} tensors: "
                "the two files do not belong together"
            )
    return table


@contextmanager
def bounded(table: list[TensorInfo], settings: dict[str, Any], name: str) -> Iterator[None]:
    """While this thread builds a model, on the device "meta" and so without memory, it may not become too large.

    Raises:
        CheckpointError: it has many more parameters than the files.
    """
    _watch()
    held = sum(info.elements for info in table)
    times = TIMES * (PACKED if settings.get("quantization_config") else 1)
    _building.name, _building.held, _building.parts, _building.numbers = name, held, 0, 0
    _building.limits = PARTS * len(table) + 100 * MOST_LAYERS, times * held + BUILT
    try:
        yield
    finally:
        _building.limits = None


class _Building(threading.local):
    """What has been built by this thread. limits: of parts and numbers; None while nobody counts."""

    limits: tuple[int, int] | None = None
    name, held, parts, numbers = "", 0, 0, 0


_building = _Building()


@cache
def _watch() -> None:
    """Once: other threads may go through these hooks, so that none is ever taken away."""
    module.register_module_parameter_registration_hook(_count)
    module.register_module_buffer_registration_hook(_count)


def _count(_module: Any, _name: str, made: Tensor | None) -> None:
    if _building.limits is None or made is None or not made.is_meta:
        return
    _building.parts += 1
    _building.numbers += made.numel()
    if _building.parts > _building.limits[0] or _building.numbers > _building.limits[1]:
        raise CheckpointError(
            f"{_building.name}: the config asks for more than {_building.numbers:,} weights, and the files hold "
            f"{_building.held:,}: they do not belong together"
        )


def _counts(settings: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Numbers under names that count parts, also of configs within the config."""
    waiting: list[tuple[str, Any]] = list(settings.items())
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict) and name not in NAMES:
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(name, each) for each in value]
        elif isinstance(value, int | float) and COUNTED.search(name):
            yield name, int(value) if abs(value) < 1 << 62 else 1 << 62
