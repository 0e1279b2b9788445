"""Atomic writes of files and folders: a kill at any moment leaves the old or the new content."""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from jaxtyping import Shaped
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from model.runtime.errors import CheckpointError

SPARE = 1 << 30  # bytes of the disk that must stay free
LEFT = 3600.0  # seconds after which an unfinished folder counts as left behind by a dead process
REFUSED = {
    errno.ENOSPC: "the disk is full: make room there, or choose another folder",
    errno.EDQUOT: "no more may be kept on this disk: make room there, or choose another folder",
    errno.EFBIG: "it is larger than a file may be here: raise that limit (ulimit -f), or choose another folder",
    errno.EROFS: "the disk can only be read: choose another folder",
    errno.EACCES: "the folder may not be written in: change its permissions, or choose another folder",
    errno.EPERM: "the folder may not be written in: change its permissions, or choose another folder",
}


class NotAFileError(OSError):
    """No file where one is to be read: a folder, a device, or a pipe, at which a reader would wait for ever."""

    def __init__(self) -> None:
        super().__init__("it is not a file")
        self.strerror = "it is not a file"


def open_file(path: Path) -> BufferedReader:
    """A file open for reading. Whatever may be a stranger's is read by this function.

    Raises:
        OSError: it cannot be read; NotAFileError: it is no file.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotAFileError
    return os.fdopen(descriptor, "rb")


def require_file(path: Path) -> Path:
    """The path, for a library that opens it by its name; errors as of `open_file`."""
    open_file(path).close()
    return path


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Block that writes at `path`, or removes it; what the system refuses is a sentence.

    Raises:
        CheckpointError: the disk is full, the folder cannot be written in, or a file may not be so large.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        code = re.search(r"\b(?:code:|os error) (\d+)", str(error))  # of safetensors, which says it in Rust's words
        number = error.errno if isinstance(error, OSError) else int(code[1]) if code else None
        reason = REFUSED.get(number or 0) or (getattr(error, "strerror", "") or str(error)).rstrip(".")
        raise CheckpointError("{name} cannot be written: {reason}", name=path.name, reason=reason) from error


def write_tensors(path: Path, tensors: Mapping[str, Shaped[Tensor, "*_"]], metadata: dict[str, str]) -> None:
    """Write a safetensors file in one step; errors as of `writing`."""
    with writing(path), _replacing(path) as temporary:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, temporary, metadata)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file in one step; errors as of `writing`."""
    with writing(path), _replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Block that writes a temporary file, which takes the place of `path` unless the block raises."""
    path.parent.mkdir(parents=True, exist_ok=True)
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
    remove_left(folder.parent, folder.name)
    shutil.rmtree(written, ignore_errors=True)
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
    for file in written.rglob("*"):
        if file.is_file():
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


def remove_left(parent: Path, name: str = "*") -> None:
    """Remove what dead processes left unfinished in `parent`: of this machine at once, of others, which may share the
    folder, after an hour. name: of what they wrote; by default of anything.
    """
    wanted = name if name == "*" else glob.escape(name)
    for left in parent.glob(f".{wanted}.writing" if name == "*" else f".{wanted}.*.writing"):
        *_name, host, process, _end = left.name.split(".")
        with suppress(OSError):  # it is gone: another process has removed it, too
            if is_dead(host, process) or time.time() - left.stat().st_mtime > LEFT:
                left.unlink() if left.is_file() else shutil.rmtree(left)


def this_process() -> tuple[str, str]:
    """Name of this machine and number of this process, without points or hyphens."""
    return re.sub(r"\W", "_", socket.gethostname(), flags=re.ASCII), str(os.getpid())


def is_dead(host: str, process: str) -> bool:
    """True if a process was of this machine, and is no more."""
    if host != this_process()[0] or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # it is somebody else's
        return False
    return False


def flush(path: Path) -> None:
    """Wait until the content of `path` is on the disk."""
    with open_file(path) as file:
        os.fsync(file.fileno())


def _unfinished(path: Path) -> Path:
    return path.with_name(".".join(("", path.name, *this_process(), "writing")))


def _new(folder: Path) -> Path:
    return _beside(folder, "new")


def _old(folder: Path) -> Path:
    return _beside(folder, "old")


def _beside(folder: Path, end: str) -> Path:
    absolute = Path(os.path.abspath(folder))  # "." has no name, and neither has the root of a disk
    return absolute.parent / f".{absolute.name}.{end}"
