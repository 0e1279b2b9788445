"""The checkpoints, bundled and saved, opened once for all sessions."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

if TYPE_CHECKING:
    from model import Inspectable

CHECKPOINTS = Path(__file__).parent.parent / "checkpoints"
SAVED = "VITRINE_SAVED"  # in the environment: the folder of the checkpoints that the user saves


def bundled_names() -> Sequence[str]:
    """The bundled checkpoints."""
    return sorted(path.parent.name for path in CHECKPOINTS.glob("*/config.json"))


def saved_folder() -> Path:
    """Where checkpoints are saved: what VITRINE_SAVED says, else ~/.vitrine/checkpoints."""
    wanted = os.environ.get(SAVED, "").strip()
    return Path(wanted).expanduser() if wanted else Path.home() / ".vitrine" / "checkpoints"


def saved_names() -> Sequence[str]:
    """The checkpoints that were saved; one whose name a bundled one has is not seen."""
    from model.files import finish_all

    finish_all(saved_folder())
    found = {path.parent.name for path in saved_folder().glob("*/config.json")}
    return sorted(name for name in found - set(bundled_names()) if not name.startswith("."))


def checkpoint_names() -> Sequence[str]:
    """The bundled checkpoints, then the saved ones."""
    return [*bundled_names(), *saved_names()]


def folder_of(name: str) -> Path:
    """Where the checkpoint of that name lies."""
    return (CHECKPOINTS if name in bundled_names() else saved_folder()) / name


def open_model(name: str) -> Inspectable:
    """A checkpoint by its name; sessions share it.

    Raises:
        ValueError: there is no such checkpoint, or it is damaged, or VITRINE_DEVICE or VITRINE_DTYPE is wrong.
    """
    from model.device import choose_device, choose_dtype

    folder, names = folder_of(name), checkpoint_names()
    if not names:
        raise ValueError(f"there is no checkpoint in {CHECKPOINTS.name}/: train one with python -m model train")
    if name not in names:
        raise ValueError(f"there is no checkpoint {name!r}: choose one of {', '.join(names)}")
    changed = max(path.stat().st_mtime_ns for path in folder.iterdir())
    return _open_model(str(folder), changed, str(choose_device()), str(choose_dtype()).removeprefix("torch."))


@st.cache_resource(max_entries=4, show_spinner=False)
def _open_model(folder: str, changed: int, device: str, dtype: str) -> Inspectable:
    import torch

    from model import open_checkpoint
    from model.device import DTYPES, keep_freed_memory

    keep_freed_memory()
    if device == "cpu":
        torch.set_num_threads(1)  # a sentence gains nothing from a second thread, the browser needs the core
    lens = open_checkpoint(folder, torch.device(device), DTYPES[dtype])
    spare_collections()
    return lens


@cache
def spare_imports() -> None:
    """The same once in a process for what the first trainer imports: a collection of it takes as long as two steps."""
    spare_collections()


def spare_collections() -> None:
    """Imports and weights stay: no later collection walks over them. What was spared before is looked at once more."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
