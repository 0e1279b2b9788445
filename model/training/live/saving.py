"""The training record of a checkpoint, and a live run as a checkpoint."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from model.checkpoints.native import save_checkpoint
from model.data.sources import Source, TrainingData, data_of_run, usual_percent
from model.inference.copies import alone
from model.inference.text_model import TextModel
from model.training.live.recorded_trainer import RecordedTrainer
from model.training.live.runs import Run
from model.training.model_card import card
from model.training.settings import TRAINING_OPTIONS
from model.training.tensorboard import write_curves
from model.training.trainer import Trainer

Record = dict[str, Any]


def training_record(trainer: Trainer, material: TrainingData, source: Source, example: str, validation: str) -> Record:
    """Contents of training.json. validation: "best" or "last", the validation whose weights the checkpoint has."""
    validates = len(trainer.validation) > 0
    return {
        "data": source.data,
        "licence": source.licence,
        **({"validation_data": source.validation} if source.validation else {}),
        "example": example,
        **material.record(),
        "steps": trainer.progress.step,
        "kept": validation if validates else "last",
        "settings": {name: getattr(trainer.settings, name) for name in TRAINING_OPTIONS},
        "seed": trainer.settings.seed,
        "validation_loss": trainer.progress.best_validation if validates else None,
        "validations": trainer.progress.validations if validates else [],
        "losses": trainer.progress.losses,
        "device": str(trainer.device),
        "torch": torch.__version__,
    }


def frozen(recorded: RecordedTrainer, start: TextModel, source: Source) -> tuple[TextModel, Record]:
    """Copy of the model of a run as it is now, and its training record."""
    recorded.develop()
    with recorded.trainer.averaged_weights():
        model = alone(recorded.model)
    example = recorded.model.source_tokenizer.decode(recorded.probe.source.ids)
    record = training_record(recorded.trainer, recorded.material, source, example, validation="last")
    record["validation_loss"] = recorded.run.curves.latest("validation")
    sentences = [origin_sentence(start), *incomparable(start, record)]
    record["note"] = " ".join([*sentences, *_changes(recorded.run), *_exactness(recorded.run)])
    return model, record


def save(folder: Path, model: TextModel, record: Record) -> None:
    """Write a checkpoint in our format with its model card, or replace a whole one."""
    text = card(folder.name, model.config, model.network.parameter_count(), record)
    save_checkpoint(folder, model.network, (model.source_tokenizer, model.target_tokenizer), record, text)


def zipped(name: str, model: TextModel, record: Record, runs: Sequence[Run] = ()) -> bytes:
    """Checkpoint as a zip file, which unpacks into a folder of that name. runs: whose curves it has, for TensorBoard.

    Raises:
        ValueError: there are runs, and TensorBoard is not installed.
    """
    buffer = io.BytesIO()
    with TemporaryDirectory() as folder, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        save(Path(folder) / name, model, record)
        for run in runs:
            write_curves(Path(folder) / name / "curves" / f"run-{run.number}", run.curves)
        for file in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
            archive.write(file, file.relative_to(folder))
    return buffer.getvalue()


def origin_sentence(start: TextModel) -> str:
    """Sentence for the model card of a model that was trained on from `start`."""
    if not start.training:
        return "Trained from scratch in Vitrine."
    licence = start.training.get("licence") or "licence not recorded"
    return f"Trained on in Vitrine from {start.name} (trained on `{start.training.get('data', '?')}`: {licence})."


def incomparable(start: TextModel, record: Record) -> list[str]:
    """Sentence for the model card where the validation of `record` is not that of the run that `start` comes from."""
    if not start.training:
        return []
    here, content = record.get("validation_percent"), record.get("data_digest")
    if content and here and (content, here) == tuple(map(start.training.get, ("data_digest", "validation_percent"))):
        return []
    own = data_of_run(start.kind, start.training)
    running = "training_characters" in record
    if own is not None and own.name == record["data"] and usual_percent(own, running) == here:
        return []
    return [
        f"Its validation loss is not comparable with that of {start.name}: other data, or another split, of which "
        f"{start.name} may have been trained on a part."
    ]


def _changes(run: Run) -> list[str]:
    """Sentence about the settings that were changed while the run lasted, if there are any."""
    changes = "; ".join(
        f"{name} {old} → {new} after step {mark.step}"
        for mark in run.changes
        for name, (old, new) in mark.changes.items()
    )
    return [f"Changed on the way: {changes}."] if changes else []


def _exactness(run: Run) -> list[str]:
    exact = run.curves.latest("exact match")
    return [] if exact is None else [f"Exactly right at the last validation: {100 * exact:.1f} % of the texts."]
