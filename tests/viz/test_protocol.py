"""Messages of the channel: what a window sends is read, and what none of ours sends is not."""

from __future__ import annotations

import json

import pytest

from viz.protocol import (
    MOST_VIEWS,
    NO_MESSAGE,
    Click,
    Edit,
    Hello,
    Hidden,
    Painted,
    RunScript,
    Screen,
    Visible,
    Waiting,
    Working,
    read,
    read_token,
    text_of,
)


@pytest.mark.parametrize(
    "message",
    [
        Edit("source", "a ⏎ 你", 3),
        Edit("target", "", 0),
        Click("head_grid", "head", [0, 1]),
        Click("grid", "pin", None),
        Painted(7),
        Visible(["a", "b"]),
        Hidden(True),
    ],
)
def test_what_a_window_sends_is_read(message):
    assert read(json.dumps(vars(message))) == message


def test_numbers_and_keys_are_taken_for_what_they_should_be():
    assert read('{"type": "source", "text": 5, "edit": "2"}') == Edit("source", "5", 2)
    assert read('{"hidden": 0}') == Hidden(False)
    assert read(json.dumps({"visible": [7] * (MOST_VIEWS + 1)})) == Visible(["7"] * MOST_VIEWS)
    assert read_token('{"token": 12}') == "12"


@pytest.mark.parametrize("text", ["{}", '{"type": "other", "text": "a", "edit": 1}', '{"works": true}'])
def test_a_message_of_an_unknown_kind_is_none(text):
    assert read(text) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "7", "null", "{", '{"type": "source"}', '{"type": "source", "text": "a", "edit": {}}'),
        *('{"seen": "x"}', '{"seen": 1e999}', '{"visible": 5}', '{"answer": "a"}', "[" * 100_000),
        '{"type": ["source"], "text": "a", "seen": null}',
    ],
)
def test_what_no_window_sends_raises_what_the_channel_expects(text):
    with pytest.raises(NO_MESSAGE):
        read(text)


def test_what_comes_down_has_the_names_that_the_browser_looks_for():
    sent = [json.loads(text_of(each)) for each in (Hello(), RunScript(), Waiting(2, 5), Working(), Screen(None))]
    assert sent[:3] == [{"hello": True}, {"script": True}, {"waiting": 2, "typing": 5}]
    assert sent[3:] == [{"works": True}, {"screen": None}]
