"""The token bar: what the frame says of a pin, and what each click does."""

from __future__ import annotations

from typing import Any

import pytest

import viz.frame.token_bar
from model.analysis.checks import Check
from model.capture.interventions import Causal
from tests.test_app_kinds import write
from tests.viz.components.test_registry import unpack
from tests.viz.small import looking, small_model
from viz.frame.page_layout import PageLayout
from viz.frame.token_bar import badges_of_checks, check_chip, is_aside, notes, pinned, token_bar
from viz.state.serving import serving
from viz.state.session import Key, Session
from viz.state.texts import trace_fields
from viz.state.what_if import CHANGES
from viz.ui.parts import Views, no_views

TEXT, OTHER = "The cat sees.", "The dog sees the cat."


def click(session: Session, name: str, clicked: Any) -> None:
    """What the bar answers, where no script runs."""
    with serving(session):
        act = token_bar(session).acts[name]
        assert act is not None
        act(clicked)


def said(session: Session, name: str) -> str | None:
    """What the address bar will have of this name."""
    with serving(session):
        return session.address.get(name)


def sent(session: Session) -> dict[str, Any]:
    with serving(session):
        header, _arrays = unpack(token_bar(session).data)
    return header


@pytest.fixture
def session(tmp_path) -> Session:
    session = looking(small_model(tmp_path / "small"), TEXT)
    session.texts.typed[Key.SOURCE] = TEXT
    return session


def test_a_model_that_shares_nothing_with_the_pinned_one_is_not_said_to_be_the_same(tmp_path, session):
    session.keep()
    said = pinned(session)
    assert (said["changes"], said["words"]["none"]) == ([], "nothing differs from the pin")
    assert said["comparable"]
    session.trace_input(write(tmp_path / "other", "encoder-only", n_heads=4, d_model=24), TEXT, "")
    said = pinned(session)
    assert (said["changes"], said["words"]["none"]) == ([], "nothing here can be compared with the pin")
    assert not said["comparable"]


def test_tokens_of_another_vocabulary_are_not_marked_against_those_of_the_pin(tmp_path, session):
    session.keep()
    parts = small_model(tmp_path / "turned")
    turned = type(parts)("turned", parts.network, (parts.target_tokenizer, parts.source_tokenizer), {})
    session.trace_input(turned, TEXT, "")
    bar = pinned(session)
    assert not bar["comparable"]
    assert all(marks == {"inserted": [], "deleted": []} for marks in bar["alignments"].values())


def test_a_token_becomes_the_query_where_the_page_asks_for_its_side(session):
    click(session, "token", {"side": "target", "position": 2})
    assert (session.selection.query, said(session, "query")) == (2, "2")
    click(session, "token", {"side": "source", "position": 1})
    assert session.selection.query == 2
    session.selection.side = "source"
    click(session, "token", {"side": "source", "position": 1})
    assert (session.selection.query, said(session, "query")) == (1, "1")


def test_a_guess_goes_on_with_the_text(tmp_path):
    model = write(tmp_path / "one", "decoder-only")
    session = looking(model, TEXT)
    session.texts.typed[Key.SOURCE] = TEXT
    (guess,) = model.guesses(session.trace)
    click(session, "guess", {"number": 0, "token": guess.choices[1].token})
    assert session.texts.typed[Key.SOURCE] == model.take(TEXT, 0, guess.choices[1].token) != TEXT
    assert session.texts.edits[Key.SOURCE] == 1  # later than what is in the field


def test_a_guess_takes_the_place_of_the_mask_that_it_is_for(tmp_path):
    model = write(tmp_path / "one", "encoder-only")
    mask = model.source_tokenizer.mask_label
    text = f"The {mask} sees {mask}."
    session = looking(model, text)
    session.texts.typed[Key.SOURCE] = text
    _first, second = model.guesses(session.trace)
    click(session, "guess", {"number": 1, "token": second.choices[0].token})
    assert session.texts.typed[Key.SOURCE] == model.take(text, 1, second.choices[0].token)
    assert session.texts.typed[Key.SOURCE].startswith(f"The {mask} sees")
    assert session.texts.typed[Key.SOURCE].count(mask) == 1
    assert session.texts.edits[Key.SOURCE] == 1


def test_the_pins_buttons_keep_it_let_it_go_and_choose_what_the_views_show(session):
    kept = session.trace
    click(session, "pin", "keep")
    session.trace_input(session.model, OTHER, "")
    assert session.pin is not None
    assert session.pin.trace is kept is not session.trace
    assert sent(session)["pin"]["pinned"] == {"text": TEXT, "model": "small"}
    for act, differing in (("differences", True), ("values", False), ("differences", True), ("<script>", True)):
        click(session, "pin", act)
        assert session.differing is sent(session)["pin"]["differing"] is differing
    click(session, "pin", "release")
    assert (session.pin, session.differing, sent(session)["pin"]["pinned"]) == (None, False, None)


