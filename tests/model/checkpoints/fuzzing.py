"""Damaged files by the thousand, opened in a process that may not take memory, write elsewhere or run anything.

`python -m tests.model.checkpoints.fuzzing FOLDER CASES` prints how many of each kind opened and how many were refused,
and fails at the first case that does neither. `… FOLDER CASES KIND SEED` repeats one case of a kind. `… FOLDER broken`
tries readers that are broken on purpose and prints which of them were found out.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import hypothesis

from model.checkpoints.load import open_checkpoint
from model.checkpoints.tensors import tensor_table
from model.checkpoints.uploads import Uploads
from model.runtime.errors import CheckpointError
from tests.model.checkpoints import fuzzing_drawn, fuzzing_pieces
from tests.model.checkpoints import fuzzing_files as files
from tests.model.checkpoints.guarding import MEMORY, Caught, Guard, limit_memory, outcome


def read_table(path: Path) -> None:
    table = tensor_table(path)
    claimed = max((info.bytes for info in table), default=0)
    assert path.is_dir() or claimed <= path.stat().st_size, f"{claimed:,} bytes from a smaller file"
    for info in table:
        if info.elements < 10_000:
            info.measure() if info.values[:1].islower() else info.load()


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
    damaged_pieces = fuzzing_pieces.Pieces()
    return {
        "safetensors": (550, in_file(originals.safetensors_bytes, "safetensors")),
        "safetensors header": (550, in_file(originals.safetensors_header, "safetensors")),
        "pt": (550, in_file(originals.pt_bytes, "pt")),
        "pt pickle": (900, in_file(originals.pt_pickle, "pt")),
        "pt directory": (300, in_file(originals.pt_directory, "bin")),
        "gguf": (450, in_file(originals.gguf_bytes, "gguf")),
        "ours": (400, in_folder(originals.our_folder, open_checkpoint)),
        "hugging face": (200, in_folder(originals.hugging_face_folder, open_checkpoint)),
        "sentencepiece": (200, in_folder(damaged_pieces.folder, fuzzing_pieces.read_tokenizers)),
        "shards": (200, in_folder(originals.shards, read_table)),
        "upload": (300, lambda random, _: lambda: read_upload(originals.upload(random))),
    }


DRAWN = {"header": 150, "pickle": 150, "names": 100}  # by hypothesis


def drawn(guard: Guard, folder: Path, kind: str, cases: int, tally: Counter[str]) -> None:
    """Files that hypothesis makes from parts; it looks for the smallest one that fails."""
    strategy, write = fuzzing_drawn.DRAWN[kind]

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
