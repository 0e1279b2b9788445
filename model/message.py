"""Sentences of this package, with the values in them, so that a page can say them in its own language."""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Any

PLAIN = re.compile(r",?(\.\d)?[fg]?")  # forms of values in a text that was read from a file
LONGEST_TEXT, MOST_VALUES = 1000, 20  # of such a text


class Message(str):
    """English sentence that remembers its text and the values in it.

    text: sentence with names in braces, as a catalogue has it ("d_model ({d_model}) must be even"); without values it
    may have other braces. values: of these names; one may be a message itself. plural: the sentence where its value
    `count` is not 1. field: option that it is about, where no value is called so. It is a string like any other, and
    `str` gives it back whole, so that `str(error)` does, too; whatever else is put together from it is a plain string.
    """

    text: str
    values: Mapping[str, Any]
    field: str
    plural: str

    def __new__(cls, text: str, /, *, field: str = "", plural: str = "", **values: Any) -> Message:
        # The sentence of an error, not the error, which would keep all that was in use when it was raised.
        plain = {name: str(value) if isinstance(value, BaseException) else value for name, value in values.items()}
        pattern = plural if plural and plain["count"] != 1 else text
        return cls.reading(pattern.format(**plain) if plain else text, text, plain, field, plural)

    @classmethod
    def reading(cls, sentence: str, text: str, values: Mapping[str, Any], field: str = "", plural: str = "") -> Message:
        """Message of this text and these values that reads so."""
        self = super().__new__(cls, sentence)
        self.text, self.values, self.field, self.plural = text, values, field, plural
        return self

    def __str__(self) -> str:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Message.reading, (str.__str__(self), self.text, dict(self.values), self.field, self.plural)

    def read_as(self, sentence: str) -> Message:
        """Message of the same text and values that reads otherwise: cut, or with its odd characters escaped."""
        return self.reading(sentence, self.text, self.values, self.field, self.plural)

    @property
    def brief(self) -> Message:
        """Message with the short form in the place of each message that has one, as its value `brief`."""
        short = self.values.get("brief")
        if isinstance(short, Message):
            return short.brief
        values = {name: each.brief if isinstance(each, Message) else each for name, each in self.values.items()}
        return Message(self.text, field=self.field, plural=self.plural, **values)

    def replacing(self, old: str, new: str) -> Message:
        """Message with `new` in the place of `old` in its values, and in those of messages in it."""
        values = {
            name: each.replacing(old, new)
            if isinstance(each, Message)
            else str(each).replace(old, new)
            if isinstance(each, str | PurePath)
            else each
            for name, each in self.values.items()
        }
        return Message(self.text, field=self.field, plural=self.plural, **values)


def say(text: str, **values: int | float | str) -> Message:
    """Message of a literal text whose numbers are written with three significant digits; a value may be a message.

    The application finds what it has to translate by these literal texts.
    """
    return Message.reading(text.format(**{name: digits(value) for name, value in values.items()}), text, values)


def digits(value: int | float | str) -> str:
    """Value in a sentence: three significant digits, whole numbers in groups of three."""
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def led_by(text: str, sentence: str, /, **values: Any) -> Message:
    """Message that begins with `text`, filled with these values, and goes on with `sentence`."""
    if isinstance(sentence, Message) and sentence.values:
        return Message(text + sentence.text, **{**sentence.values, **values})
    return Message(text + sentence.replace("{", "{{").replace("}", "}}"), **values)


class MessageError(Exception):
    """Error whose sentence is a `Message`: a text, and the values in it."""

    def __init__(self, text: str, /, *, field: str = "", **values: Any) -> None:
        super().__init__(Message(text, field=field, **values) if values or field else text)


class InputError(MessageError, ValueError):
    """Input that cannot be used; the sentence says what is wrong, with the value, and what to do."""


def field_of(error: Exception | str, names: Collection[str]) -> str:
    """The one of these options that an error is about: its field, or the first that its values name or are of; "" where
    there is none.
    """
    sentence = str(error)
    if not isinstance(sentence, Message):
        return ""
    named = [sentence.field, *(each for pair in sentence.values.items() for each in pair)]
    return next((each for each in named if isinstance(each, str) and each in names), "")


# Messages in files: {"text": ..., "values": ...}.


def written(sentence: str) -> str | dict[str, Any]:
    """Sentence as JSON can have it, so that `read` gives the same message."""
    if not isinstance(sentence, Message) or not sentence.values:
        return str(sentence)
    values = {
        name: written(value) if isinstance(value, str) else value if type(value) in (int, float) else str(value)
        for name, value in sentence.values.items()
    }
    return {"text": sentence.text, "values": values}


def read(record: object, depth: int = 3) -> str:
    """Sentence of such a record, which a stranger may have written; of anything else its text.

    A text may only ask for its values as they are, or as numbers: nothing of them is looked up, and none is made wide.
    """
    if not (isinstance(record, dict) and depth and set(record) == {"text", "values"}):
        return str(record)
    text, given = str(record["text"])[:LONGEST_TEXT], record["values"]
    if not isinstance(given, dict) or len(given) > MOST_VALUES:
        return text
    values: dict[str, Any] = {str(name): _value(value, depth - 1) for name, value in given.items()}
    try:
        for _before, name, form, how in string.Formatter().parse(text):
            if name is not None and (name not in values or not PLAIN.fullmatch(form or "") or how not in (None, "r")):
                return text
        return Message(text, **values)
    except (ValueError, TypeError):  # its braces do not fit, or a number's form a text
        return text


def _value(value: object, depth: int) -> str | int | float:
    return value if isinstance(value, int | float) else read(value, depth)
