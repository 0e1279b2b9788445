"""docs/courses.md: every address opens, on a page that knows its choices."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from model.lessons.check import subject_of
from model.lessons.choices import require_choices
from model.lessons.lesson import Lesson
from model.lessons.state import State
from tests.test_rooms import ROOT
from viz.pages.lab.card_order import cards

INDEX = (ROOT / "docs" / "courses.md").read_text(encoding="utf-8")
ADDRESSES = list(dict.fromkeys(re.findall(r"`(/[^`]*)`", INDEX)))
PLAIN = Lesson(name="courses", title="", minutes=1, level="", model="eng-cmn", language="en", steps=())


def test_every_row_has_an_address_and_every_address_is_in_a_row():
    heads = ("| --", "| exercise |", "| section |", "| 练习 |")
    rows = [line for line in INDEX.splitlines() if line.startswith("| ") and not line.startswith(heads)]
    assert len(rows) > 70
    assert [row for row in rows if not re.search(r"\| `/[^`]*` \|$", row)] == []


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_opens(address):
    state = State.read(address)
    assert subject_of(PLAIN, state, Path()).attentions
    require_choices(state)
    assert state.parameters.get("statement", "kv-cache") in cards()
