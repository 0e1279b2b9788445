"""A live training in a folder: what another process needs to show it, and to go on with it, where this one ends.

`start/` is the model that it began with, a checkpoint of ours; `data.json` what it learns from; `state.safetensors`,
which is replaced again and again, its newest state with its film and its curves.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.data.pairs import Pair
from model.data.sources import Data, Source, TrainingData, material_of
from model.inference.text_model import TextModel
from model.runtime.errors import CheckpointError
from model.runtime.files import begin_folder, replace_folder, require_file, write_tensors, write_text, writing
from model.runtime.untrusted_json import read_json
from model.text.tokenizer import Tokens
from model.training.live.frame_recorder import Frame, Probe
from model.training.live.key_frames import KeyFrame
from model.training.live.recorded_trainer import RecordedTrainer
from model.training.live.runs import Mark, Row
from model.training.settings import BatchSizes, RunSettings

START, DATA, STATE = "start", "data.json", "state.safetensors"
LARGEST = 1 << 28  # bytes of data.json
LONGEST = 7 * 24 * 3600.0  # seconds after which a training that nobody has gone on with is removed


@dataclass(frozen=True)
class SavedTraining:
    """A training as it is found in a folder. settings: of its first step. batches, owner: as they were kept."""

    start: TextModel
    material: TrainingData
    source: Source
    probe: Probe
    settings: RunSettings
    batches: BatchSizes
    owner: str
    tensors: Mapping[str, Tensor]
    state: Mapping[str, Any]


def keep_start(folder: Path, start: TextModel, data: Data, source: Source, owner: str) -> None:
    """Write what stays the same while a training lasts.

    Raises:
        CheckpointError: it cannot be written.
    """
    record = {"name": start.name, **start.training}
    tokenizers = start.source_tokenizer, start.target_tokenizer
    save_checkpoint(folder / START, start.network, tokenizers, record, dtype=start.dtype)
    content = {
        "data": dataclasses.asdict(data) | {"pairs": [[pair.source, pair.target] for pair in data.pairs]},
        "source": dataclasses.asdict(source),
        "owner": owner,
    }
    write_text(folder / DATA, json.dumps(content, ensure_ascii=False))


def keep_first(
    folder: Path,
    start: TextModel,
    data: Data,
    source: Source,
    owner: str,
    recorded: RecordedTrainer,
    batches: BatchSizes,
) -> None:
    """Write all of it for the first time, in one step: a folder that is there can be read back.

    Raises:
        CheckpointError: it cannot be written.
    """
    with writing(folder):
        written = begin_folder(folder)
        try:
            keep_start(written, start, data, source, owner)
            keep_state(written, recorded, batches)
            replace_folder(folder, written)
        finally:
            shutil.rmtree(written, ignore_errors=True)


def keep_state(folder: Path, recorded: RecordedTrainer, batches: BatchSizes) -> None:
    """Write how the present run stands, in one step. Of earlier runs nothing is kept.

    Raises:
        CheckpointError: it cannot be written.
    """
    recorded.develop()
    run, key = recorded.run, recorded.capture()
    steps, values = run.curves.table()
    with run.film.still():
        frames = run.film.frames
        tensors = {f"key.{name}": tensor for name, tensor in key.tensors.items()} | {
            "film.steps": torch.tensor([frame.step for frame in frames]),
            "film.weights": torch.from_numpy(np.stack([frame.weights for frame in frames])),
            "film.values": torch.from_numpy(np.stack([frame.values for frame in frames])),
            "curves.steps": torch.from_numpy(steps),
            "curves.values": torch.from_numpy(values),
        }
    state = {
        "step": key.step,
        "figures": dict(key.figures),
        "first": dataclasses.asdict(run.settings),
        "now": dataclasses.asdict(key.settings),
        "batches": dataclasses.asdict(batches),
        "marks": [[mark.step, dict(mark.changes)] for mark in run.marks],
        "names": run.curves.columns,
        "sparse": run.curves.sparse,
        "probe": [
            dataclasses.asdict(side) if side else None for side in (run.film.probe.source, run.film.probe.target)
        ],
    }
    write_tensors(folder / STATE, tensors, {"training": json.dumps(state)})


def read_saved_training(folder: Path) -> SavedTraining:
    """A training that was kept.

    Raises:
        CheckpointError: there is none, or it cannot be read.
    """
    try:
        start = open_checkpoint(folder / START)
        content: dict[str, Any] = read_json(folder / DATA, largest=LARGEST)
        with safe_open(require_file(folder / STATE), framework="pt") as file:
            state = json.loads((file.metadata() or {})["training"])
            given = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        start.name = str(start.training.get("name") or start.name)
        start.training = {name: value for name, value in start.training.items() if name != "name"}
        pairs = tuple(Pair(*pair) for pair in content["data"].pop("pairs"))
        data = Data(**{**content["data"], "pairs": pairs})
        tokenizers = start.source_tokenizer, start.target_tokenizer
        material = material_of(start.kind, data, "characters", 0, tokenizers)
        source, target = (Tokens(**side) if side else None for side in state["probe"])
        assert source is not None
        return SavedTraining(
            start,
            material,
            Source(**content["source"]),
            Probe(source, target),
            RunSettings.from_record(state["first"]),
            _batches(state),
            content["owner"],
            given,
            state,
        )
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, AssertionError) as error:
        raise CheckpointError(
            "the training that was kept in {folder} cannot be read: {error}", folder=folder.name, error=error
        ) from error


def go_on(recorded: RecordedTrainer, snapshot: SavedTraining) -> None:
    """Have a new trainer of the same model, data and settings stand where the snapshot was taken."""
    state, tensors, run = snapshot.state, snapshot.tensors, recorded.run
    weights = {name.removeprefix("key."): tensor for name, tensor in tensors.items() if name.startswith("key.")}
    key = KeyFrame(run.number, int(state["step"]), RunSettings.from_record(state["now"]), weights, state["figures"])
    rows = zip(tensors["film.steps"].tolist(), tensors["film.weights"], tensors["film.values"], strict=True)
    run.film.put([Frame(step, one.numpy(), other.numpy()) for step, one, other in rows])
    if state["names"] == run.curves.columns:
        points = zip(tensors["curves.steps"].tolist(), tensors["curves.values"].numpy(), strict=True)
        run.curves.put([Row(step, values) for step, values in points], state["sparse"])
    run.marks = tuple(
        Mark(step, {name: tuple(pair) for name, pair in changes.items()}) for step, changes in state["marks"]
    )
    recorded.go_to(key)


def remove_saved_training(folder: Path) -> None:
    """Forget a training that was kept."""
    shutil.rmtree(folder, ignore_errors=True)


def remove_old(parent: Path) -> None:
    """Remove saved trainings that nobody has gone on with for a week."""
    for folder in parent.iterdir() if parent.is_dir() else ():
        newest = max((file.stat().st_mtime for file in folder.glob("*")), default=0.0)
        if time.time() - newest > LONGEST:
            remove_saved_training(folder)


def _batches(state: Mapping[str, Any]) -> BatchSizes:
    size = RunSettings.from_record(state["now"]).batch_tokens  # of one that an older version has kept
    return BatchSizes(**state.get("batches", {"watched": size, "full": size}))
