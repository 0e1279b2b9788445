"""What is sent: unpacked into the session's own folder and nowhere else, within bounds, and gone with it."""

import gc
import io
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from model.checkpoints.load import open_checkpoint
from model.checkpoints.tensors import tensor_table
from model.checkpoints.uploads import PREFIX, Allowance, Uploads, remove_left_uploads
from model.runtime.errors import CheckpointError
from model.runtime.files import this_process
from tests.viz.small import write_small

WEIGHTS = save({"w": torch.ones(2)})


@pytest.fixture
def uploads(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    made = Uploads()
    yield made
    made.close()
    assert not list((tmp_path / "temporary").iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["temporary"]


def zipped(*files, compression=zipfile.ZIP_DEFLATED):
    """An archive. files: names or ZipInfo, with contents."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", compression) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return held.getvalue()


def test_our_folder_comes_back_from_its_zip(uploads, tmp_path_factory):
    folder = write_small(tmp_path_factory.mktemp("written") / "mine")
    files = [(f"mine/{file.name}", file.read_bytes()) for file in folder.iterdir()]
    path = uploads.add([("mine.zip", zipped(*files, ("mine/curves/run", b"?")))])
    assert path.name == "mine"
    assert {file.name: file.read_bytes() for file in path.iterdir()} == {
        file.name: file.read_bytes() for file in folder.iterdir()
    }
    open_checkpoint(path)
    assert uploads.left_out == ["mine/curves/run"]


def test_files_sent_together_are_a_folder_and_one_alone_is_a_file(uploads):
    configs = {"config.json", "model_config.yaml"}  # the second is litgpt's
    together = uploads.add([("model.safetensors", WEIGHTS), *((name, b"{}") for name in sorted(configs))])
    assert {file.name for file in together.iterdir()} == {"model.safetensors", *configs}
    alone = uploads.add([("x.safetensors", WEIGHTS)])
    assert alone.name == "x.safetensors"
    assert [info.name for info in tensor_table(alone)] == [info.name for info in tensor_table(together)] == ["w"]
    assert uploads.add([("a.zip", zipped(("a/b/x.safetensors", WEIGHTS)))]).name == "x.safetensors"


def test_programs_and_hidden_files_are_left_out_and_named(uploads):
    sent = [("modeling.py", b"1/0"), ("x.safetensors", WEIGHTS), (".env", b"?"), ("__MACOSX/x.json", b"{}")]
    path = uploads.add([("m.zip", zipped(*sent))])
    assert path.name == "x.safetensors"
    assert [file.name for file in path.parent.iterdir()] == ["x.safetensors"]
    assert uploads.left_out == ["modeling.py", ".env", "__MACOSX/x.json"]


def special(name, mode):
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def with_claimed_size(content, size):
    """The archive with another unpacked size in its directory and before its only file."""
    place = content.rindex(b"PK\1\2") + 24
    changed = content[:place] + size.to_bytes(4, "little") + content[place + 4 :]
    return changed[:22] + size.to_bytes(4, "little") + changed[26:]


LEADING_OUT = ["../x", "a/../../x", "/etc/x", "C:/x", "a\\x", "a//x", "/".join("abcdefghi")]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        *(([(f"{name}.json", b"{}")], "could lead out of its folder") for name in LEADING_OUT),
        ([("a\nb.json", b"{}")], r"'a\\nb.json', with signs that are not seen"),
        ([("\u202eb.json", b"{}")], r"'\\u202eb.json', with signs that are not seen"),
        ([(f"{'x' * 300}.json", b"{}")], "xxx' and on, 305 signs"),
        ([("a/x.json", b"{}"), ("A/X.json", b"[]")], "two files are called 'a/x.json' and 'A/X.json'"),
        ([("a.json", b"{}"), ("a.json/b.json", b"{}")], "'a.json' is a file and the folder of 'a.json/b.json'"),
        ([(special("x.json", stat.S_IFLNK | 0o777), b"/etc/passwd")], "'x.json', a link or a device"),
        ([(special("x.json", stat.S_IFCHR), b"")], "'x.json', a link or a device"),
        ([(f"{number}.json", b"{}") for number in range(2001)], "2,001 files are too many"),
        ([("run.py", b"1/0")], "run.py is a program, which is not run, and is not opened: give"),
        ([("x.h5", b"?")], "x.h5 is a model of Keras, and is not opened: write its weights with safetensors"),
        ([("x.doc", b"?")], r"no file of a checkpoint is among those sent \(x.doc\)"),
        ([], "no file of a checkpoint is among those sent \\(0\\): send"),
    ],
)
def test_what_could_harm_is_refused(files, message, uploads):
    with pytest.raises(CheckpointError, match=message):
        uploads.add([("m.zip", zipped(*files))])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read as a zip archive"),
        (b"PK\3\4" * 99, "cannot be read as a zip archive"),
        (zipped(("x.json", b"{}"), compression=zipfile.ZIP_LZMA), "encrypted or packed unusually"),
        (zipped(("x.json", b"1" * 999)).replace(b"\x33\x34", b"\x00\x00"), "could not be unpacked"),
        (with_claimed_size(zipped(("x.json", b"1" * 999)), 1 << 31), "the files have 2,147 MB, and 1 MB are left"),
        (with_claimed_size(zipped(("x.json", b"1" * 999)), 5), "could not be unpacked"),
    ],
)
def test_a_damaged_or_lying_archive_is_refused(content, message, uploads):
    uploads.largest = 1_000_000
    with pytest.raises(CheckpointError, match=message):
        uploads.add([("m.zip", content)])


def test_a_bomb_is_not_unpacked(uploads):
    """A thousandfold: 2 MB that would become 2 GB, by what they say and by what comes out."""
    uploads.largest = 1_000_000
    bomb = zipped(*((f"{number}.json", bytes(200_000)) for number in range(20)))
    assert len(bomb) < 10_000
    with pytest.raises(CheckpointError, match="the files have 4 MB, and 1 MB are left"):
        uploads.add([("m.zip", bomb)])


def test_a_session_has_one_budget(uploads):
    uploads.largest = 300
    uploads.add([("a.json", bytes(200))])
    with pytest.raises(CheckpointError, match="left for this session"):
        uploads.add([("b.json", bytes(200))])
    uploads.close()
    uploads.add([("b.json", bytes(200))])


def test_all_sessions_have_one_budget_together(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def full(*_given):
        raise OSError(28, "no space left")

    allowance = Allowance(300)
    first, second = Uploads(1000, allowance), Uploads(1000, allowance)
    first.add([("a.json", bytes(200))])
    with pytest.raises(CheckpointError, match="left for all visitors"):
        second.add([("b.json", bytes(200))])
    assert allowance.used == 200
    monkeypatch.setattr(Uploads, "_write_one", full)
    with pytest.raises(CheckpointError, match="could not be unpacked"):  # what fails is given back
        second.add([("b.json", bytes(50))])
    assert allowance.used == 200
    monkeypatch.undo()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first.close()
    assert allowance.used == 0
    second.add([("b.json", bytes(200))])
    del second
    gc.collect()
    assert allowance.used == 0
    assert not list(tmp_path.iterdir())


def test_a_zip_comes_alone(uploads):
    with pytest.raises(CheckpointError, match=r"m.zip was sent with other files"):
        uploads.add([("m.zip", zipped(("x.json", b"{}"))), ("config.json", b"{}")])


def test_the_folder_goes_with_the_session(uploads):
    other = Uploads()
    path = other.add([("x.json", b"{}")])
    assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700
    del other
    gc.collect()
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "value", "sent", "message"),
    [
        ("PLAIN", 1000, ("m.zip", zipped(("model.safetensors", bytes(1_000_000)))), "which no trained weights are"),
        ("SPARE", 1 << 62, ("model.safetensors", WEIGHTS), "the disk has no room"),
    ],
    ids=["packed too tightly", "a full disk"],
)
def test_what_has_no_room_is_not_unpacked(name, value, sent, message, uploads, monkeypatch):
    monkeypatch.setattr(f"model.checkpoints.uploads.{name}", value)
    with pytest.raises(CheckpointError, match=message):
        uploads.add([sent])


def test_uploads_of_a_killed_process_are_removed_at_the_next_start(tmp_path):
    code = (
        "import os, signal, tempfile; tempfile.tempdir = {!r}\n"
        "from model.checkpoints.uploads import Uploads\n"
        "uploads = Uploads(); print(uploads.add([('a.safetensors', b'x' * 9)]), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code.format(str(tmp_path))], capture_output=True, check=False)
    left = Path(killed.stdout.decode().strip())
    assert left.read_bytes() == b"x" * 9
    mine = tmp_path / "-".join((PREFIX, *this_process(), "mine"))
    mine.mkdir()
    remove_left_uploads(tmp_path)
    assert list(tmp_path.iterdir()) == [mine]
