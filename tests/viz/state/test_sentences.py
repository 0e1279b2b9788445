"""Several sentences to step through: what is typed stays with its sentence, and no click loses one."""

from __future__ import annotations

import json

import pytest

from tests.viz.components.test_registry import unpack
from tests.viz.small import looking, small_model
from viz.frame.text_field import on_several, source_field
from viz.pages.masks.batch import batch_of
from viz.pages.residual import batch_norm
from viz.state.permissions import longest_text
from viz.state.sentences import MOST, PLACE, SENTENCES, others, place, read, sentences
from viz.state.serving import serving
from viz.state.session import Key, Session
from viz.state.texts import texts, write

LINES = ["The cat sees a dog.", "A dog sees.", "The dog sees the cat."]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("sentences") / "small")


@pytest.fixture
def session(model):
    session = looking(model, LINES[0])
    with serving(session):
        write(Key.SOURCE, "\n".join(LINES))
        yield session


def click(session: Session, name: str, by: int = 0) -> tuple[str, str]:
    on_several({"name": name, "by": by})
    return texts(session.model)


def test_each_line_becomes_a_sentence_and_what_is_typed_stays_with_its_own(session):
    assert click(session, "part") == (LINES[0], "")
    assert click(session, "step", 1) == (LINES[1], "")
    write(Key.SOURCE, "A dog sees a cat.")
    write(Key.TARGET, "狗")
    assert click(session, "step", -1) == (LINES[0], "")
    assert click(session, "step", -1) == (LINES[2], "")  # from the first to the last
    assert click(session, "step", -1) == ("A dog sees a cat.", "狗")
    header, _arrays = unpack(source_field(session, session.model).data)
    assert (header["several"]["count"], header["several"]["place"]) == (3, 1)


def test_joining_gives_back_the_lines(session):
    click(session, "part")
    click(session, "step", 1)
    assert click(session, "join") == ("\n".join(LINES), "")
    assert (sentences(session), session.address.get(SENTENCES), session.address.get(PLACE)) == ([], None, None)


def test_targets_of_as_many_lines_go_with_them(session):
    write(Key.TARGET, "一\n二\n三")
    assert click(session, "part") == (LINES[0], "一")
    assert click(session, "step", 1) == (LINES[1], "二")
    assert click(session, "join")[1] == "一\n二\n三"


def test_a_new_one_stands_behind_the_one_that_is_shown_and_the_last_two_become_one(session):
    click(session, "part")
    assert click(session, "add") == ("", "")
    write(Key.SOURCE, "The cat.")
    assert [source for source, _target in sentences(session)] == [LINES[0], "", *LINES[1:]]
    assert click(session, "step", 1)[0] == LINES[1]
    assert [source for source, _target in sentences(session)] == [LINES[0], "The cat.", *LINES[1:]]
    for left in ("The dog sees the cat.", "The cat.", LINES[0]):
        assert click(session, "remove")[0] == left
    assert sentences(session) == []
    assert click(session, "remove")[0] == LINES[0]  # the only one stays


def test_more_than_can_be_stepped_through_are_refused_and_stay_one_text(session):
    for text in ("\n".join(["a"] * (MOST + 1)),):
        write(Key.SOURCE, text)
        assert click(session, "part")[0] == text
        assert str(MOST + 1) in session.notice
    write(Key.SOURCE, "a")
    click(session, "add")
    write(Key.SOURCE, "b" * longest_text())
    click(session, "add")
    assert len(sentences(session)) == 2


@pytest.mark.parametrize("said", ["", "no", "{}", "3", '[["a"]]', '["ab", 3]', json.dumps([["a", "b"]] * (MOST + 1))])
def test_an_address_that_somebody_wrote_has_none(session, said):
    session.address.set(SENTENCES, said)
    assert sentences(session) == []
    assert place(session) == 0


def test_a_place_beyond_the_last_is_the_last(session):
    session.address.set(SENTENCES, json.dumps([["a", ""], ["b", ""]]))
    for said, expected in (("9", 1), ("0", 0), ("-1", 0), ("²", 0), ("x", 0)):
        session.address.set(PLACE, said)
        assert place(session) == expected


def test_the_others_make_the_batches_of_masks_and_norms(session, model):
    click(session, "part")
    session.trace_input(model, *texts(model))
    assert [source for source, _target in others(session, 5)] == LINES[1:]
    found = read(model, others(session, 5))
    batch, rows = batch_of(model, LINES[0], session.source, session.target, others(session, 5))
    assert [each.ids for each in rows[0]] == [model.source_tokens(line).ids for line in LINES]
    assert [each.ids for each in rows[1][1:]] == [each["target"].ids for each in found]
    assert batch.ids[0].shape[0] == 3
    made = batch_norm.text_batch(session.inputs, others(session, 5))
    assert [each.ids for each in made.rows["encoder"]] == [model.source_tokens(line).ids for line in LINES]
    assert set(made.places["encoder"][1]) == {-1}  # none of these tokens is on the page
    click(session, "join")
    session.trace_input(model, LINES[0], "")
    assert (
        len(batch_norm.text_batch(session.inputs, others(session, 5)).rows["encoder"]) == 3
    )  # the text and its halves
