"""The texts of a session: of two edits the later counts, whichever way it came, and the address bar follows."""

from __future__ import annotations

import pytest

from tests.two_threads import Second, Seen
from tests.viz.no_server import no_server
from tests.viz.small import small_model
from viz.state import texts
from viz.state.permissions import longest_text
from viz.state.serving import serving
from viz.state.session import FIRST_SOURCE, Key, current_session
from viz.state.texts import accept_edit, say, text_and_edit, typed, write


@pytest.fixture
def address(monkeypatch):
    """The address bar, without a server."""
    return no_server(monkeypatch).query_params


@pytest.fixture
def session(address):
    """The current one."""
    return current_session()


def test_a_later_edit_wins_and_an_older_one_is_refused(session):
    assert accept_edit(session, Key.SOURCE, "The dog", 2)
    assert not accept_edit(session, Key.SOURCE, "The do", 1)  # the script's, of before
    assert (session.texts.typed[Key.SOURCE], session.texts.edits[Key.SOURCE]) == ("The dog", 2)
    assert accept_edit(session, Key.SOURCE, "The dogs", 7)
    assert (session.texts.typed[Key.SOURCE], session.texts.edits[Key.SOURCE]) == ("The dogs", 7)
    assert accept_edit(session, Key.TARGET, "狗", 1)  # of a field of its own
    assert session.texts.edits == {Key.SOURCE: 7, Key.TARGET: 1}


def test_an_equal_edit_is_accepted_and_is_no_news_where_the_text_is_the_same(session):
    accept_edit(session, Key.SOURCE, "The dog", 2)
    assert not accept_edit(session, Key.SOURCE, "The dog", 2)  # which the channel brought before the script
    assert accept_edit(session, Key.SOURCE, "The cat", 2)
    assert session.texts.typed[Key.SOURCE] == "The cat"


class Meanwhile(dict):
    """Texts or edits in whose middle something else happens, once one of them is asked for."""

    def __init__(self, known, act):
        super().__init__(known)
        self.act = act

    def get(self, *asked):
        found = super().get(*asked)
        self.act()
        return found


def test_an_older_edit_in_another_thread_does_not_overtake_a_newer_one(session):
    """The newer one comes between the older one's look at the edits and its writing."""
    session.texts.lock = Seen()
    channel = Second(session.texts.lock, lambda: accept_edit(session, Key.SOURCE, "newer", 2))
    session.texts.edits = Meanwhile({}, channel.go)
    accept_edit(session, Key.SOURCE, "older", 1)
    channel.end()
    assert (session.texts.typed, session.texts.edits) == ({Key.SOURCE: "newer"}, {Key.SOURCE: 2})


def test_a_buttons_text_is_not_overtaken_by_what_was_typed_before_it(session):
    accept_edit(session, Key.SOURCE, "typed", 3)
    session.texts.lock = Seen()
    channel = Second(session.texts.lock, lambda: accept_edit(session, Key.SOURCE, "typed on", 4))

    class Written(dict):
        def __setitem__(self, key, text):
            super().__setitem__(key, text)
            if text == "the button's":
                channel.go()

    session.texts.typed = Written(session.texts.typed)
    write(Key.SOURCE, "the button's")
    channel.end()
    assert (session.texts.typed[Key.SOURCE], session.texts.edits[Key.SOURCE]) == ("typed on", 4)


def test_a_text_and_its_edit_are_read_together(session):
    accept_edit(session, Key.SOURCE, "older", 1)
    session.texts.lock = Seen()
    channel = Second(session.texts.lock, lambda: accept_edit(session, Key.SOURCE, "newer", 2))
    session.texts.typed = Meanwhile(session.texts.typed, channel.go)
    assert text_and_edit(session, Key.SOURCE, "") == ("older", 1)
    channel.end()
    assert text_and_edit(session, Key.SOURCE, "") == ("newer", 2)


def test_a_text_is_cut_where_it_would_be_too_long(session):
    assert accept_edit(session, Key.SOURCE, "x" * (longest_text() + 1), 1)
    assert session.texts.typed[Key.SOURCE] == "x" * longest_text()
    assert not accept_edit(session, Key.SOURCE, "x" * (longest_text() + 2), 2)
    assert session.texts.edits[Key.SOURCE] == 2


def test_what_a_button_writes_is_later_than_what_was_typed(session):
    accept_edit(session, Key.SOURCE, "The dog", 5)
    write(Key.SOURCE, "The dog\nsees.")
    assert not accept_edit(session, Key.SOURCE, "The dog ", 5)
    assert (session.texts.typed[Key.SOURCE], session.texts.edits[Key.SOURCE]) == ("The dog⏎sees.", 6)
    assert typed(Key.SOURCE, "first") == "The dog\nsees."
    assert typed(Key.TARGET, "first") == "first"
    write(Key.SOURCE, "")
    assert typed(Key.SOURCE, "first") == ""


