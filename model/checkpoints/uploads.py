"""Files that a visitor has sent: checked, unpacked into a folder of the session's own, and removed with it."""

from __future__ import annotations

import atexit
import hmac
import io
import shutil
import stat
import tempfile
import threading
import time
import unicodedata
import weakref
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, cast

from model.checkpoints.formats.weight_files import READ, REFUSED
from model.checkpoints.formats.zip import Bounded
from model.runtime.errors import CheckpointError
from model.runtime.files import SPARE

if TYPE_CHECKING:
    from model.checkpoints.hub import Download

LARGEST = 4 << 30  # bytes that one session may keep, unpacked
MOST_FILES = 2000
LONGEST_NAME = 250
DEEPEST = 8  # folders within folders
PLAIN, RATIO = 64 << 20, 20  # bytes that may be packed as tightly as they can, and how tightly all beyond
PIECE = 1 << 20  # bytes read at a time, and of the names in an archive
KEPT_SUFFIXES = (*READ, ".json", ".txt", ".model", ".spm", ".md", ".jinja", ".tiktoken", ".vocab", ".bpe")


@dataclass(frozen=True)
class Sent:
    """A file that was sent, or lies in an archive that was. size: as it says of itself. pieces: its bytes."""

    name: str
    size: int
    pieces: Callable[[], Iterator[bytes]]


