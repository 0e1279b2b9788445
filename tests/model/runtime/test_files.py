"""Files and folders written so that a death at any step leaves the old or the new content."""

import ast
import errno
import itertools
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from model.checkpoints.native import _read_tokenizer
from model.runtime.errors import CheckpointError
from model.runtime.files import (
    begin_folder,
    finish_replacing,
    open_file,
    remove_left,
    replace_folder,
    require_file,
    this_process,
    write_tensors,
    write_text,
)
from model.runtime.untrusted_json import read_bytes
from tests.model.checkpoints.killing import dying_at


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def fill(folder: Path, text: str) -> Path:
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text(text)
    return folder


OLD, NEW = ({f"{number}.txt": text for number in range(3)} for text in ("old", "new"))


def test_tensors_come_back(tmp_path):
    tensors = {"a": torch.randn(3, 4).T, "b": torch.tensor(5), "c": torch.randn(2, requires_grad=True)}
    path = tmp_path / "below" / "x.safetensors"
    write_tensors(path, tensors, {"note": "é"})
    for name, tensor in load_file(path).items():
        assert torch.equal(tensor, tensors[name])
    with safe_open(path, framework="pt") as file:
        assert file.metadata() == {"note": "é"}
    assert [each.name for each in path.parent.iterdir()] == ["x.safetensors"]


def read_tensors(path: Path) -> str:
    with safe_open(path, framework="pt") as file:
        version = file.metadata()["version"]
        assert torch.equal(file.get_tensor("a"), torch.full((100,), float(version == "new é")))
    return version


def save_tensors(path: Path, version: str) -> None:
    write_tensors(path, {"a": torch.full((100,), float(version == "new é"))}, {"version": version})


@pytest.mark.parametrize(
    ("write", "read", "steps"),
    [
        (save_tensors, read_tensors, ["mkdir", "save_file", "fsync", "replace", "unlink"]),
        (write_text, lambda path: path.read_text(encoding="utf-8"), None),
    ],
    ids=["tensors", "text"],
)
def test_a_death_at_any_step_leaves_the_old_or_the_new_file(write, read, steps, tmp_path, monkeypatch):
    path, versions, deaths = tmp_path / "x", [], []
    for step in itertools.count(1):
        write(path, "old é")
        with dying_at(step, monkeypatch) as died:
            write(path, "new é")
        versions.append(read(path))
        if not died:
            break
        deaths += died
    assert steps is None or deaths == steps
    assert versions == sorted(versions, reverse=True)
    assert versions.count("old é") > 2
    assert versions[-1] == "new é"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full: make room there"),
        (OSError(errno.EROFS, "Read-only file system"), "the disk can only be read: choose another"),
        (PermissionError(errno.EACCES, "Permission denied"), "the folder may not be written in: change"),
        (SafetensorError("I/O error: No space left on device (os error 28)"), "the disk is full: make room"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (SafetensorError("Error while serializing"), "Error while serializing"),
    ],
)
def test_what_cannot_be_written_is_a_sentence_and_leaves_no_scraps(error, sentence, tmp_path, monkeypatch):
    def fail(*arguments):
        raise error

    path = tmp_path / "x.safetensors"
    write_tensors(path, {"a": torch.zeros(1)}, {})
    monkeypatch.setattr("model.runtime.files.save_file", fail)
    with pytest.raises(CheckpointError, match=rf"^x.safetensors cannot be written: {sentence}"):
        write_tensors(path, {"a": torch.ones(1)}, {})
    assert [each.name for each in tmp_path.iterdir()] == ["x.safetensors"]
    assert load_file(path)["a"].item() == 0


@pytest.mark.parametrize("exists", [True, False])
def test_a_death_at_any_step_leaves_the_old_or_the_new_folder(exists, tmp_path, monkeypatch):
    deaths = []
    for step in itertools.count(1):
        place = tmp_path / str(step)
        place.mkdir()
        folder = place / "checkpoint"
        if exists:
            fill(folder, "old")
        written = fill(place / "written", "new")
        with dying_at(step, monkeypatch) as died:
            replace_folder(folder, written)
        finish_replacing(folder)
        found = content(folder) if folder.exists() else None
        assert found in (OLD if exists else None, NEW)
        # Whatever was left behind, the next one goes through and clears up.
        replace_folder(folder, fill(place / "again", "again"))
        assert set(content(folder).values()) == {"again"}
        assert {path.name for path in place.iterdir()} <= {"checkpoint", "written"}
        if not died:
            assert found == NEW
            break
        deaths += died
    assert deaths.count("rename") >= 2
    assert (deaths.count("unlink"), deaths.count("rmdir")) == ((3, 1) if exists else (0, 0))


def test_a_second_death_while_finishing_loses_nothing(tmp_path, monkeypatch):
    """The folder is away, both halves lie beside it: the worst moment to die in."""
    fill(tmp_path / ".checkpoint.old", "old")
    fill(tmp_path / ".checkpoint.new", "new")
    with dying_at(1, monkeypatch) as died:
        finish_replacing(tmp_path / "checkpoint")
    assert died == ["rename"]
    finish_replacing(tmp_path / "checkpoint")
    assert content(tmp_path / "checkpoint") == NEW