def test_one_of_the_largest_changes_opens_what_it_names(session, monkeypatch):
    opened = []

    def record(page: str, choices: dict[str, str]) -> None:
        opened.append(page)
        session.address.set_choices(choices)

    monkeypatch.setattr(viz.frame.token_bar, "open_page", record)
    session.keep()
    session.trace_input(session.model, OTHER, "")
    lists = {each["title"]: each["items"] for each in sent(session)["pin"]["changes"]}
    assert list(lists) == ["heads", "layers", "positions", "predictions"]
    for items in lists.values():
        assert [each["exact"] for each in items] == sorted((each["exact"] for each in items), reverse=True)
    for item in lists["heads"]:
        click(session, "change", item["act"])
        kind, layer, head = (item["act"]["choices"][Key.KIND], item["act"]["layer"], item["act"]["head"])
        assert (opened[-1], item["opens"]) == ("attention", "Open: Attention")
        assert item["label"].endswith(f"{layer + 1}.{head + 1}")
        assert (session.selection.layer, session.selection.head) == (layer, head)
        assert session.address.pending_choices[Key.KIND] == said(session, Key.KIND) == kind
        assert (said(session, "layer"), said(session, "head")) == (str(layer), str(head))
    for item in lists["layers"]:
        click(session, "change", item["act"])
        assert session.selection.layer == item["act"]["layer"]
        assert (opened[-1], said(session, "residual_view")) == ("residual", "stream")
    for item in (*lists["positions"], *lists["predictions"]):
        click(session, "change", item["act"])
        assert session.selection.query == item["token"]["position"]
        assert opened[-1] == ("predictions" if item in lists["predictions"] else "residual")
        assert sent(session)[item["token"]["side"]][session.selection.query]["label"] == item["label"]


def test_the_model_computes_as_it_was_trained_again(session):
    plain = session.trace
    with serving(session):
        session.change([Causal("decoder", False)])
        trace_fields(session, session.model)
    assert sent(session)["changed"]["text"] == "Decoder: causal mask off"
    assert said(session, CHANGES) == "decoder:causal:off"
    click(session, "restore", True)
    assert (session.what_if.changes, said(session, CHANGES)) == ((), None)
    assert session.trace_input(session.model, *session.traced) is plain
    assert sent(session)["changed"]["text"] == ""


def test_a_badge_says_in_how_many_attentions_it_is_true_and_what_rounding_explains():
    """Of six attentions of which two are fused, of none, and of a sum that is too far off."""
    two = Check("fused", 3e-7, 2e-6, 128, "decoder.layers.1.cross_attention.heads", 2, 6)
    none = Check("fused", 0.0, 0.0, 0, "", 0, 6)
    off = Check("rows", 0.5, 1e-5, 40, "encoder.layers.0.self_attention.weights", 6, 6)
    made = badges_of_checks([two, none, off, Check("padding", 0.0, 0.0, 0)], None)
    assert [badge["passed"] for badge in made] == [True, None, False]
    assert made[0]["text"] == "fused = explicit · in 2 of 6 places · 3×10⁻⁷"
    said = "an error of 3×10⁻⁷, where rounding may make 2×10⁻⁶ (decoder layer 2, cross-attention: heads)."
    assert f"Nearest to its limit: {said}" in made[0]["title"]
    assert made[0]["tensor"] == two.tensor
    assert made[1]["text"] == "fused = explicit: cannot be checked here"
    assert made[1]["title"].startswith("There is no second way to compare with")
    assert made[2]["text"] == "rows sum to 1 · 0.5 · encoder layer 1, self-attention: attention weights"
    assert "Farthest beyond its limit: an error of 0.5" in made[2]["title"]


def badge(passed: bool | None) -> dict[str, Any]:
    return {"text": "rows sum to 1", "passed": passed, "title": "why"}


@pytest.mark.parametrize(
    ("passed", "text", "worst"),
    [
        ([True] * 4, "4 checks", True),
        ([True], "1 check", True),
        ([True, None, True], "1 of 3 checks not possible", None),
        ([True, None, False, True], "1 of 4 checks failed", False),  # what fails is said first
        ([None], "rows sum to 1", None),  # it speaks for itself
    ],
)
def test_all_checks_are_one_chip(passed, text, worst):
    chip = check_chip([badge(each) for each in passed])
    assert (chip["text"], chip["passed"]) == (text, worst)


def test_a_text_that_the_model_cannot_read_says_so(tmp_path):
    """Special tokens do not count; one unknown token, none, and a target."""
    model = small_model(tmp_path / "small")
    session = looking(model, TEXT)
    assert notes(session) == {"source": "", "target": ""}
    session.trace_input(model, "Ж Щ Ю cat", "ЖЩ")
    tokens, unknown = session.source, model.source_tokenizer.unknown
    count = tokens.ids.count(unknown)
    plain = sum(label not in session.trace.special_labels for label in tokens.labels)
    assert count > 1
    expected = f"{count} of {plain + count} tokens are unknown to this model"
    assert notes(session)["source"] == expected == sent(session)["notes"]["source"]
    assert notes(session)["target"].endswith("unknown to this model")
    session.trace_input(model, "The cat sees Ж.", "")
    if session.source.ids.count(unknown) == 1:
        assert notes(session)["source"].startswith("1 of ")
        assert notes(session)["source"].endswith(" tokens is unknown to this model")


def test_the_header_is_folded_where_the_page_is_not_about_the_text(session):
    def views(_model: Any) -> Any:
        yield from ()

    def folded(page: str, drawn: Views = views) -> bool:
        return is_aside(PageLayout(session.model, False, drawn, "en", page))

    assert [page for page in ("map", "attention", "training", "checkpoints", "lab") if folded(page)] == [
        *("training", "checkpoints")
    ]
    assert folded("lab", no_views)  # its list, and not a card that has views of the text
    assert not is_aside(None)
    assert sent(session)["texts"] == [TEXT, session.generation.text if session.generation else session.traced[1]]
    session.origin = "data"
    assert sent(session)["texts"][1].startswith("in the data: ")
