"""Checks of python -m model train before anything is read or trained, and its defaults."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import torch

from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import CONFIG
from model.cli.options import network_options
from model.data.sources import TrainingData, Units
from model.inference.copies import require_ours
from model.inference.text_model import TextModel
from model.network.config import PRESETS, TWO_STACKS
from model.runtime.files import finish_replacing
from model.training.settings import DROPOUTS, TrainingSettings
from model.training.trainer import Trainer

KIND, PRESET = "encoder-decoder", "small"  # of a model, by default
VOCABULARY = 4000  # of a BPE, by default
LARGEST_VOCABULARY = 1_000_000


def require_meaning(options: argparse.Namespace) -> None:
    """Check the options by themselves.

    Raises:
        ValueError: an option is invalid, or would have no effect for this kind of model or these units.
    """
    network = network_options(options)
    for stack, other in (("encoder", "decoder-only"), ("decoder", "encoder-only")):
        layers = network.get(f"n_{stack}_layers")
        if options.kind == other and layers:
            raise ValueError(f"n_{stack}_layers ({layers}) must be 0 or left out: {_a(other)} model has no {stack}")
        if options.kind in TWO_STACKS and layers == 0:
            raise ValueError(
                f"n_{stack}_layers (0) must be at least 1: give --kind {other} for a model without {stack}"
            )
    if not hasattr(options, "vocabulary"):
        return
    if not 1 <= options.vocabulary <= LARGEST_VOCABULARY:
        raise ValueError(f"vocabulary ({options.vocabulary}) must be between 1 and {LARGEST_VOCABULARY:,}")
    units = units_of(options) or ("characters" if options.data.startswith("task:") else "")
    if units == "characters":
        raise ValueError(
            f"vocabulary ({options.vocabulary}) must be left out where tokens are characters: give --units bpe"
        )


def start_of(options: argparse.Namespace) -> TextModel | None:
    """Model of the checkpoint to begin with; None if none was given.

    Raises:
        ValueError: it cannot be opened or trained, would be overwritten, or other options ask for another network.
    """
    if options.start is None:
        return None
    if options.start.resolve() == options.out.resolve():
        raise ValueError(f"start and out are both {options.out}: give --out another folder")
    start = open_checkpoint(options.start, torch.device("cpu"), torch.float32)
    require_ours(start.network)
    others = [name for name in network_options(options) if name not in DROPOUTS]
    others += [name for name in ("preset", "units", "vocabulary") if getattr(options, name, None) is not None]
    others += ["kind"] if getattr(options, "kind", start.kind) != start.kind else []
    if others:
        raise ValueError(
            f"{others[0]} ({getattr(options, others[0])}) must be left out with --start: kind, network and tokens are "
            f"those of {options.start}, of which only {', '.join(DROPOUTS)} can be others"
        )
    return start


def units_of(options: argparse.Namespace) -> Units | None:
    """Units that were asked for; else joint ones where both stacks share an embedding, else None: the data decides."""
    chosen: Units | None = options.units
    if chosen is None and options.kind in TWO_STACKS and _tied(options) in ("inputs", "all"):
        return "joint"
    return chosen


def require_one_vocabulary(options: argparse.Namespace, material: TrainingData) -> None:
    """Check that source and target have the same tokens if they share an embedding.

    Raises:
        ValueError: they do not.
    """
    source, target = material.tokenizers
    if options.kind not in TWO_STACKS or _tied(options) not in ("inputs", "all") or source is target:
        return
    if source.to_json() != target.to_json():  # of the same size as well: equal ids would be different tokens
        raise ValueError(
            f"tied_embeddings {_tied(options)!r} needs one vocabulary, and --units {options.units} makes two of "
            f"{len(source)} and {len(target)} tokens: give --units joint or --tied-embeddings output"
        )


def with_useful_merges(
    settings: TrainingSettings, options: argparse.Namespace, material: TrainingData
) -> TrainingSettings:
    """Settings, with bpe_dropout 0 where no merges can be undone, so that the training record is true.

    Raises:
        ValueError: undone merges were asked for there.
    """
    if options.kind in TWO_STACKS and material.tokenizers[0].parents():
        return settings
    if getattr(options, "bpe_dropout", 0):
        two = options.kind in TWO_STACKS
        why = "the source's tokenizer has no merges" if two else f"{_a(options.kind)} model is trained without that"
        raise ValueError(f"bpe_dropout ({options.bpe_dropout}) must be 0 or left out: {why}")
    return dataclasses.replace(settings, bpe_dropout=0.0)


def require_place(folder: Path, state: Path, replace: bool) -> None:
    """Check that a checkpoint can be written to a folder, and that no other work is lost there.

    A checkpoint is replaced as a whole: by the run that `state` belongs to, or if `replace` says so.

    Raises:
        ValueError: it cannot be written, or something would be lost.
    """
    if folder.name in ("", ".."):
        raise ValueError(f"out ({folder}) must end in a name of its own: give --out a new folder")
    if file := _file_at(*folder.parents):
        raise ValueError(f"{folder} cannot be a folder, as {file} is a file: give --out another place")
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / CONFIG).is_file():
        raise ValueError(f"{folder} exists and is not a checkpoint: give --out a new folder")
    if not (replace or state.exists()):
        raise ValueError(
            f"{folder} is a checkpoint of another run ({state.name} is not beside it): give --out a new folder, or "
            "--replace to lose that checkpoint"
        )


def require_folder(folder: Path) -> None:
    """Check that curves can be written to a folder.

    Raises:
        ValueError: it is a file, or would have to lie in one.
    """
    if file := _file_at(folder, *folder.parents):
        raise ValueError(f"log_dir ({folder}) cannot be a folder, as {file} is a file: give --log-dir another place")


def _file_at(*paths: Path) -> Path | None:
    """First of these paths that exists and is no folder."""
    return next((path for path in paths if path.exists() and not path.is_dir()), None)


def require_checkpoint(trainer: Trainer, folder: Path, state: Path) -> None:
    """Check that a finished run has its checkpoint.

    Raises:
        ValueError: the run is finished, and its checkpoint is gone.
    """
    if trainer.finished:
        finish_replacing(folder)
        if not folder.exists():
            raise ValueError(f"{state} is of a finished run whose checkpoint is gone: delete it to start afresh")


def _a(kind: str) -> str:
    return f"{'a' if kind == 'decoder-only' else 'an'} {kind}"


def _tied(options: argparse.Namespace) -> str:
    tied: str = network_options(options).get("tied_embeddings", PRESETS[options.preset].get("tied_embeddings", "none"))
    return tied
