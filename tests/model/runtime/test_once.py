"""One object for all threads."""

from model.runtime import once as module
from model.runtime.once import once
from tests.two_threads import Second, Seen


def test_two_threads_that_ask_at_once_get_the_same_object(monkeypatch):
    lock, made = Seen(), []
    monkeypatch.setattr(module, "RLock", lambda _name: lock)
    one = once(lambda: (second.go(), made.append(object()), made[-1])[-1])
    monkeypatch.undo()
    got = []
    second = Second(lock, lambda: got.append(one()))
    got.append(one())
    second.end()
    assert len(made) == 1
    assert got == made * 2
