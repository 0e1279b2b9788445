"""The fields of the texts: what is typed goes to the channel at once, and to the script when typing rests."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from model.network.config import TWO_STACKS
from viz.components.registry import component, pack
from viz.components.view import PackedView, View, live
from viz.i18n.catalogue import _
from viz.state.permissions import longest_text
from viz.state.sentences import ACTS, place, sentences, step
from viz.state.session import Key, Session, current_session
from viz.state.texts import accept_edit, first_source, text_and_edit
from viz.state.training import is_task

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

_text_field = component("web/text_field")


def source_field(session: Session, model: TextModel) -> View:
    """The source's field, or that of the one text that the model has."""
    label = _("Source") if model.kind in TWO_STACKS else _("Text")
    return text_field(session, label, Key.SOURCE, first_source(model), "", several(session))


def target_field(session: Session, model: TextModel) -> View:
    """The target's field, with what the model wrote in grey where the user wrote nothing."""
    label = _("Output") if is_task(session, model) else _("Target")
    if session.origin == "data":
        label = _("Target, from the data")
    return text_field(session, label, Key.TARGET, "", session.written)


def several(session: Session) -> dict[str, Any]:
    """Number of sentences to step through, the one that is shown, and the words of the buttons."""
    words = {
        "add": _("Add a sentence: the arrows lead from one to the next, on every page"),
        "another": _("sentence"),
        "back": _("the sentence before"),
        "on": _("the next sentence"),
        "remove": _("Remove this sentence"),
        "part": _("split into {count}"),
        "parting": _("Make each line a sentence of its own, to step through"),
        "join": _("join into one text"),
        "joining": _("Make them the lines of one text"),
    }
    return {"count": max(len(sentences(session)), 1), "place": place(session), "words": words}


def text_field(
    session: Session, label: str, key: Key, first: str, placeholder: str, several: Mapping[str, Any] | None = None
) -> View:
    """A text of one line, as it is after so many edits; in the browser a later edit stays.

    What is typed comes as `text`, {text, edit, turn}; with that turn the script says what it has learnt. several: of a
    field whose text is one of several, see above; a click comes as `several`, {name, by}.
    """
    most, (text, edit) = longest_text(), text_and_edit(session, key, first)
    header = {
        "label": label,
        "text": text,
        "edit": edit,
        "first": first,
        "placeholder": placeholder,
        "most": most,
        "words": {"long": _("A text has at most {most} characters: the rest is left out.").format(most=f"{most:,}")},
    }
    if several is not None:
        header["several"] = several
    return PackedView(_text_field, key, pack(header), {"text": partial(on_text, key), "several": on_several})


@live
def on_several(clicked: dict[str, Any]) -> None:
    session = current_session()
    if clicked["name"] == "step":
        step(session, int(clicked["by"]))
    elif act := ACTS.get(clicked["name"]):
        act(session)


def on_text(key: Key, typed: dict[str, Any]) -> None:
    """Take over what was typed."""
    session = current_session()
    session.turn = int(typed["turn"])
    accept_edit(session, key, str(typed["text"]), int(typed["edit"]))
