"""Writing files so that a kill at any moment leaves the old or the new content, never half of either."""

from __future__ import annotations

import glob
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

SPARE = 1 << 30  # bytes of the disk that stay free
LEFT = 3600.0  # seconds after which a folder that is being written counts as left by a process that is dead


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """A safetensors file, replaced in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.writing")
    try:
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
            temporary,
            metadata,
        )
        flush(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """A UTF-8 text file, replaced in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.writing")
    try:
        temporary.write_text(text, encoding="utf-8")
        flush(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def begin_folder(folder: Path) -> Path:
    """An empty folder to write in, for `replace_folder`; what a kill left of earlier ones is removed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    written = folder.with_name(f".{folder.name}.{os.getpid()}.writing")
    for left in folder.parent.glob(f".{glob.escape(folder.name)}.*.writing"):
        with suppress(OSError):  # it is gone: another process has removed it, too
            if left == written or time.time() - left.stat().st_mtime > LEFT:
                shutil.rmtree(left)
    written.mkdir()
    return written


def replace_folder(folder: Path, written: Path) -> None:
    """Put the finished folder `written` where `folder` is.

    A folder cannot be replaced in one step, so `written` first takes the name that `finish_replacing`
    knows: a kill between the renames leaves everything needed to finish.
    """
    finish_replacing(folder)
    new, old = _new(folder), _old(folder)
    for left in (new, old):
        if left.exists() and folder.exists():
            shutil.rmtree(left)
    for file in written.iterdir():
        flush(file)
    os.rename(written, new)
    if folder.exists():
        os.rename(folder, old)
    try:
        os.rename(new, folder)
    except FileNotFoundError:
        if not folder.exists():  # else a reader has just finished it
            raise
    shutil.rmtree(old, ignore_errors=True)


def finish_replacing(folder: Path) -> None:
    """Finish what a kill inside `replace_folder` left half done. Safe while another process replaces it."""
    for left in (_new(folder), _old(folder)):
        if folder.exists():
            return
        with suppress(OSError):  # there is none, or the other process was faster
            os.rename(left, folder)


def finish_all(parent: Path) -> None:
    """The same for every folder in `parent`, so that none is missed in a list of them."""
    for left in parent.glob(".*.new"):
        finish_replacing(parent / left.name.removeprefix(".").removesuffix(".new"))


def flush(path: Path) -> None:
    """Make sure that what was written to `path` is on the disk before a rename makes it visible."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _new(folder: Path) -> Path:
    return _beside(folder, "new")


def _old(folder: Path) -> Path:
    return _beside(folder, "old")


def _beside(folder: Path, end: str) -> Path:
    absolute = Path(os.path.abspath(folder))  # "." has no name, and neither has the root of a disk
    return absolute.parent / f".{absolute.name}.{end}"
