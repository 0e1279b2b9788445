"""Operations on a checkpoint folder as a whole: its card, a copy with another card, another name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from model.checkpoints.native import CARD, save_checkpoint
from model.inference.text_model import TextModel
from model.runtime.errors import CheckpointError
from model.runtime.files import begin_folder, finish_replacing, replace_folder, write_text, writing
from model.runtime.untrusted_json import read_text

LONGEST_CARD = 1 << 20  # bytes


def read_card(folder: Path) -> str:
    """Text of a folder's model card; empty where there is none.

    Raises:
        CheckpointError: the card is no text, or too long.
    """
    path = folder / CARD
    return read_text(path, LONGEST_CARD) if path.is_file() else ""


def write_card(folder: Path, text: str) -> None:
    """Replace the model card in one step.

    Raises:
        CheckpointError: the text is too long.
    """
    write_text(folder / CARD, _valid_card(text))


def copy_with_card(folder: Path, copy: Path, text: str) -> None:
    """Copy a checkpoint folder and give the copy another card: all of it, or nothing.

    Raises:
        CheckpointError: there is a folder of that name, the card is too long, or it cannot be written.
    """
    text = _valid_card(text)
    _require_new(copy)
    with writing(copy):
        written = begin_folder(copy)
        try:
            for file in folder.iterdir():
                if file.is_file() and not file.is_symlink() and not file.name.startswith("."):
                    shutil.copy2(file, written / file.name)
            (written / CARD).write_text(text, encoding="utf-8")
            replace_folder(copy, written)
        finally:
            shutil.rmtree(written, ignore_errors=True)


def keep_as_ours(folder: Path, model: TextModel) -> None:
    """Write a published model that was rebuilt as our network as a checkpoint of ours.

    Raises:
        CheckpointError: there is a folder of that name.
    """
    _require_new(folder)
    form = model.training.get("format") or "another format"
    card = (
        f"# {folder.name}\n\nA copy of {model.name} ({form}), put together as Vitrine's own network with the same "
        "weights. Whatever licence the original has holds for it too.\n"
    )
    # What was told is now in the config, and what was not used is in the old file alone.
    left = ("open", "unused", "beside", "models", "prefix", "in_file")
    record = {name: value for name, value in model.training.items() if name not in left}
    tokenizers = model.source_tokenizer, model.target_tokenizer
    save_checkpoint(folder, model.network, tokenizers, record, card, model.dtype)


def rename(folder: Path, name: str) -> Path:
    """Rename a checkpoint folder; gives its new path.

    Raises:
        CheckpointError: the name is taken, or the folder around it cannot be written in.
    """
    finish_replacing(folder)
    renamed = folder.with_name(name)
    _require_new(renamed)
    with writing(folder):
        os.rename(folder, renamed)
    return renamed


def delete(folder: Path) -> None:
    """Remove a checkpoint folder from the disk.

    Raises:
        CheckpointError: the folder around it cannot be written in.
    """
    with writing(folder):
        shutil.rmtree(folder)


def _require_new(folder: Path) -> None:
    """Require that there is no folder of that name.

    Raises:
        CheckpointError: there is one.
    """
    if folder.exists():
        raise CheckpointError("there is a folder {name!r} already: choose another name", name=folder.name)


def _valid_card(text: str) -> str:
    """A card without lone surrogates.

    Raises:
        CheckpointError: it is too long.
    """
    clean = text.encode("utf-8", "replace").decode("utf-8")
    if len(clean.encode("utf-8")) > LONGEST_CARD:
        raise CheckpointError(
            "the card has {count:,} characters: at most {longest_card} MB can be kept",
            count=len(clean),
            longest_card=LONGEST_CARD >> 20,
        )
    return clean
