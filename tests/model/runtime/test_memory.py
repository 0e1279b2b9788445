"""How much memory is free, and the sentence where a model needs more."""

import pytest
import torch

from model.runtime import memory
from model.runtime.cancellation import SupersededError
from model.runtime.errors import CheckpointError
from model.runtime.ledger import Ledger, NoRoomError
from model.runtime.memory import Collector, available, free_memory, needed, require_room

CPU = torch.device("cpu")


def test_the_smaller_of_free_memory_and_the_groups_limit_counts(tmp_path):
    info = tmp_path / "meminfo"
    info.write_text("MemTotal: 9 kB\nMemAvailable:    3000 kB\n")
    assert free_memory(info, tmp_path) == 3000 * 1024
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("500\n")
    assert free_memory(info, tmp_path) == 3000 * 1024
    (tmp_path / "memory.max").write_text("2500\n")
    assert free_memory(info, tmp_path) == 2000
    assert free_memory(tmp_path / "none", tmp_path / "none") is None


def test_what_is_free_is_less_than_what_there_is():
    assert 0 < available(torch.device("cpu")) < 1 << 46
    assert available() >= available(torch.device("cpu")) // 2


def test_what_torch_keeps_of_a_gpus_memory_is_free(monkeypatch):
    numbers = {"mem_get_info": (100, 900), "memory_reserved": 50, "memory_allocated": 20, "device_count": 2}
    for name, number in numbers.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_device, number=number: number)
    assert available(torch.device("cuda")) == 130
    assert available() >= 260


def test_the_refusal_names_what_would_fit(monkeypatch):
    free = iter([4400, 8_100_000_000, 1_000_000])
    monkeypatch.setattr("model.runtime.memory.available", lambda device: next(free))
    assert needed(42, torch.float16) == 84
    require_room(1000, torch.float32, None)
    sentence = r"this model needs 14\.2 GB in float32 and 8\.1 GB are free: choose bfloat16"
    with pytest.raises(CheckpointError, match=sentence):
        require_room(3_550_000_000, torch.float32, None)
    with pytest.raises(CheckpointError, match="choose a smaller model"):
        require_room(3_550_000_000, torch.bfloat16, None)


def test_who_types_on_in_a_text_without_room_has_no_collection_at_each_key(monkeypatch):
    now, took, collected = 100.0, 0.2, []

    def collection():
        nonlocal now
        now += took
        collected.append(now)

    monkeypatch.setattr(memory.gc, "collect", collection)
    collect = Collector(lambda: now)
    book = Ledger(10, lambda: 0, lambda: None, (collect,))

    def keys(count):
        nonlocal now
        for _key in range(count):
            with pytest.raises(NoRoomError):
                book.reserve("the text", 11)
            now += 0.1

    keys(20)
    assert len(collected) == 1
    now += 2.1
    keys(20)
    assert len(collected) == 2  # 4 s after one of 0.2 s
    collect.expect()
    keys(5)
    assert len(collected) == 3
    collect.expect()
    monkeypatch.setattr(memory.gc, "collect", lambda: collection() or (len(collected) < 5 and collect.expect()))
    keys(5)
    assert len(collected) == 5  # what was let go in the middle of the fourth is collected by another


def test_what_a_given_up_opening_had_is_collected(monkeypatch):
    monkeypatch.setattr(memory, "collect", Collector())
    monkeypatch.setattr(memory.gc, "collect", lambda: None)
    memory.collect()
    seldom = memory.collect._next
    with pytest.raises(CheckpointError), memory.loading():
        require_room(10**15, torch.float32, CPU)
    assert memory.collect._next == seldom

    def given_up():
        require_room(1, torch.float32, CPU)
        raise SupersededError

    with pytest.raises(SupersededError), memory.loading():
        given_up()
    assert memory.collect._next < seldom
