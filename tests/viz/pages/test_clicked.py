"""What a click in a figure chooses, page by page: the pages' own callbacks, without a server."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import viz.pages.feed_forward.page
import viz.pages.map.page
import viz.pages.residual.page
import viz.state.session
from viz.state.session import Key, Selection, Session


@pytest.fixture
def clicked(small, monkeypatch):
    """Does what a page's callback does of a click in one of its figures, and gives the session."""
    fake = SimpleNamespace(session_state={}, query_params={})
    session = fake.session_state[Key.SESSION] = Session(selection=Selection(layer=1, head=1))
    pages = (viz.pages.feed_forward.page, viz.pages.map.page, viz.pages.residual.page)
    for module in (viz.state.session, *pages):
        monkeypatch.setattr(module, "st", fake)
    monkeypatch.setattr(viz.pages.feed_forward.page, "arrange_again", lambda: None)
    session.look(small, "The cat sees.", "一七丞世")

    def click(callback, part, address=(), **what):
        fake.query_params |= dict(address)
        fake.session_state[part] = SimpleNamespace(**what)
        callback()
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
    session, said = clicked(page.on_step, page.Part.MAP, address, cell={"row": row, "column": 2})
    assert (session.selection.layer, session.selection.query) == (layer, 2)
    assert (said["layer"], said["query"]) == (str(layer), "2")


def test_a_unit_at_a_token_is_chosen_by_its_place_in_the_order(clicked):
    page = viz.pages.feed_forward.page
    session, said = clicked(page.on_cell, page.Part.UNITS, {"stack": "decoder"}, cell={"row": 3, "column": 1})
    activations = session.trace["decoder.layers.1.feed_forward.hidden"].clamp(min=0)
    strongest = activations.abs().amax(dim=0).argsort(descending=True, stable=True)
    assert said[page.Part.UNIT] == str(int(strongest[1]))
    assert session.selection.query == 3


def test_a_token_of_the_map_becomes_the_query_and_the_scale_is_kept_in_the_address(clicked):
    page = viz.pages.map.page
    session, said = clicked(page.on_token, page.Part.MAP, token={"position": 2})
    assert (session.selection.query, said["query"]) == (2, "2")
    _bench, said = clicked(page.on_scale, page.Part.MAP, scale="largest")
    assert said[Key.SCALE] == "largest"
