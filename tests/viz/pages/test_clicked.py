"""What a click in a figure chooses, page by page: the pages' own answers, without a server."""

from __future__ import annotations

import pytest

import viz.pages.feed_forward.page
import viz.pages.map.page
import viz.pages.residual.page
from model.analysis.blocks import blocks
from tests.viz.no_server import no_server
from viz.state.session import Key, Selection, Session


@pytest.fixture
def clicked(small, monkeypatch):
    """Does what a page's answer does of a click in one of its figures, and gives the session and the address."""
    fake = no_server(monkeypatch)
    session = fake.session_state[Key.SESSION] = Session(selection=Selection(layer=1, head=1))
    session.trace_input(small, "The cat sees.", "一七丞世")

    def click(answer, what, address=()):
        fake.query_params.update(address)
        answer(what)
        return session, fake.query_params

    return click


# The decoder's stream: the embedding, then self-attention, cross-attention and feed-forward of each layer.
@pytest.mark.parametrize(
    ("quantity", "row", "layer"),
    [("length", 0, 0), ("length", 3, 0), ("length", 4, 1), ("share", 2, 0), ("share", 3, 1)],
)
def test_a_step_of_the_stream_chooses_its_layer_and_the_token(clicked, quantity, row, layer):
    page = viz.pages.residual.page
    address = {page.Part.OF_STREAM: quantity, page.Part.STACK: "decoder"}
    session, said = clicked(page.on_step, {"row": row, "column": 2}, address)
    assert (session.selection.layer, session.selection.query) == (layer, 2)
    assert (said["layer"], said["query"]) == (str(layer), "2")


def test_a_unit_at_a_token_is_chosen_by_its_place_in_the_order(clicked):
    page = viz.pages.feed_forward.page
    session, said = clicked(page.on_cell, {"row": 3, "column": 1}, {"stack": "decoder"})
    activations = session.trace["decoder.layers.1.feed_forward.hidden"].clamp(min=0)
    strongest = activations.abs().amax(dim=0).argsort(descending=True, stable=True)
    assert said[page.Part.UNIT] == str(int(strongest[1]))
    assert session.selection.query == 3


def test_a_token_of_the_map_becomes_the_query_and_the_scale_is_kept_in_the_address(clicked):
    page = viz.pages.map.page
    session, said = clicked(page.on_token, {"side": "source", "position": 2})
    assert (session.selection.query, said["query"]) == (2, "2")
    _session, said = clicked(page.on_scale, "largest")
    assert said[Key.SCALE] == "largest"


def test_an_embedding_of_the_map_opens_its_own_side_whichever_token_was_chosen_before(clicked):
    page = viz.pages.map.page
    session, _said = clicked(page.on_token, {"side": "target", "position": 2})
    block = next(number for number, each in enumerate(blocks(session.trace)) if each.path == "encoder.embedding")
    session, said = clicked(page.on_open, {"block": block, "head": None})
    assert said["side"] == session.query_side == "source"
