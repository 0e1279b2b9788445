"""The state of a session: what is traced, what is selected, what the address bar may say."""

import gc
import math
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest

import viz.state.checkpoints
import viz.state.session
from model.analysis.checks import checks
from model.capture.interventions import Causal
from model.checkpoints.load import open_checkpoint
from model.inference import pass_memory
from model.inference.text_model import TextModel
from model.runtime import memory
from model.runtime.cancellation import SupersededError, watch
from model.runtime.ledger import Ledger, NoRoomError
from model.text.tokenizer_training import train_characters
from tests.test_rooms import ROOT
from tests.viz.no_server import Address, no_server
from tests.viz.small import looking, small_model, write_small
from viz.state.checkpoints import checkpoint_names, find, open_place, places
from viz.state.serving import serving
from viz.state.session import SESSIONS, Key, Parameter, Selection, Session, address_count, attention_kinds


@pytest.fixture
def address(monkeypatch):
    """The address bar and session state, without a server."""
    return no_server(monkeypatch)


def test_look_traces_once_per_change(tmp_path):
    model, session = small_model(tmp_path / "small"), Session()
    first = session.trace_input(model, "The cat sees.", "")
    assert session.trace_input(model, "The cat sees.", "") is first is session.trace
    second = session.trace_input(model, "The cat hears.", "")
    assert second is not first
    assert second.source_tokens == model.source_tokens("The cat hears.").labels
    other = small_model(tmp_path / "other", seed=1)
    third = session.trace_input(other, "The cat hears.", "")
    assert third is not second
    assert session.model is other


def test_what_one_model_wrote_is_no_draft_for_another_after_a_typed_target():
    model, other = (open_checkpoint(ROOT / "checkpoints" / name) for name in ("eng-cmn", "reverse"))
    session = Session()
    session.trace_input(model, "I like tea.", "")
    assert max(session.generation.ids) >= len(other.target_tokenizer)  # a token that the other has not
    session.trace_input(other, "word", "draw")
    assert session.trace_input(other, "word", "").target_tokens == ["<s>", *"drow"]


def test_an_empty_target_is_the_models_and_a_typed_one_the_users(tmp_path):
    model, session = small_model(tmp_path / "small"), Session()
    session.trace_input(model, "The cat sees.", "")
    written = model.generate("The cat sees.")
    assert session.generation.text == written.text
    tokenizer = model.target_tokenizer
    assert session.target.ids == [tokenizer.start, *(token for token in written.ids if token != tokenizer.end)]
    character = next(label for label in tokenizer.tokens(range(4, 20)).labels if label != "。")
    trace = session.trace_input(model, "The cat sees.", character * 3)
    assert session.generation is None
    assert trace.target_tokens == ["<s>", *character * 3]
    again = session.trace_input(model, "The cat sees.", "")
    assert session.generation.text == written.text
    assert again.target_tokens == model.trace("The cat sees.").target_tokens


@contextmanager
def given_up(model: TextModel, reading: int) -> Iterator[None]:
    """A block that is given up when the model reads a source for the n-th time in it."""
    stale, readings = threading.Event(), count(1)

    def read(*_given: object) -> None:
        if next(readings) == reading:
            stale.set()

    hook = model.network.encoder.layers[0].register_forward_hook(read)
    try:
        with pytest.raises(SupersededError), watch(stale):
            yield
    finally:
        hook.remove()


def state(session: Session) -> tuple[object, ...]:
    return (
        session.traced_input,
        session.traced,
        session.generation,
        session.training.step,
        session.what_if.plain,
        session.written,
    )


@pytest.mark.parametrize("after", [["The cat sees.", "The dog hears."], ["The dog hears."]], ids=len)
@pytest.mark.parametrize("changes", [(), (Causal("decoder", False),)], ids=["plain", "changed"])
def test_after_a_look_that_was_given_up_the_former_text_is_shown_and_any_next_one_is_right(tmp_path, changes, after):
    """With changes it is given up in the second pass, when the one without them is there already."""
    model, session = small_model(tmp_path / "small"), Session()
    session.what_if.change(changes)
    former = session.trace_input(model, "The cat sees.", "")
    before = state(session)
    for text, target in (("The dog hears.", ""), ("The doctor", "一七")):
        with given_up(model, 1 + len(changes)):
            session.trace_input(model, text, target)
        assert state(session) == before
    for text in after:
        trace, fresh = session.trace_input(model, text, ""), Session()
        assert (trace is former) == (text == "The cat sees.")
        fresh.what_if.change(changes)
        assert torch.equal(trace["output.logits"], fresh.trace_input(model, text, "")["output.logits"])
        assert session.generation.ids == fresh.generation.ids
        plain = session.what_if.plain
        assert (plain.source_tokens, plain.target_tokens) == (trace.source_tokens, trace.target_tokens)
        assert torch.equal(plain["output.logits"], fresh.what_if.plain["output.logits"])
        assert (plain is trace) == (not changes)


