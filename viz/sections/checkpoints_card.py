"""A model card as it looks, without what it would fetch or run."""

from __future__ import annotations

import re

import streamlit as st

from viz.i18n.catalogue import _

PICTURE = re.compile(r"!+\[")  # "!![" without its first sign would still be one
TITLE = re.compile(r"^(#{1,6}) ", re.MULTILINE)
DEEP = re.compile(r"(?:[ \t]*>){9,}")  # quotes within quotes: browsers end at some thousands
SHOWN = 10_000  # characters: a browser takes many seconds for a million brackets


def show_card(card: str) -> None:
    """What stands before it as code, and its text."""
    front, rest = front_matter(card)
    if front:
        st.code(front[:SHOWN], language="yaml")
    if len(rest) > SHOWN:
        st.caption(_("The preview shows the first {count} characters of this card.").format(count=f"{SHOWN:,}"))
    st.markdown(harmless(rest[:SHOWN]) or _("There is no card yet."))


def front_matter(card: str) -> tuple[str, str]:
    """What stands at the beginning of a card between two lines of ---, and the rest."""
    from model.checkpoints.export import without_front_matter

    rest = without_front_matter(card)
    return (card[4 : len(card) - len(rest)].removesuffix("---\n").rstrip("\n"), rest) if rest != card else ("", card)


def harmless(card: str) -> str:
    """Markdown as it is shown: HTML is text to Streamlit, pictures, which would be fetched, are links; small titles."""
    return TITLE.sub(lambda found: "#" * min(6, len(found[1]) + 3) + " ", DEEP.sub("> ", PICTURE.sub("[", card)))
