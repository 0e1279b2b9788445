"""Memory is promised once: what is asked for fits beside all that is promised, or is refused with the numbers."""

from __future__ import annotations

import gc
import threading

import pytest

from model.runtime import memory
from model.runtime.ledger import Ledger, NoRoomError, memory_limit, resident_memory
from model.runtime.memory import left_memory, loading, require_room

GB = 10**9


class Machine:
    """What the process has, and what the machine can still give."""

    def __init__(self, resident: int = GB, free: int | None = 100 * GB) -> None:
        self.resident, self.free = resident, free

    def ledger(self, limit: int = 10 * GB) -> Ledger:
        return Ledger(limit, lambda: self.resident, lambda: self.free)


def test_what_is_promised_is_not_promised_again():
    ledger = Machine().ledger()
    first = ledger.reserve("the training", 5 * GB)
    assert ledger.left() == 4 * GB
    with pytest.raises(NoRoomError, match=r"needs about 5\.0 GB, and 4\.0 GB are free of the 10\.0 GB"):
        ledger.reserve("the training", 5 * GB)
    first.release()
    first.release()
    assert ledger.left() == 9 * GB
    assert ledger.promises == ()


def test_what_a_training_has_taken_is_not_counted_twice_and_what_it_may_still_take_is():
    machine = Machine()
    ledger = machine.ledger()
    held = ledger.reserve("the training", 6 * GB)
    taken = 0
    held.realised = lambda: taken
    for taken in (0, 2 * GB, 6 * GB, 0):
        machine.resident = GB + taken
        assert ledger.left() == 3 * GB


def test_memory_that_nobody_promised_counts_as_taken():
    machine = Machine()
    ledger = machine.ledger()
    ledger.reserve("the training", 2 * GB).realised = lambda: 2 * GB
    machine.resident = 8 * GB  # traces, uploads
    assert ledger.left() == 2 * GB
    machine.resident = 20 * GB
    assert ledger.left() == 0


def test_other_programs_of_the_machine_count():
    machine = Machine(free=3 * GB)
    ledger = machine.ledger()
    assert ledger.left() == 3 * GB
    ledger.reserve("the training", 2 * GB)
    assert ledger.left() == GB  # the machine can give 3, of which 2 are promised


def test_one_in_the_place_of_another_takes_its_room_only_if_it_fits():
    ledger = Machine().ledger()
    first = ledger.reserve("the training", 6 * GB)
    with pytest.raises(NoRoomError):
        ledger.reserve("the training", 12 * GB, first)
    assert ledger.promises == (first,)
    second = ledger.reserve("the training", 8 * GB, first)
    assert ledger.promises == (second,)
    second.resize(9 * GB)
    with pytest.raises(NoRoomError):
        second.resize(10 * GB)
    assert second.size == 9 * GB
    second.resize(GB)
    assert ledger.left() == 8 * GB


def test_of_many_that_ask_at_once_as_many_get_room_as_there_is():
    ledger, barrier, got = Machine().ledger(), threading.Barrier(20), []

    def ask() -> None:
        barrier.wait()
        try:
            got.append(ledger.reserve("the training", 2 * GB))
        except NoRoomError:
            return

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 4
    assert ledger.left() == GB


@pytest.mark.parametrize(
    ("text", "limit"),
    [("", 80), ("50%", 50), ("12", 12), ("1.5K", 1500), (" 2 gb ", 2 * 10**9), ("3GiB", 3 * 10**9), ("7MB", 7 * 10**6)],
)
def test_the_limit_is_a_size_or_a_share(text, limit):
    assert memory_limit(100, text) == limit


@pytest.mark.parametrize("text", ["0", "-1", "101%", "many", "1 G B", "12 XB"])
def test_a_limit_that_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="must be a size such as 12GB"):
        memory_limit(100, text)


def test_this_process_has_memory(tmp_path):
    assert 10**7 < resident_memory() < 10**12
    assert resident_memory(tmp_path / "none") == 0


def test_a_model_that_is_loaded_has_its_memory_promised_meanwhile(monkeypatch):
    own = Machine().ledger()
    monkeypatch.setattr(memory, "ledger", lambda: own)
    cpu, float32 = memory.torch.device("cpu"), memory.torch.float32
    with loading():
        require_room(15 * 10**8, float32, cpu)  # 6.6 GB
        require_room(15 * 10**8, float32, cpu)  # the same file, once more
        assert own.left() == 9 * GB - int(1.1 * 6 * GB)
        assert left_memory() == 9 * GB  # with what is promised to itself
        with pytest.raises(ValueError, match="are free"):
            require_room(3 * 10**9, float32, cpu)
    assert own.promises == ()


def test_what_was_freed_is_given_back_before_anybody_is_refused_the_quicker_way_first():
    machine, ways = Machine(resident=9 * GB), []

    def way(name, gives):
        def reclaim():
            ways.append(name)
            machine.resident -= gives

        return reclaim

    ledger = Ledger(10 * GB, lambda: machine.resident, lambda: None, (way("quick", 4 * GB), way("slow", 2 * GB)))
    ledger._base = 0
    ledger.reserve("the text", 5 * GB).release()
    assert ways == ["quick"]
    ledger.reserve("the text", 7 * GB).release()
    assert ways == ["quick", "quick"]
    with pytest.raises(NoRoomError, match=r"needs about 11\.0 GB"):
        ledger.reserve("the text", 11 * GB)
    assert ways[-2:] == ["quick", "slow"]


def test_promises_are_read_whole_while_finalizers_take_some_out():
    ledger = Machine().ledger()
    held = [ledger.reserve("the text", 1) for _ in range(100)]

    def finalizer(phase: str, _info: object) -> None:
        if phase == "start" and len(held) > 50:
            held.pop().release()

    often = gc.get_threshold()
    gc.callbacks.append(finalizer)
    gc.set_threshold(1)
    try:
        for _ in range(30):
            assert len(ledger.promises) >= 50
    finally:
        gc.set_threshold(*often)
        gc.callbacks.remove(finalizer)
    assert len(held) < 90


def test_two_that_grow_one_promise_at_once_both_count():
    ledger = Machine().ledger()
    promise = ledger.reserve("the training", GB)
    promise.grow(GB)
    promise.grow(2 * GB)
    assert promise.size == 4 * GB
    with pytest.raises(NoRoomError):
        promise.grow(7 * GB)
    assert promise.size == 4 * GB
