"""What a click on a cell, a head or a rule of the page of masks changes: the page's own callbacks, without a server."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import viz.state.what_if
import viz.state.workbench
from model.capture.interventions import Cells, PaddingSeen
from viz.pages.masks import page
from viz.pages.masks.rules import Rules
from viz.state.workbench import Key, Selection, Workbench


@pytest.fixture
def bench(small, monkeypatch):
    fake = SimpleNamespace(session_state={}, query_params={})
    for module in (page, viz.state.workbench, viz.state.what_if):
        if hasattr(module, "st"):
            monkeypatch.setattr(module, "st", fake)
    monkeypatch.setattr(page, "arrange_again", lambda: None)
    bench = fake.session_state[Key.WORKBENCH] = Workbench(selection=Selection(layer=1, head=1))
    bench.look(small, "The cat sees.", "")
    bench.fake = fake
    return bench


@pytest.mark.parametrize(("scope", "layer", "head"), [("all", None, None), ("layer", 1, None), ("head", 1, 1)])
def test_a_click_on_a_cell_changes_all_heads_a_layer_or_one(bench, scope, layer, head):
    bench.fake.query_params["scope"] = scope
    bench.fake.session_state[page.Part.MASK] = SimpleNamespace(cell={"row": 2, "column": 0})
    page.on_cell()
    assert bench.what_if.changes == (Cells("decoder", False, 2, 0, layer, head),)


def test_a_click_on_a_moved_head_chooses_it(bench):
    bench.fake.session_state[page.Part.WHERE] = SimpleNamespace(cell={"panel": 0, "row": 0, "column": 1})
    page.on_head()
    assert (bench.selection.layer, bench.selection.head) == (0, 1)
    assert bench.fake.query_params["masked"] == "encoder"


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_padding_is_switched_off_in_every_attention(bench, kind):
    bench.fake.session_state |= {"rules": ["causal"] * (kind == "decoder"), "window": 0}
    page.on_rules(Rules.of(bench.lens.config, kind), "rules", "window")
    assert bench.what_if.changes == (PaddingSeen(kind),)
