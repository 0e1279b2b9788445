"""What a click on a cell, a head or a rule of the page of masks changes: the page's own answers, without a server."""

from __future__ import annotations

import pytest

from model.capture.interventions import Cells, PaddingSeen
from tests.viz.no_server import no_server
from viz.pages.masks import page
from viz.pages.masks.rules import Rules
from viz.state.session import Key, Selection, Session


@pytest.fixture
def session(small, monkeypatch):
    fake = no_server(monkeypatch, page)
    session = fake.session_state[Key.SESSION] = Session(selection=Selection(layer=1, head=1))
    session.trace_input(small, "The cat sees.", "")
    session.fake = fake
    return session


@pytest.mark.parametrize(("scope", "layer", "head"), [("all", None, None), ("layer", 1, None), ("head", 1, 1)])
def test_a_click_on_a_cell_changes_all_heads_a_layer_or_one(session, scope, layer, head):
    session.fake.query_params["scope"] = scope
    page.on_cell({"row": 2, "column": 0})
    assert session.what_if.changes == (Cells("decoder", False, 2, 0, layer, head),)
    assert session.selection.query == 2  # of which the figure beside it speaks
    page.on_cell({"row": -1, "column": 1})
    assert session.selection.query == 2  # a column is no query


def test_a_click_on_a_moved_head_chooses_it(session):
    page.on_head({"panel": 0, "row": 0, "column": 1})
    assert (session.selection.layer, session.selection.head) == (0, 1)
    assert session.fake.query_params["masked"] == "encoder"


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_padding_is_switched_off_in_every_attention(session, kind):
    session.fake.session_state |= {"rules": ["causal"] * (kind == "decoder"), "window": 0}
    page.on_rules(Rules.of(session.model.config, kind), "rules", "window")
    assert session.what_if.changes == (PaddingSeen(kind),)