def test_a_change_that_was_given_up_is_made_by_the_next_look(tmp_path):
    model, session = small_model(tmp_path / "small"), Session()
    plain = session.trace_input(model, "The cat sees.", "")
    before = state(session)
    session.what_if.change([Causal("decoder", False)])
    with given_up(model, 1):
        session.trace_input(model, "The cat sees.", "")
    assert state(session) == before
    assert session.trace_input(model, "The cat sees.", "") is not plain
    assert session.trace["decoder.layers.0.self_attention.visible"].all()
    assert session.what_if.plain is plain


@pytest.mark.slow
def test_typing_on_gives_what_a_new_session_gives(tmp_path):
    model, session = small_model(tmp_path / "small"), Session()
    text = "The cat sees the doctor."
    for end in range(len(text) + 1):
        session.trace_input(model, text[:end], "")
        assert session.generation.ids == model.generate(text[:end]).ids


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "🙂" * 500, "\ud800", "مرحبا", "</s><pad>"])
def test_any_text_on_either_side_leaves_a_sound_trace(tmp_path, text):
    model, session = small_model(tmp_path / "small"), Session()
    for source, target in ((text, ""), ("The cat", text), (text, text)):
        trace = session.trace_input(model, source, target)
        assert len(trace.source_tokens) <= 32
        assert len(trace.target_tokens) <= 32
        assert trace["output.logits"].isfinite().all()
        assert all(check.passed for check in checks(trace))


def test_the_selection_is_moved_inside_what_there_is_and_the_wish_is_kept():
    session = Session(Selection(layer=2, head=7, query=30))
    assert session.fit_selection(3, 8, 40) == Selection(2, 7, 30)
    assert session.fit_selection(2, 4, 5) == Selection(1, 3, 4)
    assert session.fit_selection(1, 1, 1) == Selection(0, 0, 0)
    assert session.selection == Selection(2, 7, 30)
    assert session.fit_selection(3, 8, 40) == Selection(2, 7, 30)


def test_an_address_from_before_a_choice_does_not_take_it_back(address):
    session = Session()
    session.address.set("language", "en")
    session.address.set("scale", "largest")
    address.query_params = Address(language="zh")  # as the browser has it still, and sends it with the next look
    session.address.set("layer", "1")
    assert address.query_params == {"language": "en", "scale": "largest", "layer": "1"}


def test_selecting_puts_the_choice_into_the_address(address):
    session = Session()
    session.select(layer=1, head=5)
    assert address.query_params == {"layer": "1", "head": "5"}
    session.select(query=3)
    assert address.query_params == {"layer": "1", "head": "5", "query": "3"}
    assert session.selection == Selection(1, 5, 3)
    with pytest.raises(KeyError):
        session.select(size=3)


def test_differences_are_in_the_address_while_they_are_shown(address):
    session = Session()
    session.differ(True)
    assert (session.differing, address.query_params["differences"]) == (True, "shown")
    session.release()
    assert (session.differing, "differences" in address.query_params) == (False, False)


def test_a_session_begins_with_what_the_address_says_and_then_keeps_its_own(address):
    address.query_params.update(layer="2", head="7", query="11")
    session = viz.state.session.current_session()
    assert session.selection == Selection(2, 7, 11)
    address.query_params.update(layer="0")
    assert viz.state.session.current_session() is session is address.session_state[Key.SESSION]
    assert session.selection.layer == 2


HOSTILE = ["", "-1", "1.5", "1e3", "٣", "²", "0x10", " 1", "NaN", "999999", "1" * 5000, "<script>", "None", "\ud800"]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_address_is_as_none_at_all(address, value):
    expected = viz.state.session.current_session().selection
    address.session_state.clear()
    address.query_params.update(dict.fromkeys(Parameter, value))
    assert viz.state.session.current_session().selection == expected


def test_a_number_that_is_too_large_is_moved_inside(address):
    address.query_params.update(layer="99999", head="99999", query="99999")
    assert viz.state.session.current_session().fit_selection(3, 8, 12) == Selection(2, 7, 11)


def test_the_address_of_a_real_session_reaches_the_selection():
    def script():
        import streamlit as st

        from viz.state.session import current_session

        chosen = current_session().selection
        st.text(f"{chosen.layer} {chosen.head} {chosen.query}")

    app = AppTest.from_function(script)
    app.query_params.update(layer="2", head="x", query="4")
    app.run()
    assert not app.exception
    assert app.text[0].value.split()[::2] == ["2", "4"]


def test_checkpoints_are_the_folders_with_a_config(tmp_path, monkeypatch):
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    monkeypatch.setenv(viz.state.checkpoints.SAVED, str(tmp_path / "saved"))
    assert checkpoint_names() == []
    write_small(tmp_path / "second")
    write_small(tmp_path / "first")
    (tmp_path / "no checkpoint").mkdir()
    (tmp_path / "file.json").write_text("{}")
    assert checkpoint_names() == ["first", "second"]
    model = open_place(find("first", places()))
    assert (model.name, attention_kinds(model.network)) == ("first", ["encoder", "decoder", "cross"])


