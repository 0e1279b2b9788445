"""The fields of the texts: what is typed goes to the channel at once, and to the script when typing rests."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from viz.components.registry import component, pack
from viz.components.view import PackedView, View
from viz.i18n.catalogue import _
from viz.state.permissions import longest_text
from viz.state.session import Key, Session, current_session
from viz.state.texts import first_source, learn

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

_text_field = component("text_field")


def source_field(session: Session, model: TextModel) -> View:
    """The source's field, or that of the one text that the model has."""
    label = _("Source") if model.kind == "encoder-decoder" else _("Text")
    return text_field(session, label, Key.SOURCE, first_source(model), "")


def target_field(session: Session) -> View:
    """The target's field, with what the model wrote in grey where the user wrote nothing."""
    label = _("Target, from the data") if session.origin == "data" else _("Target")
    return text_field(session, label, Key.TARGET, "", session.written)


def text_field(session: Session, label: str, key: Key, first: str, placeholder: str) -> View:
    """A text of one line, as it is after so many edits; in the browser a later edit stays.

    What is typed comes as `text`, {text, edit, turn}; with that turn the script says what it has learnt.
    """
    most = longest_text()
    header = {
        "label": label,
        "text": session.texts.get(key, first),
        "edit": session.edits.get(key, 0),
        "first": first,
        "placeholder": placeholder,
        "most": most,
        "words": {"long": _("A text has at most {most} characters: the rest is left out.").format(most=f"{most:,}")},
    }
    return PackedView(_text_field, key, pack(header), {"text": partial(on_text, key)})


def on_text(key: Key, typed: dict[str, Any]) -> None:
    """What was typed, as the script learns it."""
    session = current_session()
    session.turn = int(typed["turn"])
    learn(session, key, str(typed["text"]), int(typed["edit"]))
