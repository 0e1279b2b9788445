"""The texts of a session: what is in its fields, and what a model begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viz.state.permissions import longest_text
from viz.state.session import FIRST_SOURCE, Key, Session, current_session

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

LINE_BREAK = "⏎"  # in a field of one line
UNREAD = 0.15  # share of a text's tokens that may be unknown to a model which reads it
CONTINUED = 20  # tokens that the button lets a language model write


def typed(key: Key, default: str) -> str:
    """Content of a text field."""
    return current_session().texts.typed.get(key, default).replace(LINE_BREAK, "\n")


def accept_edit(session: Session, key: str, text: str, edit: int) -> bool:
    """Note what was typed, unless a later edit is known; return whether the text is another one."""
    text = text[: longest_text()].encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # half a letter is none
    with session.texts.lock:
        if edit < session.texts.edits.get(key, 0):
            return False
        before = session.texts.typed.get(key)
        session.texts.typed[key], session.texts.edits[key] = text, edit
        if text != before:
            session.texts.by_hand.add(key)
            session.cancel_long_text_job()  # of the text before, never of a newer one
    return text != before


learn = accept_edit  # its name until November 2026, which scripts outside of this tree know


def text_and_edit(session: Session, key: str, first: str) -> tuple[str, int]:
    """Content of a field, and the number of its edit. first: its content before it was written in."""
    with session.texts.lock:
        return session.texts.typed.get(key, first), session.texts.edits.get(key, 0)


def write(key: Key, text: str) -> None:
    """Put a text into a field, where it can be typed on."""
    session = current_session()
    with session.texts.lock:
        session.texts.typed[key] = text.replace("\n", LINE_BREAK)
        session.texts.by_hand.discard(key)
        session.texts.edits[key] = session.texts.edits.get(key, 0) + 1


def write_source(text: str) -> None:
    write(Key.SOURCE, text)


def first_source(model: TextModel) -> str:
    """The text that a model is first shown with."""
    return model.example or FIRST_SOURCE


def texts(model: TextModel) -> tuple[str, str]:
    """Texts in the fields."""
    with current_session().texts.lock:
        return typed(Key.SOURCE, first_source(model)), typed(Key.TARGET, "")


def trace_fields(session: Session, model: TextModel) -> None:
    """Trace what is in the fields; where the model has other positions than it was trained with, a target that is not
    typed is what it writes as trained.
    """
    session.trace_input(model, *texts(model), writer=writer_of(session, model))
    follow_masks(session)


def follow_masks(session: Session) -> None:
    """Choose the mask that is new in the text, since that is what the model is asked; not where another token was
    chosen with it.
    """
    model, known, query = session.model, session.texts.masks, session.selection.query
    mask = model.source_tokenizer.mask if model.kind == "encoder-only" else None
    masks = [] if mask is None else [place for place, token in enumerate(session.source.ids) if token == mask]
    before, chosen = known or ([], -1 if session.texts.query_given else query)
    moved = query in before and query not in masks
    if masks and chosen == query and (moved or len(masks) > len(before)):
        session.select(query=next((place for place in masks if place not in before), masks[0]))
    session.texts.masks = masks, session.selection.query


def writer_of(session: Session, model: TextModel) -> TextModel | None:
    """The model as trained, where `model` has other positions and the trained one can read so many tokens."""
    current = session.override
    if current is None or current.model is not model or current.trained is model:
        return None
    trained: TextModel = current.trained
    longest = trained.config.max_length if trained.config.position == "learned" else None
    tokens = len(model.source_tokens(typed(Key.SOURCE, first_source(model))))
    return trained if longest is None or tokens <= longest else None


def follow_model(session: Session, model: TextModel) -> None:
    """Another model: the texts stay, unless they were only the example of the one before or of a training, or this one
    cannot read them; such ones come back with the model that they were put away with.
    """
    before = session.model if session.traced_input else model
    if before.name == model.name:
        return
    example, given = first_source(before), texts(before)
    of_training = (before.name, given[0]) == session.texts.of_training
    if (back := session.texts.by_model.pop(model.name, None)) is not None:
        write(Key.SOURCE, back[0])
        write(Key.TARGET, back[1])
    elif given[0] != example and (of_training or not can_read(model, given[0])):
        write_source(first_source(model))
        write(Key.TARGET, "")
    elif given[0] == example != first_source(model):
        write_source(first_source(model))
    if given[0] != example and texts(model)[0] != given[0]:
        session.texts.by_model[before.name] = given


def write_first(session: Session, model: TextModel, source: str) -> None:
    """Put a text into the fields that `model` begins with; the texts of the one that is shown come back with that."""
    before = session.model if session.traced_input else model
    if before.name != model.name:
        session.texts.by_model[before.name] = texts(before)
    write_source(source)
    write(Key.TARGET, "")
    session.texts.of_training = model.name, typed(Key.SOURCE, source)


def can_read(model: TextModel, source: str) -> bool:
    """True if nearly all of a text are tokens that the model knows."""
    try:
        ids = model.source_tokens(source).ids
    except ValueError:
        return False
    unknown = model.source_tokenizer.unknown
    return unknown is None or ids.count(unknown) <= UNREAD * len(ids)


def say(session: Session, model: TextModel) -> None:
    """Put the texts into the address bar, but for those that a visit begins with."""
    for key, first in ((Key.SOURCE, first_source(model)), (Key.TARGET, "")):
        text = session.texts.typed.get(key, first)
        session.address.set(key, None if text == first else text)


def model_and_text() -> tuple[TextModel, str]:
    """The model that is shown, or would be if it had room for its text, and what is typed."""
    session = current_session()
    model: TextModel = session.model if session.traced_input else session.stage.model
    return model, typed(Key.SOURCE, first_source(model))
