"""What a server meets in long hours: killed at any moment, a full disk, a disk that can only be read."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from model.checkpoints.export import folder_zipped
from model.checkpoints.load import open_checkpoint
from model.checkpoints.uploads import PREFIX, Uploads, remove_left_uploads
from model.runtime.errors import CheckpointError
from model.runtime.files import finish_all, remove_left
from model.training import state
from tests.model.checkpoints.test_kill import opened_version, save_version
from tests.model.training.live.live_examples import watched

KILLS = 100


def killed_at(moment: float, work: Callable[[int], None]) -> list[int]:
    """Let a process of its own do `work`, which it gives the end of a pipe to, until it is killed so many seconds after
    it has begun; the numbers that it wrote there.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            work(writing)
        finally:
            os._exit(0)
    os.close(writing)
    time.sleep(moment)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reading) as said:
        return [int(line) for line in said.read().splitlines() if line]


@pytest.mark.slow
def test_killed_at_a_hundred_moments_everything_opens_and_nothing_is_left_lying(tmp_path, monkeypatch):
    """While it trains and writes its state, saves, exports and unpacks what was uploaded."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    saved, run = tmp_path / "saved" / "mine", tmp_path / "runs" / "mine.resume"
    save_version(saved, 1)
    recorded = watched(steps=1)
    recorded.trainer.save_state(run)
    sent = [("mine.zip", folder_zipped(saved, "mine"))]
    threads, chance = torch.get_num_threads(), random.Random(7)
    torch.set_num_threads(1)  # those of the parent are not in a child

    def work(said: int) -> None:
        for number in range(1, 10_000):
            recorded.step()
            recorded.trainer.save_state(run)
            os.write(said, f"{recorded.steps_done}\n".encode())  # from here on this step is safe
            save_version(saved, 1 + number % 2)
            zipfile.ZipFile(io.BytesIO(folder_zipped(saved, "mine"))).testzip()
            Uploads().add(sent)

    try:
        for _ in range(KILLS):
            safe = killed_at(chance.uniform(0.0, 0.6), work)
            finish_all(saved.parent)
            assert opened_version(saved) in (1, 2)
            tensors, metadata = state.read(run)
            assert tensors
            assert int(json.loads(metadata["progress"])["step"]) >= max(safe, default=1)
    finally:
        torch.set_num_threads(threads)
    remove_left(saved.parent)  # as a server does at its start
    remove_left(run.parent)
    remove_left_uploads(tmp_path / "temporary")
    assert [path.name for path in saved.parent.iterdir()] == ["mine"]
    assert [path.name for path in run.parent.iterdir()] == ["mine.resume"]
    assert not list((tmp_path / "temporary").glob(f"{PREFIX}-*"))


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A disk of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("only the superuser may mount")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_on_a_full_disk_what_was_there_stays_and_a_sentence_says_so(small_disk):
    folder = small_disk / "mine"
    save_version(folder, 1)
    filling = small_disk / "filling"
    with suppress(OSError), filling.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1024))
    with pytest.raises(CheckpointError, match="cannot be written: the disk is full: make room"):
        save_version(folder, 2)
    assert opened_version(folder) == 1
    assert sorted(path.name for path in small_disk.iterdir()) == ["filling", "mine"]
    filling.unlink()
    save_version(folder, 2)
    assert opened_version(folder) == 2


def test_a_disk_that_can_only_be_read_is_read_and_a_sentence_says_so(small_disk):
    folder = small_disk / "mine"
    save_version(folder, 1)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(CheckpointError, match="cannot be written: the disk can only be read"):
        save_version(folder, 2)
    assert open_checkpoint(folder).training["version"] == 1
