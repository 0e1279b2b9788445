"""Atomic writes of files and folders: a kill at any moment leaves the old or the new content."""

from __future__ import annotations

import glob
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from jaxtyping import Shaped
from safetensors.torch import save_file
from torch import Tensor

SPARE = 1 << 30  # bytes of the disk that must stay free
LEFT = 3600.0  # seconds after which an unfinished folder counts as left behind by a dead process


def write_tensors(path: Path, tensors: Mapping[str, Shaped[Tensor, "*_"]], metadata: dict[str, str]) -> None:
    """Write a safetensors file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _replacing(path) as temporary:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, temporary, metadata)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file in one step."""
    with _replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Block that writes a temporary file, which takes the place of `path` unless the block raises."""
    temporary = _unfinished(path)
    try:
        yield temporary
        flush(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def begin_folder(folder: Path) -> Path:
    """Empty folder to write in, for `replace_folder`; unfinished folders of dead processes are removed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    written = _unfinished(folder)
    for left in folder.parent.glob(f".{glob.escape(folder.name)}.*.writing"):
        with suppress(OSError):  # it is gone: another process has removed it, too
            if left == written or time.time() - left.stat().st_mtime > LEFT:
                shutil.rmtree(left)
    written.mkdir()
    return written


def replace_folder(folder: Path, written: Path) -> None:
    """Put the finished folder `written` in the place of `folder`.

    A folder cannot be replaced in one step, so `written` first takes a name that `finish_replacing` knows: after a kill
    between the renames, that finishes them.

    Raises:
        FileNotFoundError: the new folder is gone, and nobody has put it in its place.
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
    """Finish a `replace_folder` that was killed. Safe while another process replaces the folder."""
    for left in (_new(folder), _old(folder)):
        if folder.exists():
            return
        with suppress(OSError):  # there is none, or the other process was faster
            os.rename(left, folder)


def finish_all(parent: Path) -> None:
    """Finish every killed `replace_folder` of a folder in `parent`, so that a list of them is complete."""
    for left in parent.glob(".*.new"):
        finish_replacing(parent / left.name.removeprefix(".").removesuffix(".new"))


def flush(path: Path) -> None:
    """Wait until the content of `path` is on the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.writing")


def _new(folder: Path) -> Path:
    return _beside(folder, "new")


def _old(folder: Path) -> Path:
    return _beside(folder, "old")


def _beside(folder: Path, end: str) -> Path:
    absolute = Path(os.path.abspath(folder))  # "." has no name, and neither has the root of a disk
    return absolute.parent / f".{absolute.name}.{end}"
