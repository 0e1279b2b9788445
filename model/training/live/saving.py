"""What a checkpoint says of its training, and a live run as a checkpoint."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from model.checkpoints.model_card import card
from model.checkpoints.native import save_checkpoint
from model.data.sources import Source, TrainingData
from model.inference.copies import alone
from model.inference.text_model import TextModel
from model.training.live.recorded_trainer import RecordedTrainer
from model.training.live.runs import Run
from model.training.tensorboard import write_curves
from model.training.trainer import Trainer

Record = dict[str, Any]


def training_record(trainer: Trainer, material: TrainingData, source: Source, example: str, kept: str) -> Record:
    """What training.json says. kept: "best" or "last", the weights of which validation these are."""
    known = len(trainer.validation) > 0
    return {
        "data": source.data,
        "licence": source.licence,
        **({"validation_data": source.validation} if source.validation else {}),
        "example": example,
        **material.record(),
        "steps": trainer.progress.step,
        "kept": kept if known else "last",
        "settings": dataclasses.asdict(trainer.settings),
        "seed": trainer.settings.seed,
        "validation_loss": trainer.progress.best_validation if known else None,
        "validations": trainer.progress.validations if known else [],
        "device": str(trainer.device),
        "torch": torch.__version__,
    }


def frozen(watched: RecordedTrainer, start: TextModel, source: Source) -> tuple[TextModel, Record]:
    """A run as it is now: its model, which no training changes any more, and what training.json says of it."""
    watched.develop()
    with watched.trainer.averaged_weights():
        model = alone(watched.model)
    example = watched.model.source_tokenizer.decode(watched.probe.source.ids)
    record = training_record(watched.trainer, watched.material, source, example, kept="last")
    record["validation_loss"] = watched.run.curves.latest("validation")
    record["note"] = " ".join([begun_from(start), *_changes(watched), *_exactness(watched)])
    return model, record


def save(folder: Path, model: TextModel, record: Record) -> None:
    """Write a checkpoint of ours with its model card, or replace one whole."""
    text = card(folder.name, model.config, model.network.parameter_count(), record)
    save_checkpoint(folder, model.network, (model.source_tokenizer, model.target_tokenizer), record, text)


def zipped(name: str, model: TextModel, record: Record, runs: Sequence[Run] = ()) -> bytes:
    """The same as one file, which unpacks into a folder of that name. runs: whose curves go with it, for TensorBoard.

    Raises:
        ValueError: there are runs, and TensorBoard is not installed.
    """
    held = io.BytesIO()
    with TemporaryDirectory() as place, zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        save(Path(place) / name, model, record)
        for run in runs:
            write_curves(Path(place) / name / "curves" / f"run-{run.number}", run.curves)
        for file in sorted(path for path in Path(place).rglob("*") if path.is_file()):
            archive.write(file, file.relative_to(place))
    return held.getvalue()


def begun_from(start: TextModel) -> str:
    """For the model card of what was trained on from there."""
    if not start.training:
        return "Trained from scratch in Vitrine."
    licence = start.training.get("licence") or "licence not recorded"
    return f"Trained on in Vitrine from {start.name} (trained on `{start.training.get('data', '?')}`: {licence})."


def _changes(watched: RecordedTrainer) -> list[str]:
    """What was changed while the run lasted."""
    found = (
        f"{name} {old} → {new} after step {mark.step}"
        for mark in watched.run.changes
        for name, (old, new) in mark.changes.items()
    )
    listed = "; ".join(found)
    return [f"Changed on the way: {listed}."] if listed else []


def _exactness(watched: RecordedTrainer) -> list[str]:
    exact = watched.run.curves.latest("exact match")
    return [] if exact is None else [f"Exactly right at the last validation: {100 * exact:.1f} % of the texts."]
