"""The first line of a page: a sentence for each; hints where they hold."""

from __future__ import annotations

import pytest

from tests.test_app_kinds import write
from tests.viz.components.test_registry import unpack
from tests.viz.small import looking, small_model
from viz.frame.app import PAGES
from viz.frame.lead import next_token, page_intro
from viz.state.serving import serving
from viz.state.session import Key

TEXT, TARGET = "The cat sees.", "一个东"


def sent(session, page: str) -> dict:
    with serving(session):
        return unpack(page_intro(session, page, session.model).data)[0]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("lead") / "small")


def test_every_page_says_what_it_shows_and_the_first_what_to_try(model):
    session = looking(model, TEXT, TARGET)
    sentences = {sent(session, page)["sentence"] for page in PAGES}
    assert len(sentences) == len(PAGES)
    assert len(sent(session, "map")["hints"]) == 3
    assert not sent(session, "residual")["hints"]


@pytest.mark.parametrize(("query", "read"), [(1, 1), (0, 0), (2, 2), (3, 3), (9, 3)])
def test_a_row_is_about_the_token_after_it(model, query, read):
    session = looking(model, TEXT, TARGET, query=query)
    (hint,) = sent(session, "attention")["hints"]
    labels = [part["label"] for part in hint if isinstance(part, dict)]
    tokens = [*session.trace.target_tokens, "</s>"]
    assert len(tokens) == 5
    assert labels == [tokens[read], tokens[read], tokens[read + 1]]


def test_where_nothing_follows_there_is_no_such_hint(model, tmp_path):
    session = looking(model, TEXT, TARGET)
    session.address.widget_values[Key.KIND] = "encoder"
    with serving(session):
        assert next_token(session) is None
    for kind, text in (("encoder-only", TEXT), ("decoder-only", "")):
        session = looking(write(tmp_path / kind, kind), text)
        with serving(session):
            assert next_token(session) is None