def test_the_address_has_a_text_unless_it_is_the_first_one(address, session, tmp_path):
    model = small_model(tmp_path / "small")
    assert texts.first_source(model) == FIRST_SOURCE
    say(session, model)
    assert address == {}
    write(Key.SOURCE, "The dog.")
    write(Key.TARGET, "狗")
    say(session, model)
    assert address == {"source": "The dog.", "target": "狗"}
    write(Key.SOURCE, "")  # which is not the first one
    write(Key.TARGET, "")
    say(session, model)
    assert address == {"source": ""}
    write(Key.SOURCE, FIRST_SOURCE)
    say(session, model)
    assert address == {}


def test_what_the_channel_learns_reaches_the_address_with_the_next_run_of_the_script(address, session, tmp_path):
    model = small_model(tmp_path / "small")
    with serving(session):
        accept_edit(session, Key.SOURCE, "The dog.", 1)
        say(session, model)
        assert session.address.get(Key.SOURCE) == "The dog."
        assert address == {}
    session.address.sync()
    assert address == {"source": "The dog."}


def test_a_session_begins_with_the_texts_of_its_address(address):
    address.update(source="", target="狗", layer="1")
    session = current_session()
    assert session.texts.typed == {"source": "", "target": "狗"}
    assert texts.typed(Key.SOURCE, FIRST_SOURCE) == ""
    assert session.texts.edits == {}


def twin(model, name, **training):
    """The same network under another name."""
    return type(model)(name, model.network, (model.source_tokenizer, model.target_tokenizer), training)


def type_both(session, model):
    """Both fields are typed into, and traced."""
    accept_edit(session, Key.SOURCE, "The dog.", 1)
    accept_edit(session, Key.TARGET, "狗", 1)
    texts.trace_fields(session, model)


def test_another_model_begins_with_its_example_unless_something_was_typed(session, tmp_path):
    model = small_model(tmp_path / "small")
    other = twin(model, "other", example="A dog.")
    texts.trace_fields(session, model)
    texts.follow_model(session, other)
    assert texts.texts(other) == ("A dog.", "")
    texts.trace_fields(session, other)
    accept_edit(session, Key.SOURCE, "A cat.", 2)
    texts.follow_model(session, model)
    assert texts.texts(model) == ("A cat.", "")


def test_a_text_that_another_model_cannot_read_gives_way_and_comes_back_with_its_model(session, tmp_path):
    model, parts = small_model(tmp_path / "small"), small_model(tmp_path / "other")
    other = type(model)("other", parts.network, (model.target_tokenizer, model.source_tokenizer), {"example": "一个"})
    assert (texts.can_read(other, "一个东。"), texts.can_read(other, "The dog.")) == (True, False)
    type_both(session, model)
    texts.follow_model(session, other)
    assert texts.texts(other) == ("一个", "")
    texts.trace_fields(session, other)
    texts.follow_model(session, other)
    assert texts.texts(other) == ("一个", "")
    texts.follow_model(session, model)
    assert texts.texts(model) == ("The dog.", "狗")
    texts.trace_fields(session, model)
    accept_edit(session, Key.SOURCE, "The cat.", 9)
    texts.follow_model(session, model)
    assert texts.texts(model) == ("The cat.", "狗")


def test_a_text_comes_back_from_a_training_that_began_with_its_own(session, tmp_path):
    """Both models can read both texts, so that of the demonstration stayed."""
    model = small_model(tmp_path / "small")
    other = twin(model, "other")
    type_both(session, model)
    texts.write_first(session, other, "A cat.")
    texts.follow_model(session, other)
    assert texts.texts(other) == ("A cat.", "")
    texts.trace_fields(session, other)
    texts.write_first(session, other, "A dog.")  # begun again
    texts.follow_model(session, model)
    assert texts.texts(model) == ("The dog.", "狗")


def test_the_text_of_a_training_goes_no_further_than_its_model_unless_it_was_typed_on(session, tmp_path):
    model = small_model(tmp_path / "small")
    trained, third = twin(model, "trained", example="The cat."), twin(model, "third", example="A dog.")
    texts.trace_fields(session, model)
    texts.write_first(session, trained, "A cat.")
    texts.follow_model(session, trained)
    texts.trace_fields(session, trained)
    texts.follow_model(session, third)
    assert texts.texts(third) == ("A dog.", "")
    texts.trace_fields(session, third)
    texts.follow_model(session, trained)
    assert texts.texts(trained) == ("A cat.", "")
    texts.trace_fields(session, trained)
    accept_edit(session, Key.SOURCE, "A cat sees.", 99)
    texts.follow_model(session, third)
    assert texts.texts(third) == ("A cat sees.", "")
