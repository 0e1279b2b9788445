"""Uploaded files: checked, unpacked into a temporary folder of their session, and removed with it."""

from __future__ import annotations

import atexit
import hmac
import io
import shutil
import stat
import sys
import tempfile
import threading
import time
import unicodedata
import weakref
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Protocol, cast, runtime_checkable

from model.checkpoints.formats.weight_files import READ, REFUSED
from model.checkpoints.formats.zip import Bounded
from model.runtime.errors import CheckpointError
from model.runtime.files import SPARE, is_dead, this_process
from model.runtime.locks import Lock, condition

LARGEST = 4 << 30  # bytes that one session may keep, unpacked
MOST_FILES = 2000
LONGEST_NAME = 250
DEEPEST = 8  # folders within folders
PLAIN, RATIO = 64 << 20, 20  # bytes of any compression, and the compression ratio of all beyond
PIECE = 1 << 20  # bytes read at a time, and of the directory of an archive
UPLOAD_SUFFIXES = (*READ, ".json", ".yaml", ".txt", ".model", ".spm", ".md", ".jinja", ".tiktoken", ".vocab", ".bpe")


@dataclass(frozen=True)
class UploadedFile:
    """An uploaded file, or a file in an uploaded archive. size: claimed, in bytes. pieces: reads its content."""

    name: str
    size: int
    pieces: Callable[[], Iterator[bytes]]


PREFIX = "vitrine"  # of the folders of uploads


def remove_left_uploads(parent: Path | None = None) -> None:
    """Remove the folders of uploads that killed processes of this machine left. parent: by default where they are."""
    for folder in (parent or Path(tempfile.gettempdir())).glob(f"{PREFIX}-*-*-*"):
        _prefix, host, process, *_rest = folder.name.split("-")
        if is_dead(host, process):
            shutil.rmtree(folder, ignore_errors=True)


class Allowance:
    """Bytes that the folders of all sessions may hold together, unpacked; for any thread."""

    def __init__(self, largest: int) -> None:
        self.largest, self._used, self._lock = largest, 0, Lock("uploaded bytes")
        self._returns: deque[int] = deque()  # sizes that are to be counted out

    @property
    def used(self) -> int:
        """Bytes that are counted in."""
        with self._lock:
            return self._count()

    def _count(self) -> int:
        while self._returns:
            self._used -= self._returns.popleft()
        return self._used

    def take(self, size: int) -> None:
        """Add bytes to the sum of all uploads.

        Raises:
            CheckpointError: they are too many beside what others hold.
        """
        with self._lock:
            if size > (left := self.largest - self._count()):
                raise CheckpointError(
                    "the files have {size:,.0f} MB, and {left:,.0f} MB are left for all visitors of this server: "
                    "try again when others have closed their windows",
                    size=size / 1000000.0,
                    left=left / 1000000.0,
                )
            self._used += size

    def give(self, size: int) -> None:
        """Take bytes off the sum again: finalizers call it too, so it takes no lock."""
        self._returns.append(size)


