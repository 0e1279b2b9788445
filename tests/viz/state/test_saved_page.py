"""What clicks show in a saved page: by the click, as its script writes it; all of it or nothing."""

from __future__ import annotations

from viz.state import saved_page
from viz.state.saved_page import Choices


def test_a_click_is_called_as_the_browser_writes_it():
    choices = Choices()
    assert choices.add("heads", "head", {"layer": 0, "head": 3}, "large", b"abc")
    assert choices.add("heads", "head", {"layer": 0, "head": 3}, "steps", b"de")
    click = 'heads head {"layer":0,"head":3}'  # JSON.stringify({ layer: 0, head: 3 })
    assert choices.header() == {"choices": [[click, "large"], [click, "steps"]], "left_out": False}
    assert [each.tobytes() for each in choices.arrays()] == [b"abc", b"de"]


def test_of_more_than_there_is_room_for_nothing_is_kept(monkeypatch):
    monkeypatch.setattr(saved_page, "MOST", 4)
    choices = Choices()
    assert choices.add("heads", "head", 1, "large", b"abc")
    assert not choices.add("heads", "head", 2, "large", b"de")
    assert choices.header() == {"choices": [], "left_out": True}
    assert choices.arrays() == []
