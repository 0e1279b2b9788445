"""List of models: below the name of each, in few words, what kind it is and what it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from viz.i18n.catalogue import _
from viz.state import training
from viz.state.checkpoints import CheckpointEntry
from viz.ui.model_words import model_words

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

# The list is wider than its field, and an option as high as its words are.
STYLE = """
[data-testid="stSelectboxVirtualDropdown"]:has({list}) {{ width: min(19rem, 100vw - 2.5rem) !important; }}
{list} [role="option"] {{
  flex-direction: column; align-items: flex-start; height: auto; min-height: 0; padding-block: 5px; white-space: normal;
}}
{list} [role="option"]::after {{
  display: block; padding-inline: 8px; font-size: 13px; line-height: 1.35; opacity: 0.76;
}}
{list} {{ max-height: min(30rem, 100vh - 8rem) !important; }}
"""
MOST = 25  # of options that Streamlit draws whole; of more each is a line high


def words_of_models(here: Sequence[CheckpointEntry], names: Sequence[str], trained: TextModel | None) -> list[str]:
    """Words of the models of the list, in its order. trained: the one in training, which is first."""
    words = {place.name: model_words(place.listed()) for place in here if place.name in names}
    if trained is not None:
        words[training.ENTRY] = describe_kind(trained)
    return [words.get(name, "") for name in names]


def describe_kind(model: TextModel) -> str:
    return _(model.kind)


def describe_options(label: str, words: Sequence[str]) -> None:
    """Put words below each name in the open list of that label: the field itself says the name alone."""
    if len(words) > MOST:
        return
    listed = f'[role="listbox"][aria-label="{label}"]'
    rules = [
        f'{listed} [data-key="{number}"]::after {{ content: {content(each)}; }}'
        for number, each in enumerate(words)
        if each
    ]
    st.html(f"<style>{STYLE.format(list=listed)}{' '.join(rules)}</style>")


def content(words: str) -> str:
    """Words as a string of a style; whatever could end it is left out."""
    harmless = "".join(letter for letter in words if letter.isalnum() or letter in " ·→-_,:，、：")
    return f'"{harmless}"'