class Uploads:
    """The temporary folder of one session. It exists from the first file on, until `close` or the end of the process.

    left_out: names that `add` has not kept the last time: programs, which are never run, and files of unknown use.
    """

    def __init__(self, largest: int = LARGEST) -> None:
        self.largest = largest
        self.left_out: list[str] = []
        self._used = self._count = 0
        self._remove: weakref.finalize[[str, bool], Uploads] | None = None
        self._folder = Path()

    def add(self, files: Sequence[tuple[str, bytes]]) -> Path:
        """Keep one file, several that belong together, or what a .zip holds; gives the file, or the folder of them.

        Raises:
            CheckpointError: they are too large, too many or packed too tightly, the disk is full, or a name would lead
            elsewhere; nothing is kept then.
        """
        packed = [(name, content) for name, content in files if name.lower().endswith(".zip")]
        if packed and len(files) > 1:
            raise CheckpointError(f"{packed[0][0]} was sent with other files: send one .zip alone, or the files in it")
        whole = [Sent(name, len(content), partial(_whole, content)) for name, content in files]
        sent = _unpacking(*packed[0]) if packed else whole
        _require_names([each.name for each in sent])
        kept = [each for each in sent if _is_kept(each.name)]
        self.left_out = [each.name for each in sent if not _is_kept(each.name)]
        if not kept:
            raise _nothing(self.left_out)
        return self._write(kept, sum(len(content) for _name, content in files))

    def close(self) -> None:
        """Remove everything."""
        if self._remove:
            self._remove()
        self._remove, self._used = None, 0

    def _write(self, files: Sequence[Sent], packed: int) -> Path:
        claimed = sum(file.size for file in files)
        if self._used + claimed > self.largest:
            raise CheckpointError(
                f"the files have {claimed / 1e6:,.0f} MB, and {(self.largest - self._used) / 1e6:,.0f} MB are left for "
                "this session: give a path on the machine instead"
            )
        if claimed > PLAIN + RATIO * packed:
            raise CheckpointError(
                f"{packed / 1e6:,.1f} MB are packed from {claimed / 1e6:,.0f} MB, which no trained weights are: "
                "send them unpacked"
            )
        if claimed + SPARE > shutil.disk_usage(tempfile.gettempdir()).free:
            raise CheckpointError(
                f"the disk has no room for the {claimed / 1e6:,.0f} MB of these files: make room there"
            )
        if self._remove is None:
            self._folder = Path(tempfile.mkdtemp(prefix="vitrine-"))
            self._remove = weakref.finalize(self, shutil.rmtree, str(self._folder), True)
        self._count += 1
        folder = self._folder / str(self._count)
        try:
            for file in files:
                self._write_one(folder / file.name, file)
        except CheckpointError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        except Exception as error:  # a full disk, or damaged bytes, which lead zlib to exceptions of many kinds
            shutil.rmtree(folder, ignore_errors=True)
            raise CheckpointError(f"the files could not be unpacked: {error}; pack them again") from error
        self._used += claimed
        return _unwrapped(folder)

    def _write_one(self, path: Path, file: Sent) -> None:
        """No more than the file says of itself, and never over another file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        written = 0
        with path.open("xb") as target:
            for piece in file.pieces():
                written += len(piece)
                if written > file.size:
                    raise CheckpointError(f"{file.name} has more bytes than the {file.size:,} it claims: pack it again")
                target.write(piece)


def _whole(content: bytes) -> Iterator[bytes]:
    yield content


def _unpacking(name: str, content: bytes) -> list[Sent]:
    """The files in an archive; nothing is unpacked yet."""
    try:
        archive = zipfile.ZipFile(cast(IO[bytes], Bounded(io.BytesIO(content), PIECE)))
    except Exception as error:  # damaged bytes lead zipfile to exceptions of many kinds
        raise CheckpointError(f"{name} cannot be read as a zip archive: {error}; pack it again") from error
    found = []
    for info in archive.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise CheckpointError(f"{name} holds {info.filename[:60]!r}, a link or a device: pack files alone")
        if info.filename != info.orig_filename:
            raise CheckpointError(f"{name} holds the name {info.orig_filename[:60]!r}: rename that file")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise CheckpointError(f"{name} holds {info.filename[:60]!r}, encrypted or packed unusually: pack it again")
        if not info.is_dir():
            found.append(Sent(info.filename, info.file_size, partial(_pieces, archive, info)))
    return found


def _pieces(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(info) as file:
        while piece := file.read(PIECE):
            yield piece


def _require_names(names: Sequence[str]) -> None:
    if len(names) > MOST_FILES:
        raise CheckpointError(f"{len(names):,} files are too many: send at most {MOST_FILES:,}")
    seen: dict[str, str] = {}
    for name in names:
        parts = name.split("/")
        strange = not name.isprintable() or {"\\", ":"} & set(name) or {"", ".", ".."} & set(parts)
        if strange or len(name) > LONGEST_NAME or len(parts) > DEEPEST:
            raise CheckpointError(f"a file is called {name[:60]!r}, which could lead out of its folder: rename it")
        same = unicodedata.normalize("NFC", name).casefold()
        if same in seen:
            raise CheckpointError(f"two files are called {seen[same][:60]!r} and {name[:60]!r}: leave one out")
        seen[same] = name
    for same, name in seen.items():
        if clash := next((seen[str(above)] for above in PurePosixPath(same).parents if str(above) in seen), None):
            raise CheckpointError(f"{clash[:60]!r} is a file and the folder of {name[:60]!r}: rename one of them")


def _is_kept(name: str) -> bool:
    path = PurePosixPath(name)
    hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
    return not hidden and path.suffix.lower() in KEPT_SUFFIXES


def _nothing(names: Sequence[str]) -> CheckpointError:
    """Why none of the files can be used."""
    known = next((each for each in names if PurePosixPath(each).suffix.lower() in REFUSED), None)
    if known:
        what, instead = REFUSED[PurePosixPath(known).suffix.lower()]
        return CheckpointError(f"{known} is {what}, and is not opened: {instead}")
    listed = ", ".join(each[:60] for each in names[:3]) or "0"
    return CheckpointError(f"no file of a checkpoint is among those sent ({listed}): send {', '.join(READ)} or .zip")


def _unwrapped(folder: Path) -> Path:
    """Past folders that hold one folder alone, and to a file of tensors that is alone."""
    while len(inner := list(folder.iterdir())) == 1:
        folder = inner[0]
        if not folder.is_dir():
            return folder if folder.suffix.lower() in READ else folder.parent
    return folder


# What each session has opened, under the session's key: kept for a reconnect, then freed with its files.

PATIENCE = 2.0  # seconds that a reload waits for its own window to be closed
SECONDS_KEPT = (
    600.0  # seconds after the last window of a session was closed: a reload, or a short loss of the connection
)


@dataclass
class Opened:
    """What one session has opened, by name; another session does not see it.

    owner: what only its own browser knows. uploads: the folder with what was sent here.
    """

    owner: str = ""
    places: dict[str, Path] = field(default_factory=dict)
    uploads: Uploads = field(default_factory=Uploads)
    download: Download | None = None

    def close(self) -> None:
        """Remove the files that were sent here and end what is being fetched."""
        if self.download:
            self.download.cancel()
        self.places.clear()
        self.uploads.close()


class OpenedSessions:
    """Any thread may ask. A session that no window shows any more is freed when `kept` seconds have passed."""

    def __init__(
        self,
        kept: float = SECONDS_KEPT,
        clock: Callable[[], float] = time.monotonic,
        timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer,
        patience: float = PATIENCE,
    ) -> None:
        self.kept, self.patience, self._clock, self._new_timer = kept, patience, clock, timer
        self._sessions: dict[str, Opened] = {}
        self._windows: dict[str, int] = {}
        self._left: dict[str, float] = {}
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()
        self._left_one = threading.Condition(self._lock)
        atexit.register(self.close)

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, key: str, owner: str = "") -> Opened:
        """What the session of this key has opened, nothing at first. owner: what only its own browser knows."""
        with self._lock:
            return self._sessions.setdefault(key, Opened(owner))

    def get(self, key: str) -> Opened | None:
        """The same, if the session has opened anything and is not freed yet."""
        with self._lock:
            return self._sessions.get(key)

    def take(self, key: str, owner: str) -> Opened | None:
        """What was opened under a key that came with an address: only for the browser that opened it, and only where no
        window shows it any more. So a reload finds it, and a copied link does not; the window that is being reloaded
        may take a moment to be gone.
        """
        with self._left_one:
            found = self._sessions.get(key)
            if not (found and owner and hmac.compare_digest(found.owner.encode(), owner.encode())):
                return None
            gone = self._left_one.wait_for(lambda: not self._windows.get(key), self.patience)
            return self._sessions.get(key) if gone else None

    def enter(self, key: str) -> None:
        """A window shows this session."""
        with self._lock:
            self._windows[key] = self._windows.get(key, 0) + 1
            self._left.pop(key, None)

    def leave(self, key: str) -> None:
        """A window that showed it is closed."""
        with self._lock:
            self._windows[key] = max(0, self._windows.get(key, 0) - 1)
            if not self._windows[key]:
                del self._windows[key]
                self._left[key] = self._clock()
                self._left_one.notify_all()
            self._set_timer()

    def sweep(self) -> None:
        """Free what no window has shown for too long, and come back when the next one is due."""
        with self._lock:
            now = self._clock()
            due = [key for key, left in self._left.items() if now - left >= self.kept]
            freed = [self._sessions.pop(key, None) for key in due]
            for key in due:
                del self._left[key]
            self._set_timer()
        for session in freed:
            if session:
                session.close()

    def close(self) -> None:
        """Free everything: the process ends."""
        with self._lock:
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
            due = min(self._left.values()) + self.kept - self._clock()
            self._timer = self._new_timer(max(1.0, due), self.sweep)
            self._timer.daemon = True
            self._timer.start()
