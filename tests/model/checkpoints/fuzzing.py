"""Damaged files by the thousand, opened in a process that may not take memory, write elsewhere or run anything.

`python -m tests.model.checkpoints.fuzzing FOLDER CASES` prints how many of each kind opened and how many were refused,
and fails at the first case that does neither. `… FOLDER CASES KIND SEED` repeats one case of a kind. `… FOLDER broken`
tries readers that are broken on purpose and prints which of them were found out.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from model.checkpoints.load import open_checkpoint
from model.checkpoints.tensors import tensor_table
from model.checkpoints.uploads import Uploads
from model.runtime.errors import CheckpointError
from tests.model.checkpoints import fuzzing_files as files
from tests.model.checkpoints import fuzzing_pieces
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


Make = Callable[[Random, Path], Any]  # what is read, perhaps written into the folder
Read = Callable[[Any], object]


def in_file(content: Callable[[Random], bytes], ending: str) -> Make:
    def make(random: Random, folder: Path) -> Path:
        path = folder / f"x.{ending}"
        path.write_bytes(content(random))
        return path

    return make


def kinds(originals: files.Originals) -> dict[str, tuple[int, Make, Read]]:
    """Of every 5,000 cases how many are of each kind, what makes one, and what reads it."""

    def damaged(original: bytes, ending: str) -> Make:
        return in_file(lambda random: files.damaged(random, original), ending)

    pieces = fuzzing_pieces.Pieces()
    return {
        "safetensors": (550, damaged(originals.safetensors, "safetensors"), read_table),
        "safetensors header": (550, in_file(originals.safetensors_header, "safetensors"), read_table),
        "safetensors parts": (150, in_file(files.safetensors_parts, "safetensors"), read_table),
        "pt": (550, damaged(originals.pt, "pt"), read_table),
        "pt pickle": (900, in_file(originals.pt_pickle, "pt"), read_table),
        "pt parts": (150, in_file(files.pickle_parts, "pt"), read_table),
        "pt directory": (300, in_file(originals.pt_directory, "bin"), read_table),
        "gguf": (250, damaged(originals.gguf, "gguf"), read_table),
        "gguf model": (200, damaged(originals.gguf_model, "gguf"), open_checkpoint),
        "ours": (400, originals.our_folder, open_checkpoint),
        "hugging face": (200, originals.hugging_face_folder, open_checkpoint),
        "sentencepiece": (200, pieces.folder, fuzzing_pieces.read_tokenizers),
        "shards": (200, originals.shards, read_table),
        "upload": (400, originals.upload, read_upload),
    }


def main(folder: Path, cases: int, only: str = "", seed: int = 0) -> dict[str, Counter[str]]:
    os.chdir(folder)
    place = folder / "case"
    place.mkdir()
    os.environ["TMPDIR"] = str(place)
    originals = files.Originals(folder / "originals")
    guard = Guard(place)
    found: dict[str, Counter[str]] = {}
    chosen = {name: each for name, each in kinds(originals).items() if only in ("", name)}
    # What is imported and kept at the first time is so before anything is watched.
    for _, make, read in chosen.values():
        for number in range(20):
            try_once(read, make(Random(-1 - number), place))
    limit_memory()
    before = sorted(folder.iterdir())
    for name, (share, make, read) in chosen.items():
        found[name] = Counter()
        for number in [seed] if only else range(share * cases // 5000):
            case = make(Random(f"{name} {number}"), place)
            try:
                found[name][outcome(guard, lambda read=read, case=case: read(case))] += 1
            except BaseException:
                print(f"kind {name!r}, seed {number}", file=sys.stderr)
                raise
    assert sorted(folder.iterdir()) == before, "something was left beside the cases"
    return found


def try_once(read: Read, case: object) -> None:
    with contextlib.suppress(CheckpointError):
        read(case)


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
