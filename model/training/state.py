"""The state of a training run as one file, for an exact resume."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from model.runtime.files import write_tensors
from model.training.settings import Progress

if TYPE_CHECKING:
    from model.training.trainer import Trainer

LONGER = ("epochs", "steps")  # of a run that goes on
CHANGEABLE = ("rate", "warmup", "schedule", "clip", "precision", "seed")  # of one that has not come to its end


def tensors_of(trainer: Trainer) -> dict[str, Tensor]:
    """Weights, their average and the optimizer's moments: the tensors themselves, which the next step changes."""
    tensors: dict[str, Tensor] = {f"model.{name}": tensor.detach() for name, tensor in trainer.model.named_parameters()}
    tensors |= trainer.averager.tensors()
    for index, moments in trainer.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in moments.items()}
    return tensors


def figures_of(trainer: Trainer) -> dict[str, str]:
    """Where a run stands, but for its tensors. Random numbers follow from the seed and the step."""
    return {"progress": json.dumps(asdict(trainer.progress)), "scaler": json.dumps(trainer.scaler.state_dict())}


def save(trainer: Trainer, path: Path) -> None:
    """Write all that an exact resume needs to one file, atomically."""
    metadata = {
        "settings": json.dumps(asdict(trainer.settings)),
        "config": trainer.model.config.to_json(),
        "data": trainer.data_digest,
        "products": trainer.products,
        "begun": trainer.begun,
    }
    write_tensors(path, tensors_of(trainer), metadata | figures_of(trainer))


def products_of(path: Path) -> str:
    """The library of products that a run has used so far; empty if there is no such run or it cannot be read."""
    try:
        with safe_open(path, framework="pt") as file:
            return str((file.metadata() or {}).get("products", ""))
    except (SafetensorError, OSError):
        return ""


def load(trainer: Trainer, path: Path) -> list[str]:
    """Go on exactly where `save` was called; gives the settings that are others from now on.

    Raises:
        ValueError: the file cannot be read, or belongs to another model, other data or other settings.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} cannot be read as a training state: {error}") from error
    if lacking := {"settings", "progress", "data"} - set(metadata):
        raise ValueError(
            f"{path} is not a training state of this version: it lacks {', '.join(sorted(lacking))}: "
            "delete the file to start afresh"
        )
    if trainer.begun not in ("", metadata.get("begun", "")):
        raise ValueError(
            f"{path} is of a run that did not begin with that checkpoint: leave out --start, or give the one that it "
            "began with"
        )
    trainer.begun = metadata.get("begun", "")
    changes = _changes(trainer, path, metadata)
    _require_same_size(trainer, path, tensors)
    if metadata["data"] != trainer.data_digest:
        raise ValueError(
            f"{path} was written with other data: use the same to resume, or delete the file to start afresh"
        )
    restore(trainer, tensors, metadata)
    return changes


def _changes(trainer: Trainer, path: Path, metadata: dict[str, str]) -> list[str]:
    saved, now = json.loads(metadata["settings"]), asdict(trainer.settings)
    if "config" in metadata:
        saved, now = saved | json.loads(metadata["config"]), now | asdict(trainer.model.config)
    ended = json.loads(metadata["progress"])["step"] >= trainer.total_steps
    free = LONGER if ended else LONGER + CHANGEABLE
    changed = {name: f"{name} was {saved.get(name)}, is {now[name]}" for name in now if saved.get(name) != now[name]}
    if refused := [change for name, change in changed.items() if name not in free]:
        raise ValueError(
            f"{path} was written with other settings ({'; '.join(refused)}): "
            "use the same ones to resume, or delete the file to start afresh"
        )
    return list(changed.values())


def _require_same_size(trainer: Trainer, path: Path, tensors: dict[str, Tensor]) -> None:
    now = {f"model.{name}": parameter.shape for name, parameter in trainer.model.named_parameters()}
    saved = {name: tensor.shape for name, tensor in tensors.items() if name.startswith("model.")}
    if now != saved:
        different = sorted(name for name in {*now, *saved} if now.get(name) != saved.get(name))
        raise ValueError(f"{path} belongs to a model of another size: {', '.join(different[:3])} differ")


def restore(trainer: Trainer, tensors: Mapping[str, Tensor], figures: Mapping[str, str]) -> None:
    """Go on where `tensors_of` and `figures_of` were asked; what the trainer keeps of the tensors it only reads."""
    with torch.no_grad():
        for name, parameter in trainer.model.named_parameters():
            parameter.copy_(tensors[f"model.{name}"])
        trainer.averager.load(tensors)
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, moment = name.split(".")
            state.setdefault(int(index), {})[moment] = tensor
    groups = trainer.optimizer.state_dict()["param_groups"]
    trainer.optimizer.load_state_dict({"state": state, "param_groups": groups})
    if trainer.scaler.is_enabled() and (scaling := json.loads(figures["scaler"])):
        trainer.scaler.load_state_dict(scaling)
    progress = json.loads(figures["progress"])
    progress["validations"] = [(step, loss) for step, loss in progress["validations"]]
    trainer.progress = Progress(**progress)
