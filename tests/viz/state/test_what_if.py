"""What-if changes of a session: made once, seen everywhere, taken back."""

import shutil
from types import SimpleNamespace

import pytest
import torch

import viz.state.session
from model.capture.interventions import MOST, Causal, Cells, PaddingSeen, RemovedHead, Window
from model.checkpoints.bridge.load import open_bridged
from model.network.config import TransformerConfig
from tests.model.checkpoints.bridge.models import settings_in, theirs, write_tokenizer
from tests.viz.no_server import no_server
from tests.viz.small import small_model
from viz.state.session import Session
from viz.state.what_if import WhatIf, change_name, elsewhere, note


def bridged_model(folder, name):
    shutil.copytree(theirs(name)[1], folder)
    write_tokenizer(folder)
    return open_bridged(folder, settings_in(folder), torch.device("cpu"), torch.float32)


@pytest.fixture
def address(monkeypatch):
    """The address bar, without a server."""
    return no_server(monkeypatch).query_params


def test_the_changed_trace_is_of_the_same_tokens_and_made_once(tmp_path, address):
    model, session = small_model(tmp_path / "small"), Session()
    plain = session.trace_input(model, "The cat sees.", "")
    assert session.what_if.plain is plain is session.trace
    session.change([Causal("decoder", False)])
    trace = session.trace_input(model, "The cat sees.", "")
    assert session.trace_input(model, "The cat sees.", "") is trace is session.trace is not plain
    assert session.what_if.plain is plain
    assert trace.target_tokens == plain.target_tokens
    assert trace["decoder.layers.0.self_attention.visible"].all()
    assert not torch.equal(trace["output.logits"], plain["output.logits"])
    assert address == {"changes": "decoder:causal:off"}
    other = session.trace_input(model, "The dog sees.", "")
    assert other["decoder.layers.0.self_attention.visible"].all()
    assert not session.what_if.plain["decoder.layers.0.self_attention.visible"].all()
    session.change([])
    assert session.trace_input(model, "The dog sees.", "") is session.what_if.plain
    assert address == {}


def test_changes_that_a_model_cannot_make_wait_for_another(tmp_path, address):
    """The pages show it as it is and say why, so that nobody is caught on it."""
    able, unable, session = small_model(tmp_path / "small"), bridged_model(tmp_path / "gptj", "gptj"), Session()
    session.change([RemovedHead("decoder", 0, 0)])
    changed = session.trace_input(able, "The cat sees.", "")
    assert not changed["decoder.layers.0.self_attention.heads"][0].any()
    for text in ("the cat", "the dog"):
        assert session.trace_input(unable, text, "") is session.what_if.plain
        assert session.what_if.changes == ()
        assert session.what_if.refused.startswith("the heads of this model cannot be removed")
    again = session.trace_input(able, "The cat sees.", "")
    assert torch.equal(again["output.logits"], changed["output.logits"])
    assert session.what_if.refused == ""
    session.trace_input(unable, "the cat", "")
    session.restore()
    assert address == {}
    assert session.trace_input(able, "The cat sees.", "") is session.what_if.plain


def test_what_a_model_can_make_of_the_changes_is_made_and_a_click_there_loses_nothing(tmp_path, address):
    """A mask of code of its own, heads that can be removed."""
    able, partly = small_model(tmp_path / "small"), bridged_model(tmp_path / "gpt_oss", "gpt_oss")
    removed, other, unmasked = RemovedHead("decoder", 0, 0), RemovedHead("decoder", 1, 1), Causal("decoder", False)
    session = Session()
    session.change([unmasked, removed])
    changed = session.trace_input(able, "The cat sees.", "")
    assert session.trace_input(partly, "the cat", "").changes == session.what_if.changes == (removed,)
    assert session.what_if.refused.startswith("the masks of this model cannot be changed")
    assert torch.equal(session.trace_input(able, "The cat sees.", "")["output.logits"], changed["output.logits"])
    assert session.what_if.refused == ""
    session.trace_input(partly, "the cat", "")
    session.change([Window("decoder", 2), removed, other])
    assert session.trace_input(partly, "the cat", "").changes == (removed, other)
    assert session.what_if.refused.startswith("the masks of this model cannot be changed")
    session.change([])
    assert address == {"changes": "decoder:causal:off;decoder:window:2"}
    assert session.trace_input(partly, "the cat", "") is session.what_if.plain
    assert session.what_if.refused.startswith("the masks of this model cannot be changed")
    assert session.trace_input(able, "The cat sees.", "").changes == (unmasked, Window("decoder", 2))
    session.trace_input(partly, "the cat", "")
    session.change([Cells("cross", False, query) for query in range(MOST - 1)])
    assert session.what_if.refused.startswith(f"{MOST + 1} changes are too many")