@pytest.mark.parametrize("name", ["", "missing", "..", "../first", "first/", "/etc", "\0", "<b>"])
def test_a_name_that_is_no_checkpoint_is_a_value_error(tmp_path, monkeypatch, name):
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    monkeypatch.setenv(viz.state.checkpoints.SAVED, str(tmp_path / "saved"))
    write_small(tmp_path / "first")
    with pytest.raises(ValueError, match=r"there is no checkpoint .*: choose one of first"):
        open_place(find(name, places()))


def test_saved_checkpoints_follow_the_bundled_ones_and_hide_none(tmp_path, monkeypatch):
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path / "bundled")
    monkeypatch.setenv(viz.state.checkpoints.SAVED, str(tmp_path / "saved"))
    write_small(tmp_path / "bundled" / "z")
    assert checkpoint_names() == ["z"]
    for name in ("a", "z", ".a.1.writing"):
        write_small(tmp_path / "saved" / name, seed=1)
    assert checkpoint_names() == ["z", "a"]
    bundled, saved = open_place(find("z", places())), open_place(find("a", places()))
    assert not torch.equal(next(bundled.network.parameters()), next(saved.network.parameters()))
    monkeypatch.setenv(viz.state.checkpoints.SAVED, " ")
    assert viz.state.checkpoints.saved_folder() == Path.home() / ".vitrine" / "checkpoints"


def test_predictions_are_compared_with_those_of_the_same_words_alone(tmp_path, monkeypatch):
    model, session = small_model(tmp_path / "small"), Session()
    session.trace_input(model, "The cat sees.", "")
    session.training.step = 3  # in a training, where a pin has the step in its name
    session.keep()
    session.trace_input(model, "The cat hears.", "")
    assert session.comparison.counterpart("output.logits") is not None
    own = model.target_tokenizer
    shifted = "".join(chr(ord(own.label(token)) + 999) for token in range(len(own)) if token not in own.special)
    others = train_characters([shifted])
    assert len(others) == len(own)
    stranger = type(model)("stranger", model.network, (model.source_tokenizer, others), {})
    session.trace_input(stranger, "The cat hears.", "")
    assert session.comparison.counterpart("output.logits") is None
    assert "prediction" not in set(session.comparison.changes["kind"])
    assert session.comparison.attention("cross") is not None
    monkeypatch.setattr(memory.collect, "_next", math.inf)
    session.release()
    assert memory.collect._next < 0  # the pin may have been large


def test_an_empty_choice_is_in_the_address_and_none_is_not(address):
    session = Session()
    session.address.set("source", "")
    assert address.query_params == {"source": ""}
    address.query_params.clear()  # as the browser has it still
    session.address.set("layer", "1")
    assert address.query_params == {"source": "", "layer": "1"}
    session.address.set("source", None)
    assert address.query_params == {"layer": "1"}


def test_what_is_said_where_no_script_runs_is_known_there_and_said_by_the_next_run(address):
    session = Session()
    address.query_params.update(scale="one", unit="3")
    session.address.sync()
    with serving(session):
        session.address.set("scale", "largest")
        session.address.set("unit", None)
        assert [session.address.get(name) for name in ("scale", "unit", "layer")] == ["largest", None, None]
        assert address_count("unit") is None
        assert viz.state.session.choice(("one", "largest"), "one", "scale") == "largest"
    assert address.query_params == {"scale": "one", "unit": "3"}
    session.address.sync()
    assert address.query_params == {"scale": "largest"}


def test_a_session_is_found_by_its_token_as_long_as_it_lives():
    session = Session()
    token = session.token
    assert SESSIONS[token] is session
    assert len({Session().token, Session().token, token}) == 3
    del session
    gc.collect()
    assert token not in SESSIONS


def test_what_was_computed_is_kept_until_something_else_is_asked_for(tmp_path):
    session, made = Session(), []

    def found(key: str, *of: object) -> int:
        return session.cached(key, of, lambda: made.append(of) or len(made))

    trace, other = object(), object()
    assert [found("one", trace, 1), found("one", trace, 1), found("two", trace, 1)] == [1, 1, 2]
    assert [found("one", other, 1), found("one", trace, 1)] == [3, 4]
    assert found("two", trace, 1) == 2


def test_a_long_text_takes_the_place_of_the_one_before_where_there_is_no_room_for_both(tmp_path, monkeypatch):
    model = small_model(tmp_path)
    book = Ledger(pass_memory.pass_bytes(model.network, 20, 20), lambda: 0, lambda: None)
    monkeypatch.setattr(pass_memory, "ledger", lambda: book)
    monkeypatch.setattr(pass_memory, "SMALL", 1)
    session = looking(model, "The dog sees the cat.", "狗")
    before = weakref.ref(session.trace)
    session.trace_input(model, "The cat sees the dog.", "狗")
    assert before() is None
    assert [each.name for each in book.promises] == ["the text"]
    book.limit //= 4
    with pytest.raises(NoRoomError, match="the text needs about"):
        session.trace_input(model, "The dog sees the cat. " * 2, "狗")
    assert session.traced_input is None
    assert book.promises == ()