def test_without_the_new_half_the_old_one_comes_back_and_nothing_to_finish_is_no_error(tmp_path, monkeypatch):
    fill(tmp_path / ".checkpoint.old", "old")
    finish_replacing(tmp_path / "checkpoint")
    assert content(tmp_path / "checkpoint") == OLD
    finish_replacing(tmp_path / "missing")
    monkeypatch.chdir(fill(tmp_path / "here", "old"))
    finish_replacing(Path())
    assert content(Path()) == OLD


def test_a_reader_does_not_disturb_a_writer(tmp_path, monkeypatch):
    """An application opens the checkpoint that a training is saving."""
    monkeypatch.setattr("model.runtime.files.flush", lambda path: None)  # waits for the disk
    folder, stop, errors = fill(tmp_path / "checkpoint", "old"), threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                finish_replacing(folder)
            except Exception as error:  # noqa: BLE001 - the test says it
                errors.append(error)
            time.sleep(0)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(100):
            replace_folder(folder, fill(tmp_path / "written", str(number)))
            assert set(content(folder).values()) == {str(number)}
    finally:
        stop.set()
        reader.join()
    assert errors == []


def test_what_a_killed_process_was_writing_is_removed_by_a_later_one(tmp_path):
    old, young, other = (tmp_path / name for name in (".x.7.writing", ".x.8.writing", ".y.7.writing"))
    for folder in (old, young, other):
        fill(folder, "half")
    for folder in (old, other):
        os.utime(folder, (0, 0))
    written = begin_folder(tmp_path / "x")
    assert not list(written.iterdir())
    assert {path.name for path in tmp_path.iterdir()} == {written.name, young.name, other.name}
    fill(written / "below", "again")
    assert not list(begin_folder(tmp_path / "x").iterdir())


def test_what_a_dead_process_of_this_machine_left_is_removed_at_once_and_what_others_write_stays(tmp_path):
    host, own = this_process()
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    number = dead.stdout.decode().strip()
    left = [tmp_path / f".x.{host}.{number}.writing", tmp_path / f".a.b.{host}.{number}.writing"]
    kept = [tmp_path / f".x.{host}.{own}.writing", tmp_path / f".x.elsewhere.{number}.writing", tmp_path / "x"]
    for path in (left[0], *kept):
        fill(path, "half")
    left[1].write_text("half")
    remove_left(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in kept}
    remove_left(tmp_path / "none")


def test_a_limit_of_the_system_on_files_is_a_sentence(tmp_path):
    """As a real process meets it: `ulimit -f`, and a folder that is a file."""
    code = (
        "import resource, sys, torch\nfrom pathlib import Path\n"
        "from model.runtime.errors import CheckpointError\nfrom model.runtime.files import write_tensors, write_text\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\nfolder = Path(sys.argv[1])\n"
        "for write in (lambda: write_text(folder / 'a.txt', 'x' * 1_000_000),\n"
        "              lambda: write_tensors(folder / 'b.safetensors', {'a': torch.zeros(100_000)}, {}),\n"
        "              lambda: write_text(folder / 'file' / 'c.txt', 'x')):\n"
        "    try:\n        write()\n    except CheckpointError as error:\n        print(error)\n"
    )
    (tmp_path / "file").write_text("")
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    told = [line.partition(" cannot be written: ")[::2] for line in done.stdout.splitlines()]
    assert [name for name, _reason in told] == ["a.txt", "b.safetensors", "c.txt"]
    assert told[0][1].startswith("it is larger than a file may be here")
    assert told[1][1].startswith("it is larger than a file may be here")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# Of the same names: texts and bytes in memory, members of an archive, new files, what is checked and then read.
HARMLESS = r"^read_text\(|^read_bytes\(|^archive\.open|'xb'|'w|^os\.open|Bounded\("
READS = {"open", "read_bytes", "read_text", "safe_open", "memmap", "ZipFile", "torch.load", "np.load", "np.fromfile"}
OWN = {  # what no stranger gives
    "model/runtime/files.py": "open_file itself",
    "model/runtime/file_pages.py": "/proc",
    "model/runtime/ledger.py": "/proc",
    "model/runtime/memory.py": "/proc and the control group",
}


def test_every_read_of_a_file_in_the_model_refuses_what_is_no_file():
    """By name a library opens only what `require_file` has looked at."""
    root, found = Path(__file__).parents[3], []
    for path in sorted((root / "model").rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name in OWN or name.startswith("model/experiments"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if READS & {called, called.rpartition(".")[2]}:
                given = " ".join(map(ast.unparse, [*node.args, *(word.value for word in node.keywords)]))
                if "require_file(" not in given and not re.search(HARMLESS, f"{called}({given}"):
                    found.append(f"{name}:{node.lineno} {called}({given})")
    assert not found, "read these by open_file, or give them to require_file first:\n" + "\n".join(found)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir], ids=["pipe", "folder"])
def test_a_pipe_or_a_folder_in_the_place_of_a_file_is_refused_at_once(tmp_path, make):
    path = tmp_path / "source_tokenizer.json"
    make(path)
    for read in (open_file, require_file):
        with pytest.raises(OSError, match=r"^it is not a file$"):
            read(path)
    with pytest.raises(CheckpointError, match=r"^source_tokenizer\.json cannot be read: it is not a file$"):
        read_bytes(path)
    with pytest.raises(CheckpointError, match="it is not a file"):
        _read_tokenizer(path)