class Uploads:
    """Temporary folder of one session, which exists from the first file on until `close` or the end of the process.

    largest: bytes that it may hold. allowance: of all sessions; None: without a limit. left_out: names of files that
    the last `add` has not kept: programs, which are never run, and files of unknown use.
    """

    def __init__(self, largest: int = LARGEST, allowance: Allowance | None = None) -> None:
        self.largest, self.allowance = largest, allowance or Allowance(sys.maxsize)
        self.left_out: list[str] = []
        self._sizes: list[int] = []  # of what was added
        self._count = 0
        self._remove: weakref.finalize[[Path, Allowance, list[int]], Uploads] | None = None
        self._folder = Path()

    def add(self, files: Sequence[tuple[str, bytes]]) -> Path:
        """Keep one file, several that belong together, or the content of a .zip; gives the file, or their folder.

        files: names and contents.

        Raises:
            CheckpointError: the files are too large, too many or compressed too much, the disk is full, or a name would
                lead elsewhere; nothing is kept then.
        """
        packed = [(name, content) for name, content in files if name.lower().endswith(".zip")]
        if packed and len(files) > 1:
            raise CheckpointError(
                "{packed} was sent with other files: send one .zip alone, or the files in it", packed=packed[0][0]
            )
        whole = [UploadedFile(name, len(content), partial(_whole, content)) for name, content in files]
        sent = _archived(*packed[0]) if packed else whole
        _require_names([file.name for file in sent])
        weights = [file for file in sent if _is_of_checkpoint(file.name)]
        self.left_out = [file.name for file in sent if not _is_of_checkpoint(file.name)]
        if not weights:
            raise _no_checkpoint_file(self.left_out)
        return self._write(weights, sum(len(content) for _name, content in files))

    def close(self) -> None:
        """Remove everything."""
        if self._remove:
            self._remove()
        self._remove, self._sizes = None, []

    def _write(self, files: Sequence[UploadedFile], packed: int) -> Path:
        claimed = sum(file.size for file in files)
        left = self.largest - sum(self._sizes)
        if claimed > left:
            raise CheckpointError(
                "the files have {claimed:,.0f} MB, and {left:,.0f} MB are left for this session: give a path on "
                "the machine instead",
                claimed=claimed / 1000000.0,
                left=left / 1000000.0,
            )
        if claimed > PLAIN + RATIO * packed:
            raise CheckpointError(
                "{packed:,.1f} MB are packed from {claimed:,.0f} MB, which no trained weights are: send them unpacked",
                packed=packed / 1000000.0,
                claimed=claimed / 1000000.0,
            )
        if claimed + SPARE > shutil.disk_usage(tempfile.gettempdir()).free:
            raise CheckpointError(
                "the disk has no room for the {claimed:,.0f} MB of these files: make room there",
                claimed=claimed / 1000000.0,
            )
        if self._remove is None:
            self._folder = Path(tempfile.mkdtemp(prefix="-".join((PREFIX, *this_process(), ""))))
            self._remove = weakref.finalize(self, _gone, self._folder, self.allowance, self._sizes)
        self._count += 1
        folder = self._folder / str(self._count)
        self.allowance.take(claimed)
        self._sizes.append(claimed)
        try:
            for file in files:
                self._write_one(folder / file.name, file)
        except Exception as error:  # a full disk, or damaged bytes, which lead zlib to exceptions of many kinds
            shutil.rmtree(folder, ignore_errors=True)
            self.allowance.give(self._sizes.pop())
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError("the files could not be unpacked: {error}; pack them again", error=error) from error
        return _unwrapped(folder)

    def _write_one(self, path: Path, file: UploadedFile) -> None:
        """Write no more than the claimed size, and never over another file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        written = 0
        with path.open("xb") as target:
            for piece in file.pieces():
                written += len(piece)
                if written > file.size:
                    raise CheckpointError(
                        "{file} has more bytes than the {size:,} it claims: pack it again",
                        file=file.name,
                        size=file.size,
                    )
                target.write(piece)


def _gone(folder: Path, allowance: Allowance, sizes: list[int]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    allowance.give(sum(sizes))


def _whole(content: bytes) -> Iterator[bytes]:
    yield content


def _archived(name: str, content: bytes) -> list[UploadedFile]:
    """Files in an archive, not unpacked yet."""
    try:
        archive = zipfile.ZipFile(cast(IO[bytes], Bounded(io.BytesIO(content), PIECE)))
    except Exception as error:  # damaged bytes lead zipfile to exceptions of many kinds
        raise CheckpointError(
            "{file} cannot be read as a zip archive: {error}; pack it again", file=name, error=error
        ) from error
    files = []
    for info in archive.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise CheckpointError(
                "{file} holds {filename!r}, a link or a device: pack files alone",
                file=name,
                filename=info.filename[:60],
            )
        if info.filename != info.orig_filename:
            raise CheckpointError(
                "{file} holds the name {orig_filename!r}: rename that file",
                file=name,
                orig_filename=info.orig_filename[:60],
            )
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise CheckpointError(
                "{file} holds {filename!r}, encrypted or packed unusually: pack it again",
                file=name,
                filename=info.filename[:60],
            )
        if not info.is_dir():
            files.append(UploadedFile(info.filename, info.file_size, partial(_pieces, archive, info)))
    return files


def _pieces(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(info) as file:
        while piece := file.read(PIECE):
            yield piece


def _require_names(names: Sequence[str]) -> None:
    if len(names) > MOST_FILES:
        raise CheckpointError(
            "{count:,} files are too many: send at most {most_files:,}", count=len(names), most_files=MOST_FILES
        )
    seen: dict[str, str] = {}
    for name in names:
        parts = name.split("/")
        if not name.isprintable():
            raise CheckpointError("a file is called {name!r}, with signs that are not seen: rename it", name=name[:60])
        if len(name) > LONGEST_NAME:
            raise CheckpointError(
                "a file is called {name!r} and on, {count:,} signs: rename it", name=name[:60], count=len(name)
            )
        if {"\\", ":"} & set(name) or {"", ".", ".."} & set(parts) or len(parts) > DEEPEST:
            raise CheckpointError(
                "a file is called {name!r}, which could lead out of its folder: rename it", name=name[:60]
            )
        same = unicodedata.normalize("NFC", name).casefold()
        if same in seen:
            raise CheckpointError(
                "two files are called {seen!r} and {name!r}: leave one out", seen=seen[same][:60], name=name[:60]
            )
        seen[same] = name
    for same, name in seen.items():
        if clash := next((seen[str(above)] for above in PurePosixPath(same).parents if str(above) in seen), None):
            raise CheckpointError(
                "{clash!r} is a file and the folder of {name!r}: rename one of them", clash=clash[:60], name=name[:60]
            )


def _is_of_checkpoint(name: str) -> bool:
    path = PurePosixPath(name)
    hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
    return not hidden and path.suffix.lower() in UPLOAD_SUFFIXES


def _no_checkpoint_file(names: Sequence[str]) -> CheckpointError:
    """Error that says why none of the files is kept."""
    for name in names:
        if refused := REFUSED.get(PurePosixPath(name).suffix.lower()):
            return CheckpointError(
                "{file} is {refused}, and is not opened: {refused_2}",
                file=name,
                refused=refused[0],
                refused_2=refused[1],
            )
    listed = ", ".join(name[:60] for name in names[:3]) or "0"
    return CheckpointError(
        "no file of a checkpoint is among those sent ({listed}): send {read} or .zip",
        listed=listed,
        read=", ".join(READ),
    )


def _unwrapped(folder: Path) -> Path:
    """Innermost folder of those that hold one folder alone, or the file of tensors that it holds alone."""
    while len(inner := list(folder.iterdir())) == 1:
        folder = inner[0]
        if not folder.is_dir():
            return folder if folder.suffix.lower() in READ else folder.parent
    return folder


# Checkpoints opened by each session, under the session's key: kept for a reconnect, then freed with their files.

PATIENCE = 2.0  # seconds that a reload waits until its former window is closed
RETENTION = 600.0  # after the last window of a session was closed: for a reload, or a loss of the connection


@runtime_checkable
class Transfer(Protocol):
    """Download that goes on."""

    def cancel(self) -> None:
        """End the download as soon as its next piece arrives."""


@dataclass
class Opened:
    """Checkpoints opened by one session, which no other session sees.

    owner: secret of the session's browser. places: paths by name. uploads: folder of the uploaded files. download: of
    another one.
    """

    owner: str = ""
    places: dict[str, Path] = field(default_factory=dict)
    uploads: Uploads = field(default_factory=Uploads)
    download: Transfer | None = None

    def close(self) -> None:
        """Remove the uploaded files and end a download."""
        if self.download:
            self.download.cancel()
        self.places.clear()
        self.uploads.close()


class OpenedSessions:
    """Opened checkpoints of all sessions, for any thread.

    retention: seconds after which a session is freed when its last window was closed. patience: seconds that `take`
    waits. uploads: makes the folder of a session.
    """

    def __init__(
        self,
        retention: float = RETENTION,
        clock: Callable[[], float] = time.monotonic,
        timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer,
        patience: float = PATIENCE,
        uploads: Callable[[], Uploads] = Uploads,
    ) -> None:
        self._new_uploads = uploads
        self.retention, self.patience, self._clock, self._new_timer = retention, patience, clock, timer
        self._sessions: dict[str, Opened] = {}
        self._windows: dict[str, int] = {}
        self._left: dict[str, float] = {}
        self._timer: threading.Timer | None = None
        self._left_one = condition("opened checkpoints")
        atexit.register(self.close)

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, key: str, owner: str = "") -> Opened:
        """Opened checkpoints of a session, none at first. owner: secret of its browser."""
        with self._left_one:
            return self._sessions.setdefault(key, Opened(owner, uploads=self._new_uploads()))

    def get(self, key: str) -> Opened | None:
        """Opened checkpoints of a session; None: it has not begun or was freed."""
        with self._left_one:
            return self._sessions.get(key)

    def take(self, key: str, owner: str) -> Opened | None:
        """Opened checkpoints under a key that came with an address; None: another browser opened them (with another
        `owner`), or a window still shows the session.

        So a reload gets them, and a copied link does not. The window that is reloaded may take a moment to be closed.
        """
        with self._left_one:
            session = self._sessions.get(key)
            if not (session and owner and hmac.compare_digest(session.owner.encode(), owner.encode())):
                return None
            gone = self._left_one.wait_for(lambda: not self._windows.get(key), self.patience)
            return self._sessions.get(key) if gone else None

    def enter(self, key: str) -> None:
        """Count a window that shows this session."""
        with self._left_one:
            self._windows[key] = self._windows.get(key, 0) + 1
            self._left.pop(key, None)

    def leave(self, key: str) -> None:
        """Count one window less of this session: it was closed."""
        with self._left_one:
            self._windows[key] = max(0, self._windows.get(key, 0) - 1)
            if not self._windows[key]:
                del self._windows[key]
                self._left[key] = self._clock()
                self._left_one.notify_all()
            self._set_timer()

    def sweep(self) -> None:
        """Free the sessions that are due, and set the timer to the next one."""
        with self._left_one:
            now = self._clock()
            due = [key for key, left in self._left.items() if now - left >= self.retention]
            freed = [self._sessions.pop(key, None) for key in due]
            for key in due:
                del self._left[key]
            self._set_timer()
        for session in freed:
            if session:
                session.close()

    def close(self) -> None:
        """Free all sessions: the process ends."""
        with self._left_one:
            sessions = list(self._sessions.values())
            self._sessions.clear()
            self._left.clear()
            self._set_timer()
        for session in sessions:
            session.close()

    def _set_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._left:
            due = min(self._left.values()) + self.retention - self._clock()
            self._timer = self._new_timer(max(1.0, due), self.sweep)
            self._timer.daemon = True
            self._timer.start()
