"""What an input becomes on the page, in the order in which it is painted."""

from __future__ import annotations

from typing import Any

import pytest

import viz.state.session
from model.runtime.errors import MissingQuantityError
from tests.viz.components.test_registry import unpack
from tests.viz.small import looking, small_model
from viz.components.registry import pack
from viz.components.view import PackedView
from viz.frame import drawing, token_bar
from viz.frame.page_layout import PageLayout
from viz.state.serving import serving
from viz.state.session import Session
from viz.ui import long_text
from viz.ui.parts import Drawing, Views


def shown(key: str) -> tuple[Any, PackedView]:
    return None, PackedView(lambda **_given: None, key, pack({}))


def of_two_parts(_model: Any) -> Drawing:
    yield [shown("near"), shown("beside")]
    yield [shown("far")]
    return lambda: None


def of_what_is_missing(_model: Any) -> Drawing:
    yield [shown("near")]
    raise MissingQuantityError("scores", "its code has none")


@pytest.fixture
def session(tmp_path) -> Session:
    return looking(small_model(tmp_path / "small"), "The cat sees.")


def groups(session: Session, views: Views) -> list[list[str]]:
    with serving(session):
        stage = PageLayout(session.model, False, views, "en")
        return [[str(view.key) for view in group] for group, _more in drawing.frames(session, stage)]


def test_a_short_text_comes_at_once(session):
    assert groups(session, of_two_parts) == [["source", "target", "near", "beside", "far", "tokens"]]


def test_of_a_long_text_what_is_nearest_to_the_eyes_comes_first(session, monkeypatch):
    monkeypatch.setattr(viz.state.session, "LONG", 5)
    first, *rest = groups(session, of_two_parts)
    assert first == ["source", "target", "tokens", "near", "beside"]  # no new head stands under old tokens
    assert rest == [["far"], []]


def test_of_a_very_long_text_the_figure_comes_before_its_thousands_of_tokens(session, monkeypatch):
    monkeypatch.setattr(viz.state.session, "LONG", 5)
    monkeypatch.setattr(long_text, "SOON", 0)
    first, *rest = groups(session, of_two_parts)
    assert first == ["source", "target", "near", "beside"]
    assert rest == [["far"], ["tokens", "long_text"]]


def test_the_checks_are_left_to_a_later_bar(session):
    early, whole = (unpack(token_bar.token_bar(session, later).data)[0] for later in (True, False))
    assert early["badges"] is None
    assert early["source"] == whole["source"]
    assert len(whole["badges"]) > 2


def test_what_the_model_does_not_have_keeps_nothing_else_from_coming(session):
    assert groups(session, of_what_is_missing) == [["source", "target", "near", "tokens"]]


def test_the_script_mounts_group_by_group_and_draws_the_rest_itself(session):
    mounted: list[list[str]] = []
    with serving(session):
        stage = PageLayout(session.model, False, of_two_parts, "en")
        rest = drawing.views(
            session, stage, session.model, lambda placed: mounted.append([view.key for _place, view in placed])
        )
    assert mounted == [["near", "beside"], ["far"]]
    assert rest is not None
