"""A guard around a case of the fuzz test: its time, its memory, what it writes, what it runs."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from model.runtime.errors import CheckpointError

SECONDS = 5.0  # of the processor; a case that waits is ended after WAITING
WAITING = 120
MEMORY = 1 << 30  # bytes beyond what the process has when it begins
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")
RUNS = ("exec", "compile", "import", "pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "os.fork")
TRIED = ("gguf", "sacremoses", "tiktoken", "tiktoken.load")  # imported each time where they are not installed
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
        elif event in RUNS and not (event == "import" and arguments[0] in TRIED):
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


def limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
