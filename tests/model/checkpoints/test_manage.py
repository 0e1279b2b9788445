"""A checkpoint folder as a whole: its card, a copy, another name; all of it or nothing."""

from __future__ import annotations

import pytest

import model.checkpoints.manage
from model.checkpoints.manage import LONGEST_CARD, copy_with_card, read_card, rename, write_card
from model.runtime.errors import CheckpointError


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "mine"
    made.mkdir()
    (made / "config.json").write_text("{}")
    (made / ".secret").write_text("s")
    (made / "link").symlink_to("/etc/hostname")
    return made


def test_a_card_is_written_and_read_and_one_that_is_too_long_leaves_the_old_one(folder):
    assert read_card(folder) == ""
    write_card(folder, "# 我的 **card**\ud800\n")
    with pytest.raises(CheckpointError, match="at most 1 MB"):
        write_card(folder, "a" * (LONGEST_CARD + 1))
    assert read_card(folder) == "# 我的 **card**?\n"
    assert sorted(file.name for file in folder.iterdir()) == [".secret", "README.md", "config.json", "link"]


def test_a_copy_has_the_files_and_the_new_card(folder, tmp_path):
    copy = tmp_path / "saved" / "copy"
    copy_with_card(folder, copy, "new")
    assert sorted(file.name for file in copy.iterdir()) == ["README.md", "config.json"]
    assert read_card(copy) == "new"
    assert read_card(folder) == ""
    with pytest.raises(CheckpointError, match="'copy' already"):
        copy_with_card(folder, copy, "newer")
    assert read_card(copy) == "new"


def test_a_copy_that_fails_leaves_nothing(folder, tmp_path, monkeypatch):
    def fail(*_given):
        raise OSError("disk full")

    monkeypatch.setattr(model.checkpoints.manage, "replace_folder", fail)
    with pytest.raises(CheckpointError, match="copy cannot be written: disk full"):
        copy_with_card(folder, tmp_path / "saved" / "copy", "new")
    assert not list((tmp_path / "saved").iterdir())


def test_a_name_that_is_taken_is_refused(folder, tmp_path):
    (tmp_path / "other").mkdir()
    with pytest.raises(CheckpointError, match="'other' already"):
        rename(folder, "other")
    assert rename(folder, "new").is_dir()
    assert not folder.exists()
