"""Pages of files that were copied leave memory, and nothing else does."""

from __future__ import annotations

import sys
import weakref
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.checkpoints.assembled import assembled
from model.checkpoints.formats.weight_files import map_file
from model.runtime import file_pages
from model.runtime.file_pages import MAPS, PAGE, FilePages, clean, in_turn, let_go_of_files, places_of_files, within
from tests.model.examples import one_stack
from tests.resident import forget_peak, highest_resident

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pages are counted by Linux alone")
SIZE = 1 << 22  # numbers


@pytest.fixture
def mapped(tmp_path):
    save_file({"a": torch.arange(SIZE, dtype=torch.float32), "b": torch.ones(SIZE)}, tmp_path / "w.safetensors")
    return load_file(tmp_path / "w.safetensors")


def resident_of_files() -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssFile"))


def test_pages_of_what_was_copied_leave_memory_and_its_numbers_stay(mapped):
    own = torch.full((SIZE,), 3.0)
    before = resident_of_files()
    pages = FilePages()
    copies = [tensor.clone() for tensor in (*mapped.values(), own)]
    assert resident_of_files() > before + 7 * SIZE
    for tensor in (*mapped.values(), own):
        pages.copied(tensor)
    pages.let_go()
    assert resident_of_files() < before + SIZE
    assert all(torch.equal(*pair) for pair in zip(copies, (*mapped.values(), own), strict=True))


def test_what_was_written_over_a_file_stays(mapped):
    mapped["b"][5] = 7.0
    before, pages = resident_of_files(), FilePages()
    assert mapped["a"].sum() > 0
    pages.copied(mapped["a"][:1].expand(9))  # of whatever shape: the rest of its file is let go too
    pages.let_go()
    assert resident_of_files() < before + SIZE
    assert mapped["b"][5] == 7.0
    assert mapped["a"][-1] == SIZE - 1


def test_the_place_of_a_tensor_that_is_gone_may_be_anothers(tmp_path):
    for name in ("gone", "another"):
        (tmp_path / name).write_bytes(bytes(1 << 20))
    pages = FilePages()
    pages.copied(map_file(tmp_path / "gone", 0, 1 << 20))
    another = map_file(tmp_path / "another", 0, 1 << 20)  # the system gives it the first free place
    another[:] = 7
    kept = str(tmp_path / "gone") in MAPS.read_text(encoding="utf-8")
    pages.let_go()
    assert (another == 7).all()
    assert kept
    assert str(tmp_path / "gone") not in MAPS.read_text(encoding="utf-8")


def test_without_a_word_of_the_system_nothing_is_let_go(mapped, tmp_path, monkeypatch):
    begin = mapped["a"].data_ptr()
    mapped["a"].sum()
    assert list(clean(begin, begin + 8 * PAGE + 1))
    monkeypatch.setattr(file_pages, "PAGEMAP", tmp_path / "none")
    assert not list(clean(begin, begin + 8 * PAGE + 1))


def test_places_are_those_of_files_that_are_mapped_alone(mapped, tmp_path):
    (place,) = places_of_files([mapped["a"].data_ptr(), torch.ones(9).data_ptr()])
    assert within(mapped["b"].data_ptr(), [place])
    assert not within(place[1], [place])
    assert not within(place[0] - 1, [place])
    assert places_of_files([1], tmp_path / "none") == []
    (tmp_path / "maps").write_bytes(b"10-20 rw-p 0 08:01 9 /a\x0c \xff\r20-30 r--p 0 0 9\n20-30 rw-p 0 00:00 0\n")
    assert places_of_files([17, 33], tmp_path / "maps") == [(16, 32)]


def test_pages_of_tensors_smaller_than_a_piece_leave_memory_after_they_were_read(mapped, monkeypatch):
    monkeypatch.setattr(file_pages, "PIECE", 6 * SIZE)  # bytes: more than one of them, less than both
    before = resident_of_files()
    for tensor in mapped.values():
        for piece in in_turn(tensor.split(SIZE >> 4)):
            piece.sum()
    assert resident_of_files() < before + SIZE


def test_what_is_read_of_memory_is_not_kept():
    tensor = torch.ones(1 << 14)
    gone = weakref.ref(tensor.untyped_storage())
    for piece in in_turn(tensor.split(1 << 12)):
        piece.sum()
    del tensor, piece
    assert gone() is None


def test_all_pages_of_files_are_let_go(mapped):
    mapped["a"].sum()
    begin, end = mapped["a"].data_ptr(), mapped["a"].data_ptr() + mapped["a"].nbytes
    assert list(clean(begin, end))
    let_go_of_files()
    assert not list(clean(begin, end))


def test_a_file_and_its_network_are_not_in_memory_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(file_pages, "PIECE", 1 << 20)
    options = {"d_model": 512, "n_heads": 8, "d_ff": 2048, "layers": 4}
    network = one_stack("decoder-only", **options)
    save_file({name: each.detach().clone() for name, each in network.named_parameters()}, tmp_path / "w.safetensors")
    size, config = 4 * network.parameter_count(), network.config
    del network
    weights = load_file(tmp_path / "w.safetensors")
    forget_peak()
    before = highest_resident()
    made = assembled(config, weights)
    assert 4 * made.parameter_count() == size
    assert highest_resident() - before < 1.35 * size
