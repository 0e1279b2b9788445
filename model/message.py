"""Sentences of this package, with the values in them, so that a page can say them in its own language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Message(str):
    """English sentence that remembers its text and the values in it.

    text: sentence with names in braces, as a catalogue has it ("d_model ({d_model}) must be even"). values: of these
    names; one may be a message itself, or an error with one. It is a string like any other, and `str` gives it back
    whole, so that `str(error)` does, too; whatever else is put together from it is a plain string.
    """

    text: str
    values: Mapping[str, Any]

    def __new__(cls, text: str, /, **values: Any) -> Message:
        return cls._reading(text.format(**values), text, values)

    @classmethod
    def _reading(cls, sentence: str, text: str, values: Mapping[str, Any]) -> Message:
        self = super().__new__(cls, sentence)
        self.text, self.values = text, values
        return self

    def __str__(self) -> str:
        return self

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (self.text,), dict(self.values)

    def read_as(self, sentence: str) -> Message:
        """Message of the same text and values that reads otherwise: cut, or with its odd characters escaped."""
        return self._reading(sentence, self.text, self.values)


def led_by(text: str, sentence: str, **values: Any) -> Message:
    """Message that begins with `text`, filled with these values, and goes on with `sentence`."""
    if isinstance(sentence, Message):
        return Message(text + sentence.text, **values, **sentence.values)
    return Message(text + sentence.replace("{", "{{").replace("}", "}}"), **values)


class MessageError(Exception):
    """Error whose sentence is a `Message`: a text, and the values in it."""

    def __init__(self, text: str, /, **values: Any) -> None:
        super().__init__(Message(text, **values) if values else text)  # without values it may be a sentence with braces


class InputError(MessageError, ValueError):
    """Input that cannot be used; the sentence says what is wrong, with the value, and what to do."""
