"""The fields of the texts: what they are sent, and how the script learns what was typed."""

from __future__ import annotations

import pytest

from tests.test_app_kinds import write
from tests.viz.components.test_registry import unpack
from tests.viz.small import looking, small_model
from viz.frame.drawing import fields
from viz.frame.text_field import on_text
from viz.state.permissions import longest_text
from viz.state.serving import serving
from viz.state.session import FIRST_SOURCE, Key, Session
from viz.state.texts import trace_fields


@pytest.fixture
def session(tmp_path) -> Session:
    return looking(small_model(tmp_path / "small"), FIRST_SOURCE)


def headers(session: Session) -> list[dict]:
    with serving(session):
        return [unpack(field.data)[0] for field in fields(session, session.model)]


def typed(session: Session, key: Key, text: str, edit: int, turn: int) -> None:
    with serving(session):
        on_text(key, {"text": text, "edit": edit, "turn": turn})
        trace_fields(session, session.model)


def test_what_answers_a_task_is_no_translation(session, monkeypatch):
    monkeypatch.setattr(session.model, "training", {**session.model.training, "task": "sort"})
    assert headers(session)[1]["label"] == "Output"


def test_the_target_shows_in_grey_what_the_model_wrote_where_nothing_is_typed(session):
    source, target = headers(session)
    assert (source["label"], source["text"], source["placeholder"]) == ("Source", FIRST_SOURCE, "")
    assert (target["label"], target["text"]) == ("Target", "")
    assert target["placeholder"] == session.model.generate(FIRST_SOURCE).text
    typed(session, Key.TARGET, "世", 1, 1)
    assert headers(session)[1]["text"] == "世"


def test_a_model_without_a_target_has_one_field(tmp_path):
    (field,) = headers(looking(write(tmp_path / "one", "decoder-only"), "The cat"))
    assert (field["label"], field["placeholder"]) == ("Text", "")


def test_the_script_says_which_turn_of_typing_it_has_learnt(session):
    typed(session, Key.SOURCE, "The dog", 4, 2)
    source, _target = headers(session)
    assert (source["text"], source["edit"], session.turn) == ("The dog", 4, 2)
    typed(session, Key.SOURCE, "The do", 3, 3)  # the channel was faster
    source, _target = headers(session)
    assert (source["text"], source["edit"], session.turn) == ("The dog", 4, 3)


def test_a_text_has_a_longest_length_that_is_said(session):
    source, _target = headers(session)
    assert source["most"] == longest_text()
    assert f"{longest_text():,}" in source["words"]["long"]
