"""Messages of figures in the language in use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import reduce
from typing import Any, TypeVar, cast

from model.message import Message
from viz.i18n.catalogue import _, language, ngettext

Part = TypeVar("Part")


def translated(part: Part) -> Part:
    """The value with every message in it, at any depth of dataclasses, lists and mappings, as a plain translated
    string; the very same object where there is none.
    """
    if language() == "en":
        return part
    return cast(Part, _translate_part(part))


def in_language(text: Part) -> Part:
    """A text in the language in use: a message is translated, anything else is as it is."""
    return cast(Part, filled(text)) if isinstance(text, Message) else text


def joined(separator: str, *parts: str) -> str:
    """Texts one behind the other, without those that are empty; messages among them stay such. Colons, commas and
    semicolons between them are those of the language.
    """
    there = [part for part in parts if part]
    if len(there) < 2:
        return there[0] if there else ""
    if separator in SEPARATED:
        return reduce(SEPARATED[separator], there)
    names = {f"part{number}": part for number, part in enumerate(there)}
    pattern = separator.join(f"{{{name}}}" for name in names)
    return Message(pattern, **names)


def labelled(label: str, text: str) -> str:
    """A label and what it is of, behind the colon of the language."""
    return Message("{quantity}: {value}", quantity=label, value=text)


def listed(first: str, second: str) -> str:
    """Two of a list, behind the comma of the language."""
    return Message("{first}, {next}", first=first, next=second)


def sentences(*parts: str) -> str:
    """Sentences one after the other, without those that are empty; Chinese ones without a gap."""
    first, *more = [part for part in parts if part] or [""]
    for each in more:
        first = Message("{sentence} {next}", sentence=first, next=each)
    return first


def clauses(*parts: str) -> str:
    """Parts of a sentence one after the other."""
    first, *more = parts or [""]
    for each in more:
        first = Message("{clause}; {next}", clause=first, next=each)
    return first


SEPARATED: Mapping[str, Callable[[str, str], str]] = {": ": labelled, ", ": listed, "; ": clauses}


def _translate_part(part: Any) -> Any:
    if isinstance(part, Message):
        return filled(part)
    if isinstance(part, str | int | float | None):
        return part
    if isinstance(part, list | tuple):
        parts = [_translate_part(each) for each in part]
        return part if all(new is old for new, old in zip(parts, part, strict=True)) else type(part)(parts)
    if isinstance(part, Mapping):
        return {_translate_part(name): _translate_part(value) for name, value in part.items()}
    if is_dataclass(part) and not isinstance(part, type):
        changes = {
            each.name: new
            for each in fields(part)
            if each.init and (new := _translate_part(old := getattr(part, each.name))) is not old
        }
        return replace(part, **changes) if changes else part
    return part


def filled(message: Message) -> str:
    """A message in the language in use; the messages among its values, too."""
    text = ngettext(message.text, message.plural, message.values["count"]) if message.plural else _(message.text)
    values = {name: _translate_part(value) for name, value in message.values.items()}
    return text.format(**values) if values else text
