"""What-if changes of a session: made once, seen everywhere, taken back."""

from types import SimpleNamespace

import pytest
import torch

import viz.workbench
from model.interventions import MOST, Causal, Cells, PaddingSeen, Window
from tests.viz.small import small_lens
from viz.what_if import WhatIf, change, change_name, note
from viz.workbench import Workbench


@pytest.fixture
def address(monkeypatch):
    """The address bar, without a server."""
    fake = SimpleNamespace(query_params={}, session_state={})
    monkeypatch.setattr(viz.workbench, "st", fake)
    return fake.query_params


def test_the_changed_trace_is_of_the_same_tokens_and_made_once(tmp_path, address):
    lens, bench = small_lens(tmp_path / "small"), Workbench()
    plain = bench.look(lens, "The cat sees.", "")
    assert bench.what_if.plain is plain is bench.trace
    change(bench, [Causal("decoder", False)])
    trace = bench.look(lens, "The cat sees.", "")
    assert bench.look(lens, "The cat sees.", "") is trace is bench.trace is not plain
    assert bench.what_if.plain is plain
    assert trace.target_tokens == plain.target_tokens
    assert trace["decoder.layers.0.self_attention.visible"].all()
    assert not torch.equal(trace["output.logits"], plain["output.logits"])
    assert address == {"changes": "decoder:causal:off"}
    other = bench.look(lens, "The dog sees.", "")
    assert other["decoder.layers.0.self_attention.visible"].all()
    assert not bench.what_if.plain["decoder.layers.0.self_attention.visible"].all()
    change(bench, [])
    assert bench.look(lens, "The dog sees.", "") is bench.what_if.plain
    assert address == {}


def test_a_session_begins_with_the_changes_of_its_address(address):
    address["changes"] = "cross.*.*:hide:1,1"
    bench = viz.workbench.workbench()
    assert bench.what_if == WhatIf((Cells("cross", False, 1, 1),))
    change(bench, [])
    address["changes"] = "cross.*.*:hide:1,1"  # as another page's link leaves it
    bench.say_again()
    assert address == {}


def test_an_address_that_is_no_change_changes_nothing_and_says_so(address):
    address["changes"] = "no change"
    what_if = viz.workbench.workbench().what_if
    assert what_if.changes == ()
    assert what_if.refused.startswith("'no change' is no change")


def test_too_many_changes_are_refused_in_a_sentence(address):
    bench = Workbench()
    change(bench, [Cells("cross", False, query) for query in range(MOST + 1)])
    assert bench.what_if.changes == ()
    assert bench.what_if.refused.startswith(f"{MOST + 1} changes to masks are too many")


NAMES = {
    Causal("encoder", True): "Encoder: causal mask on",
    PaddingSeen("cross"): "Cross: padding mask off",
    Window("decoder", None): "Decoder: window off",
    Window("decoder", 3): "Decoder: window 3",
    Cells("cross", False, 0, 1): "Cross: all heads, query 1 ↛ key 2",
    Cells("cross", True, None, 1, layer=1): "Cross: layer 2, all heads, every query → key 2",
    Cells("cross", False, 0, None, layer=1, head=3): "Cross: Layer 2, head 4, query 1 ↛ every key",
}


def test_changes_are_named_and_those_that_concern_another_model_are_not():
    assert {each: change_name(each, 32) for each in NAMES} == NAMES
    wide = change_name(Window("decoder", 90_000), 32)
    assert wide == "Decoder: window 32, the longest text (90,000 is asked for)"
    changes = tuple(NAMES)
    trace = SimpleNamespace(attention_paths=lambda kind: [] if kind == "encoder" else ["path"])
    lens = SimpleNamespace(config=SimpleNamespace(max_length=32))
    bench = SimpleNamespace(trace=trace, lens=lens, what_if=WhatIf(changes))
    assert note(bench) == " · ".join([NAMES[each] for each in changes[1:4]] + ["and 3 more"])
    bench.what_if = WhatIf(changes[:1])
    assert note(bench) == ""
