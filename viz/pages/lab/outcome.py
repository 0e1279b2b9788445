"""What an experiment says, in the language in use."""

from __future__ import annotations

from model.experiments.experiment import Sentence, Words
from viz.i18n.catalogue import _
from viz.i18n.format import significant


def words(sentence: Words) -> str:
    """A sentence of an experiment with its values; a name that needs no translation as it is."""
    if isinstance(sentence, str):
        return sentence
    return _(sentence.text).format(**{name: value_words(value) for name, value in sentence.values.items()})


def value_words(value: int | float | str | Sentence) -> str:
    """A value in a sentence, or a sentence in it."""
    if isinstance(value, float):
        return significant(value)
    return f"{value:,}" if isinstance(value, int) else words(value)
