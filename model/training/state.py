"""The state of a training run as one file, for an exact resume."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Size, Tensor

from model.options import present_names
from model.runtime.files import require_file
from model.training.settings import TRAINING_OPTIONS

LONGER = ("epochs", "steps")  # of a run that goes on
CHANGEABLE = ("rate", "warmup", "schedule", "clip", "precision", "seed")  # of a run that has not come to its end


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors (in the names and shapes of `Trainer.state_dict`) and metadata of the training state at `path`.

    Raises:
        ValueError: the file cannot be read, or is no training state.
    """
    try:
        with safe_open(require_file(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} cannot be read as a training state: {error}") from error
    if lacking := {"settings", "progress", "data"} - set(metadata):
        raise ValueError(
            f"{path} is not a training state of this version: it lacks {', '.join(sorted(lacking))}: "
            "delete the file to start afresh"
        )
    return tensors, metadata


def products_of(path: Path) -> str:
    """Name of the matrix library of the run whose state is at `path`; empty if there is none or it cannot be read."""
    try:
        with safe_open(require_file(path), framework="pt") as file:
            return str((file.metadata() or {}).get("products", ""))
    except (SafetensorError, OSError):
        return ""


def changed_settings(
    path: Path, metadata: Mapping[str, str], settings: dict[str, Any], config: dict[str, Any], total_steps: int
) -> list[str]:
    """Settings and config fields that differ from those in the metadata of the file at `path`, each in words.

    Raises:
        ValueError: one of them must be the same for an exact resume.
    """
    saved, now = present_names(json.loads(metadata["settings"]), TRAINING_OPTIONS), settings
    if "config" in metadata:
        saved, now = saved | json.loads(metadata["config"]), now | config
    ended = json.loads(metadata["progress"])["step"] >= total_steps
    free = LONGER if ended else LONGER + CHANGEABLE
    changed = {name: f"{name} was {saved.get(name)}, is {now[name]}" for name in now if saved.get(name) != now[name]}
    if refused := [change for name, change in changed.items() if name not in free]:
        raise ValueError(
            f"{path} was written with other settings ({'; '.join(refused)}): "
            "use the same ones to resume, or delete the file to start afresh"
        )
    return list(changed.values())


def require_same_size(path: Path, tensors: Mapping[str, Tensor], now: Mapping[str, Size]) -> None:
    """Check that the tensors "model. …" of the file at `path` have the shapes `now`.

    Raises:
        ValueError: one has another shape, or is missing, or there is one more.
    """
    saved = {name: tensor.shape for name, tensor in tensors.items() if name.startswith("model.")}
    if now != saved:
        different = sorted(name for name in {*now, *saved} if now.get(name) != saved.get(name))
        raise ValueError(f"{path} belongs to a model of another size: {', '.join(different[:3])} differ")