def test_a_session_begins_with_the_changes_of_its_address(address):
    address["changes"] = "cross.*.*:hide:1,1"
    session = viz.state.session.current_session()
    assert session.what_if == WhatIf((Cells("cross", False, 1, 1),))
    session.change([])
    address["changes"] = "cross.*.*:hide:1,1"  # as another page's link leaves it
    session.address.sync()
    assert address == {}


def test_an_address_that_is_no_change_changes_nothing_and_says_so(address):
    address["changes"] = "no change"
    what_if = viz.state.session.current_session().what_if
    assert what_if.changes == ()
    assert what_if.refused.startswith("'no change' is no change")


def test_too_many_changes_are_refused_in_a_sentence(address):
    session = Session()
    session.change([Cells("cross", False, query) for query in range(MOST + 1)])
    assert session.what_if.changes == ()
    assert session.what_if.refused.startswith(f"{MOST + 1} changes are too many")


NAMES = {
    Causal("encoder", True): "Encoder: causal mask on",
    PaddingSeen("cross"): "Cross: padding mask off",
    Window("decoder", None): "Decoder: window off",
    Window("decoder", 3): "Decoder: window 3",
    Cells("cross", False, 0, 1): "Cross: query 1 ↛ key 2",
    Cells("cross", True, None, 1, layer=1): "Cross: layer 2, all heads, every query → key 2",
    Cells("cross", False, 0, None, layer=1, head=3): "Cross: Layer 2, head 4, query 1 ↛ every key",
    RemovedHead("decoder", 1, 0): "Decoder: Layer 2, head 1 removed",
}


def test_changes_are_named_and_those_that_concern_another_model_are_not():
    assert {each: change_name(each, 32) for each in NAMES} == NAMES
    wide = change_name(Window("decoder", 90_000), 32)
    assert wide == "Decoder: window 32, the longest text (90,000 is asked for)"
    texts = SimpleNamespace(source_tokens=["▁A", "▁red", "▁A"], target_tokens=["<s>", "红"])
    assert change_name(Cells("cross", False, 1, 1), 32, texts) == "Cross: 红 ↛ ·red"
    assert change_name(Cells("cross", False, 1, 2), 32, texts) == "Cross: 红 ↛ ·A (key 3)"
    assert change_name(Cells("encoder", True, 0, 9), 32, texts) == "Encoder: ·A (query 1) → key 10"
    changes = tuple(NAMES)
    trace = SimpleNamespace(
        attention_paths=lambda kind: [] if kind == "encoder" else ["path"], source_tokens=[], target_tokens=[]
    )
    sizes = {"source_vocabulary": 9, "target_vocabulary": 9, "d_model": 8, "n_heads": 2, "max_length": 32}
    config = TransformerConfig(**sizes, n_encoder_layers=2, n_decoder_layers=2)
    assert note(WhatIf(changes), trace, config) == " · ".join([NAMES[each] for each in changes[1:4]] + ["and 4 more"])
    of_another = WhatIf((changes[0], RemovedHead("decoder", 2, 0), RemovedHead("cross", 1, 2)))
    assert note(of_another, trace, config) == ""
    told = "This model has nothing to change there: "
    assert elsewhere(of_another, trace, config).startswith(told + change_name(changes[0], 32))
    assert elsewhere(WhatIf(changes[1:]), trace, config) == ""
