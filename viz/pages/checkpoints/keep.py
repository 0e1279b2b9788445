"""Keep a model: as one .zip, as a folder in the form of Hugging Face, with its card edited, under another name."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.checkpoints import manage
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal, not_ours, with_label
from viz.state import checkpoints, permissions, shown_model, training
from viz.state.checkpoints import CheckpointEntry, saved_folder
from viz.state.permissions import Permission
from viz.state.session import Key, Session, current_session
from viz.ui.parts import tell
from viz.ui.save_name import NAME, refused, saved_as

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

TALL = 420  # pixels of the card
READING = 720  # pixels of a column that stands alone


def show(session: Session) -> None:
    """Sections on the model that is shown: what can be taken away, its name, its card."""
    name = str(st.session_state.get(Key.MODEL) or "")
    tell(Part.SAID)
    place = next((each for each in checkpoints.all_places(session) if each.name == name), None)
    if name == training.ENTRY:
        _in_training(st.container(width=READING), session)
        return
    if place is None:
        st.warning(_("{name} is no longer there: choose another model.").format(name=literal(name)), width=READING)
        return
    if place.listed().format != "Vitrine":
        _foreign(place)
        return
    left, right = st.columns([5, 9], gap="large")
    _take_away(left, place)
    if place.origin == "saved":
        _other_name(left, place)
    _card(right, place)


def _in_training(place: DeltaGenerator, session: Session) -> None:
    live = training.training(session)
    place.markdown(f"**{_('Take it away')}**")
    place.caption(_("This model is in training: the page Training saves it, and then it can be kept from here."))
    if live and live.runs:
        name = live.start.name
        zip_button(place, _("Vitrine's folder as .zip"), lambda: live.zip(name, False), name, Part.ZIP, width="content")


def zip_button(place: DeltaGenerator, label: str, make: Callable[[], bytes], name: str, key: Part, **more: Any) -> None:
    """A .zip of that name, made once it is asked for."""
    look = {"width": "stretch", **more}
    place.download_button(label, make, f"{name}.zip", "application/zip", key=key, on_click="ignore", **look)


def _foreign(entry: CheckpointEntry) -> None:
    """Section on a model of others: what can be kept of it, beside its own card where it came with one."""
    try:
        card = manage.read_card(entry.path)
    except ValueError as error:
        card = as_sentence(translate_error(error))
    left, right = st.columns([5, 9], gap="large") if card else (st.container(width=READING), None)
    left.markdown(f"**{_('Take {name} away').format(name=literal(entry.name))}**")
    show_as_ours(left, entry)
    if right is not None:
        right.markdown(f"**{_('Model card')}**")
        with right.container(height=TALL, border=True):
            show_card(card)


def _take_away(place: DeltaGenerator, entry: CheckpointEntry) -> None:
    from model.checkpoints.convert.to_huggingface import counterpart
    from model.checkpoints.export import folder_zipped, huggingface_zipped

    place.markdown(f"**{_('Take {name} away').format(name=literal(entry.name))}**")
    content = _("config.json, weights, tokenizers, training record and card: upload it here or anywhere else")
    folder = partial(folder_zipped, entry.path, entry.name)
    zip_button(place, _("Vitrine's folder as .zip"), folder, entry.name, Part.ZIP, help=content)
    try:
        model = shown_model.open_named(entry.name)
        family = counterpart(model.config).title
    except ValueError as error:
        place.info(as_sentence(translate_error(error)))
        return
    label, name = _("Hugging Face's folder as .zip"), f"{entry.name}-huggingface"
    zip_button(
        place, label, lambda: huggingface_zipped(model, entry.name, manage.read_card(entry.path)), name, Part.HUGGING
    )
    place.caption(
        _("As {family}, with the same logits; its card says how to open it with transformers.").format(
            family=literal(family)
        )
    )


def _other_name(place: DeltaGenerator, entry: CheckpointEntry) -> None:
    """A saved one can be renamed and deleted."""
    if refusal := permissions.refused(Permission.SAVING):
        place.caption(refusal)
        return
    place.markdown(f"**{_('Its name')}**")
    row = place.container(horizontal=True, vertical_alignment="bottom")
    name = row.text_input(
        _("Its name"), entry.name, max_chars=64, key=f"{Part.NAME}_{entry.name}", label_visibility="collapsed"
    )
    sentence = refused_name(name or "") if name != entry.name else ""
    row.button(
        _("Rename"),
        key=Part.RENAME,
        disabled=bool(sentence) or name == entry.name,
        on_click=_rename,
        args=(entry, name or ""),
    )
    if sentence:
        place.caption(sentence)
    with place.popover(_("Delete …")):
        st.markdown(
            _("{name} and all its files are removed from the disk. There is no way back.").format(
                name=literal(entry.name)
            )
        )
        st.button(
            _("Delete {name} from the disk").format(name=literal(entry.name)),
            key=Part.DELETE,
            on_click=_delete,
            args=(entry,),
        )


def _card(place: DeltaGenerator, entry: CheckpointEntry) -> None:
    """The text beside what it looks like."""
    place.markdown(f"**{_('Model card')}**")
    try:
        text = manage.read_card(entry.path)
    except ValueError as error:
        place.error(as_sentence(translate_error(error)))
        return
    key = f"{Part.CARD}_{entry.name}"
    look, edit = place.tabs([_("Preview"), _("Edit")], key=f"{Part.CARD}_tabs")
    new = edit.text_area(
        _("Markdown"),
        text,
        height=TALL,
        max_chars=CARD_LETTERS,
        key=key,
        persist_state="session",
        label_visibility="collapsed",
    )
    with look.container(height=TALL, border=True):
        show_card(new or "")
    if not permissions.may(Permission.SAVING):
        place.caption(permissions.refused(Permission.SAVING))
        return
    if entry.origin == "saved":
        row = place.container(horizontal=True, vertical_alignment="bottom")
        row.button(_("Save the card"), key=Part.SAVE, disabled=new == text, on_click=_save, args=(entry, key))
        return
    ask(place, entry, _("Saved as a copy: its name"), _("Save a copy with this card"), _copy, entry, key)


def _save(entry: CheckpointEntry, key: str) -> None:
    sentence = _("The card of {name} is saved.").format(name=entry.name)
    attempt(lambda: manage.write_card(entry.path, str(st.session_state[key])), sentence)


def _copy(entry: CheckpointEntry, key: str, name: str) -> None:
    text = str(st.session_state[key])
    save_as(name, lambda folder: manage.copy_with_card(entry.path, folder, text))


def save_as(name: str, write: Callable[[Path], object]) -> None:
    """A saved model of that name, which is shown then."""
    sentence = saved_as(name, saved_folder() / name)
    if not refused_name(name) and attempt(lambda: write(saved_folder() / name), sentence):
        shown_model.show(name)


def _rename(entry: CheckpointEntry, name: str) -> None:
    sentence = _("{name} is called {new} now.").format(name=entry.name, new=name)
    if refused_name(name) or not NAME.fullmatch(name) or not attempt(lambda: manage.rename(entry.path, name), sentence):
        return
    shown_model.let_go()
    shown_model.show(name)


def _delete(entry: CheckpointEntry) -> None:
    if attempt(lambda: manage.delete(entry.path), _("{name} is deleted.").format(name=entry.name)):
        shown_model.forget(current_session(), entry.name)


# A model that others have trained, kept: where it came from, or saved as a model of ours.


def show_as_ours(place: DeltaGenerator, entry: CheckpointEntry) -> None:
    """A model of others is kept where it came from; what is put together as ours can be saved as ours."""
    listing = entry.listed()
    form = with_label(listing.format, listing.family) if listing.family else listing.format
    sentence = _("{name} is not of Vitrine ({format}): it stays as it came.")
    place.caption(sentence.format(name=literal(entry.name), format=literal(form)))
    session = current_session()
    if session.traced_input is None or not session.model.network.ours:
        place.caption(not_ours())
        place.caption(
            _(
                "Vitrine keeps no copy of it: its folder or file stays where it is. Its figures and tables can be "
                "downloaded where they are shown."
            )
        )
        return
    place.markdown(_("Saved as a model of Vitrine it can be taken away, renamed and described; so can what you train."))
    ask(place, entry, _("Its name"), _("Save it as a model of Vitrine"), _keep, session.model)


def _keep(model: TextModel, name: str) -> None:
    save_as(name, lambda folder: manage.keep_as_ours(folder, model))


# A model card as it looks, without what it would fetch or run.

PICTURE = re.compile(r"!+\[")  # "!![" without its first sign would still be one
TITLE = re.compile(r"^(#{1,6}) ", re.MULTILINE)
DEEP = re.compile(r"(?:[ \t]*>){9,}")  # quotes within quotes: browsers end at some thousands
CARD_LETTERS = 200_000
SHOWN = 10_000  # characters: a browser takes many seconds for a million brackets


def show_card(card: str) -> None:
    """Front matter of the card as code, and its text."""
    front, rest = front_matter(card)
    if front:
        st.code(front[:SHOWN], language="yaml")
    if len(rest) > SHOWN:
        st.caption(_("The preview shows the first {count} characters of this card.").format(count=f"{SHOWN:,}"))
    st.markdown(without_pictures(rest[:SHOWN]) or _("There is no card yet."))


def front_matter(card: str) -> tuple[str, str]:
    """Front matter of a card, between two lines of ---, and the rest."""
    from model.checkpoints.export import without_front_matter

    rest = without_front_matter(card)
    return (card[4 : len(card) - len(rest)].removesuffix("---\n").rstrip("\n"), rest) if rest != card else ("", card)


def without_pictures(card: str) -> str:
    """Markdown as it is shown: HTML is text to Streamlit, pictures, which would be fetched, are links; small titles."""
    return TITLE.sub(lambda match: "#" * min(6, len(match[1]) + 3) + " ", DEEP.sub("> ", PICTURE.sub("[", card)))


# Shared by all ways to keep a model: keys, the field for a name, and how one is tried.


class Part(StrEnum):
    """Names in the session state."""

    ZIP = "keeping_zip"
    HUGGING = "keeping_hugging"
    CARD = "keeping_card"
    OF = "keeping_card_of"
    SAVE = "keeping_save"
    COPY = "keeping_copy"
    NAME = "keeping_name"
    RENAME = "keeping_rename"
    DELETE = "keeping_delete"
    SAID = "keeping_said"


def refused_name(name: str) -> str:
    """Reason why there cannot be a saved model of that name."""
    return refused(name, replace=False, taken=checkpoints.own_names(current_session()))


def ask(
    place: DeltaGenerator, entry: CheckpointEntry, label: str, words: str, act: Callable[..., None], *args: object
) -> None:
    """A name to save it under, and the button that does, or why there cannot be one of that name.

    label: of the field. words: on the button. act: gets args and the name.
    """
    row = place.container(horizontal=True, vertical_alignment="bottom")
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", entry.path.stem if entry.path.is_file() else entry.name).strip("-_")
    name = row.text_input(label, f"my-{plain}"[:64], max_chars=64, key=f"{Part.COPY}_{entry.name}") or ""
    refusal = refused_name(name)
    row.button(
        words,
        key=Part.SAVE,
        disabled=bool(refusal),
        on_click=act,
        args=(*args, name),
        help=refusal or literal(str(saved_folder())),
    )
    if refusal:
        place.caption(refusal)


def attempt(act: Callable[[], object], sentence: str) -> bool:
    """Do it, and say how it went."""
    try:
        if refusal := permissions.refused(Permission.SAVING):
            raise ValueError(refusal)
        act()
    except (ValueError, OSError) as error:
        st.session_state[Part.SAID] = ("wrong", translate_error(error))
        return False
    st.session_state[Part.SAID] = ("good", sentence)
    return True
