"""The page Checkpoints: which part, which view, and what stands there until it is drawn."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import MagicMock

from viz.pages.checkpoints import page
from viz.state.session import Session


def test_what_another_view_has_drawn_goes_before_this_one_is_measured(monkeypatch):
    """Its picture stayed for the seconds that the heads of a large model take."""
    screen, emptied = MagicMock(), []
    monkeypatch.setattr(page, "st", screen)
    monkeypatch.setattr(page, "choose_subject", lambda *_given: SimpleNamespace(name="small"))
    monkeypatch.setattr(page, "follow_sidebar", lambda _key: None)
    monkeypatch.setattr(page, "is_merged", lambda _subject: False)
    monkeypatch.setattr(page, "choose", lambda *_given: "heads")
    monkeypatch.setattr(page, "measured", lambda _subject: SimpleNamespace(table=["a tensor"]))
    monkeypatch.setattr(page, "totals", lambda _table: "")
    monkeypatch.setitem(page.VIEWS, "heads", lambda *_given: emptied.append(screen.empty.call_count))
    page.show_read(Session())
    assert emptied == [2]  # the places of the tensors and of the health
