"""Damaged files by the thousand, opened in a process that may not take memory, write elsewhere or run anything.

`python -m tests.model.fuzzing FOLDER CASES` prints how many of each kind opened and how many were refused, and fails at
the first case that does neither. `… FOLDER CASES KIND SEED` repeats one case of a kind. `… FOLDER broken` tries readers
that are broken on purpose and prints which of them were found out.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import hypothesis

from model.checkpoints import open_checkpoint
from model.errors import CheckpointError
from model.tensors import tensor_table
from model.uploads import Uploads
from tests.model import fuzzing_files as files

SECONDS = 5.0  # of the processor; a case that waits is ended after WAITING
WAITING = 120
MEMORY = 1 << 30  # bytes beyond what the process has when it begins
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")
RUNS = ("exec", "compile", "import", "pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "os.fork")
RUNS += ("os.posix_spawn", "socket.connect", "ctypes.dlopen", "os.putenv")


class Caught(BaseException):
    """What a reader must not do; no `except Exception` hides it."""


class Guard:
    """Sees what the reading of a case opens, changes and runs."""

    def __init__(self, folder: Path, seconds: float = SECONDS) -> None:
        self.inside, self.seconds = str(folder), seconds
        self.active = False
        self.seen: list[str] = []
        self.thread = threading.get_ident()
        sys.addaudithook(self.hook)
        signal.signal(signal.SIGVTALRM, self.too_long)

    def hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.active or threading.get_ident() != self.thread:
            return
        if event == "open":
            path, mode, flags = arguments
            writes = (isinstance(flags, int) and flags & WRITING) or (isinstance(mode, str) and set(mode) & set("wax+"))
            if writes and not self.allowed(path):
                self.report(f"it wrote to {path!r}")
        elif event in CHANGES or event.startswith("shutil."):
            if not all(map(self.allowed, places(event, arguments))):
                self.report(f"it did {event} to {arguments}")
        elif event in RUNS and (event, arguments[0]) != ("import", "gguf"):  # tried each time where it is not installed
            self.report(f"it did {event} {str(arguments)[:200]}")

    def allowed(self, path: object) -> bool:
        if isinstance(path, int):  # opened before
            return True
        absolute = os.path.abspath(os.fsdecode(path))  # type: ignore[arg-type]
        return absolute == self.inside or absolute.startswith(self.inside + os.sep)

    def report(self, what: str) -> None:
        self.active = False
        self.seen.append(what)
        raise Caught(what)

    def too_long(self, *_: object) -> None:
        self.report(f"it took more than {self.seconds} s")

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.seen.clear()
        signal.setitimer(signal.ITIMER_VIRTUAL, self.seconds)
        faulthandler.dump_traceback_later(WAITING, exit=True)
        self.active = True
        try:
            yield
        finally:
            self.active = False
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            faulthandler.cancel_dump_traceback_later()


def places(event: str, arguments: tuple[object, ...]) -> list[object]:
    """The paths that a change is about; relative ones may begin in an opened folder."""
    paths = [each for each in arguments[:2] if isinstance(each, str | bytes | os.PathLike)]
    opened = [each for each in arguments[1:] if type(each) is int and each >= 0]
    if event in ("os.remove", "os.rmdir") and opened:
        return [os.path.join(os.readlink(f"/proc/self/fd/{opened[0]}"), os.fsdecode(paths[0]))]  # type: ignore[arg-type]
    return list(paths)


def outcome(guard: Guard, read: Callable[[], object]) -> str:
    """ "opened" or "refused"; everything else is raised."""
    try:
        with guard.watching():
            read()
        found = "opened"
    except CheckpointError as error:
        found = "refused"
        cause: BaseException | None = error
        while cause := cause.__cause__ or cause.__context__:
            if isinstance(cause, MemoryError):
                raise Caught(f"it took more than {MEMORY:,} bytes") from error
        if "\n" in str(error) or not str(error):
            raise Caught(f"it said {str(error)!r}") from error
    if guard.seen:
        raise Caught(guard.seen[0])
    return found


def read_table(path: Path) -> None:
    table = tensor_table(path)
    claimed = max((info.bytes for info in table), default=0)
    assert path.is_dir() or claimed <= path.stat().st_size, f"{claimed:,} bytes from a smaller file"
    for info in table:
        if info.elements < 10_000:
            info.measure() if info.dtype[:1].islower() else info.load()


def read_upload(sent: list[tuple[str, bytes]]) -> None:
    uploads = Uploads(largest=1 << 20)
    try:
        read_table(uploads.add(sent))
    finally:
        uploads.close()


Make = Callable[[Random, Path], Callable[[], object]]


def in_file(mutated: Callable[[Random], bytes], ending: str) -> Make:
    def make(random: Random, folder: Path) -> Callable[[], object]:
        path = folder / f"x.{ending}"
        path.write_bytes(mutated(random))
        return lambda: read_table(path)

    return make


def in_folder(change: Callable[[Random, Path], Path], read: Callable[[Path], object]) -> Make:
    def make(random: Random, folder: Path) -> Callable[[], object]:
        path = change(random, folder)
        return lambda: read(path)

    return make


def kinds(originals: files.Originals) -> dict[str, tuple[int, Make]]:
    """Of every 5,000 cases how many are of each kind, and what makes one."""
    return {
        "safetensors": (600, in_file(originals.safetensors_bytes, "safetensors")),
        "safetensors header": (600, in_file(originals.safetensors_header, "safetensors")),
        "pt": (600, in_file(originals.pt_bytes, "pt")),
        "pt pickle": (900, in_file(originals.pt_pickle, "pt")),
        "pt directory": (300, in_file(originals.pt_directory, "bin")),
        "gguf": (500, in_file(originals.gguf_bytes, "gguf")),
        "ours": (400, in_folder(originals.our_folder, open_checkpoint)),
        "hugging face": (200, in_folder(originals.hugging_face_folder, open_checkpoint)),
        "shards": (200, in_folder(originals.shards, read_table)),
        "upload": (300, lambda random, _: lambda: read_upload(originals.upload(random))),
    }


DRAWN = {"header": 150, "pickle": 150, "names": 100}  # by hypothesis


def drawn(guard: Guard, folder: Path, kind: str, cases: int, tally: Counter[str]) -> None:
    """Files that hypothesis makes from parts; it looks for the smallest one that fails."""
    strategy, write = files.DRAWN[kind]

    @hypothesis.seed(0)
    @hypothesis.settings(
        max_examples=cases, database=None, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(strategy)
    def each(parts: object) -> None:
        path = folder / "x"
        tally[outcome(guard, write(parts, path, read_table, read_upload))] += 1

    each()


def main(folder: Path, cases: int, only: str = "", seed: int = 0) -> dict[str, Counter[str]]:
    os.chdir(folder)
    place = folder / "case"
    place.mkdir()
    os.environ["TMPDIR"] = str(place)
    originals = files.Originals(folder / "originals")
    guard = Guard(place)
    found: dict[str, Counter[str]] = {}
    chosen = {name: each for name, each in kinds(originals).items() if only in ("", name)}
    for _, make in chosen.values():  # whatever is imported and kept at the first time is so before anything is watched
        for number in range(20):
            try_once(make, Random(-1 - number), place)
    limit_memory()
    before = sorted(folder.iterdir())
    for name, (share, make) in chosen.items():
        found[name] = Counter()
        for number in [seed] if only else range(share * cases // 5000):
            found[name][one(guard, make, name, number, place)] += 1
    for name, share in DRAWN.items() if not only else ():
        found[f"drawn {name}"] = Counter()
        drawn(guard, place, name, share * cases // 5000, found[f"drawn {name}"])
    assert sorted(folder.iterdir()) == before, "something was left beside the cases"
    return found


def one(guard: Guard, make: Make, name: str, number: int, place: Path) -> str:
    read = make(Random(f"{name} {number}"), place)
    try:
        return outcome(guard, read)
    except BaseException:
        print(f"kind {name!r}, seed {number}", file=sys.stderr)
        raise


def try_once(make: Make, random: Random, place: Path) -> None:
    try:
        make(random, place)()
    except Exception as error:
        if not isinstance(error, CheckpointError):
            raise


def limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def broken(folder: Path) -> list[str]:
    """Which of these readers are found out."""
    place = folder / "case"
    place.mkdir()
    guard = Guard(place, seconds=0.5)
    limit_memory()

    def says_nothing() -> None:
        raise CheckpointError("")

    def hangs() -> None:
        while time.time():
            pass

    def hides(error: type[Exception], read: Callable[[], object]) -> Callable[[], object]:
        def hidden() -> None:
            try:
                read()
            except error as cause:
                raise CheckpointError("damaged") from cause

        return hidden

    readers: dict[str, Callable[[], object]] = {
        "another error": lambda: {}["a"],
        "a hang": hides(Exception, hangs),
        "memory": hides(MemoryError, lambda: bytearray(MEMORY)),
        "a file elsewhere": hides(Exception, lambda: (folder / "elsewhere").write_text("?")),
        "a folder elsewhere": hides(Exception, lambda: (folder / "elsewhere").mkdir()),
        "code": hides(Exception, lambda: eval(compile("1", "?", "eval"))),
        "a program": hides(Exception, lambda: os.system("true")),
        "no sentence": says_nothing,
    }
    found = []
    for name, read in readers.items():
        try:
            outcome(guard, read)
        except (Caught, KeyError):
            found.append(name)
    return found


if __name__ == "__main__":
    where = Path(sys.argv[1]).resolve()
    if sys.argv[2] == "broken":
        print(json.dumps(broken(where)))
    else:
        print(json.dumps(main(where, int(sys.argv[2]), *sys.argv[3:4], *map(int, sys.argv[4:5]))))
