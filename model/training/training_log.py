"""Course of a training that goes on elsewhere, as the files beside its checkpoints tell it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from model.checkpoints.formats.safetensors import read_header
from model.checkpoints.native import TRAINING
from model.runtime.errors import CheckpointError
from model.runtime.files import require_file
from model.runtime.untrusted_json import parse_json, read_record

TRAINER_STATE = "trainer_state.json"  # of Hugging Face's Trainer, in every checkpoint-STEP folder
STATE = ".resume"  # of a run of `python -m model train`, beside its checkpoints
FARTHEST = 1 << 53  # steps: beyond it, floats skip whole numbers

Curve = list[tuple[int, float]]


@dataclass(frozen=True)
class Course:
    """Course of a training: losses in nats per token by their steps, in ascending order.

    step: of the weights of this checkpoint. latest: the last step that the files know of. total: of the whole run.
    None: the files do not say. smoothing: of the labels, in the training losses alone.
    """

    step: int | None
    latest: int | None
    total: int | None
    training: Curve
    validation: Curve
    smoothing: float = 0.0

    @property
    def says_something(self) -> bool:
        """True if there is a loss, of training or validation."""
        return bool(self.training or self.validation)


def course_of(path: Path) -> Course:
    """Course of the training that wrote the checkpoint folder at `path`: ours, or of Hugging Face's Trainer.

    Raises:
        CheckpointError: a file is damaged.
    """
    if (record := read_record(path / TRAINER_STATE)) or not (path / TRAINING).exists():
        return _of_trainer(record)
    record = read_record(path / TRAINING)
    step = as_step(record.get("steps"))
    progress, settings = _state_beside(path)
    latest = as_step(progress.get("step"))
    if latest is None or (step is not None and latest < step):
        latest, settings = step, _object(record.get("settings"))
        progress = record
    total, smoothing = as_step(settings.get("steps")), settings.get("label_smoothing")
    return Course(
        step,
        latest,
        total,
        _pairs(progress.get("losses")),
        _pairs(progress.get("validations")),
        smoothing if isinstance(smoothing, float) and 0 < smoothing < 1 else 0.0,
    )


def as_step(value: Any) -> int | None:
    """A whole number that can be a step, else None."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return int(value) if whole and 0 <= value < FARTHEST else None


def _state_beside(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Progress and settings in the state file of the run, which may be steps ahead of the checkpoint; empty if there is
    none. The run of OUT also writes OUT-last and OUT-STEP.
    """
    names = (path.name, re.sub(r"-(\d+|last)$", "", path.name))
    state = next((file for name in names if (file := path.parent / f"{name}{STATE}").is_file()), None)
    if state is None:
        return {}, {}
    read_header(state)
    try:
        with safe_open(require_file(state), framework="pt") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise CheckpointError("{name} cannot be read: {error}", name=state.name, error=error) from error

    def part(name: str) -> dict[str, Any]:
        return _object(parse_json(metadata.get(name, "{}").encode(), state.name, nan=True))

    return part("progress"), part("settings")


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _of_trainer(record: dict[str, Any]) -> Course:
    """Course in Hugging Face's log: an entry of every logging step, {step, loss} or {step, eval_loss}."""
    entries = record.get("log_history")
    entries = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    losses, validations = (
        _pairs((each.get("step"), each.get(name)) for each in entries) for name in ("loss", "eval_loss")
    )
    step = as_step(record.get("global_step"))
    latest = max((each for each, _loss in [*losses, *validations]), default=step)
    return Course(step, latest, as_step(record.get("max_steps")) or None, losses, validations)


def _pairs(values: Any) -> Curve:
    """Steps and losses among values of a file, of a step the last that was written; no loss is infinite or NaN."""
    losses: dict[int, float] = {}
    for value in values if isinstance(values, Iterable) and not isinstance(values, str | dict) else ():
        if not isinstance(value, list | tuple) or len(value) != 2:
            continue
        step, loss = as_step(value[0]), value[1]
        if step is not None and isinstance(loss, int | float) and not isinstance(loss, bool) and math.isfinite(loss):
            losses[step] = float(loss)
    return sorted(losses.items())
