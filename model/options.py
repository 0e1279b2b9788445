"""Options that a user sets: each field of a dataclass with its range, its label and its help in one place.

Command line, forms, docs/options.md and the checks of a config are drawn from them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from model.message import InputError, Message

LARGEST = 10**15  # of a whole number that is typed: no memory holds more of anything


def option(default: Any, label: str, text: str, **more: Any) -> Any:
    """Field of a dataclass that is an option. text: its help. more: of `Option`, such as its range."""
    return dataclasses.field(default=default, metadata={"label": label, "help": text, **more})


@dataclass(frozen=True)
class Option:
    """Option of a network or a training.

    kind: bool, int or float; str: one of `choices`. optional: it can be left out. label: on its field. low, high: the
    least and the largest number; above, below: bounds that no number reaches; infinity is a number only where `high`
    says so. fixed: from the beginning of a run to its end. former: its name in older files and command lines.
    """

    name: str
    kind: type
    default: Any = None
    label: str = ""
    help: str = ""
    optional: bool = False
    choices: tuple[str, ...] = ()
    low: int | None = None
    above: int | None = None
    high: int | float | None = None
    below: int | None = None
    fixed: bool = False
    former: str = ""

    @property
    def limits(self) -> Message | None:
        """Range of its numbers, in words; None: they have none."""
        if self.above is not None:
            return Message("greater than {above}", above=self.above)
        if self.low is None:
            return None
        if self.below is not None:
            return Message("at least {low} and below {below}", low=self.low, below=self.below)
        if self.high is not None:
            return Message("between {low} and {high}", low=self.low, high=self.high)
        return Message("at least {low}", low=self.low)

    def require(self, value: Any) -> None:
        """Check that a value is of its type and in its range.

        Raises:
            ValueError: it is not; the message names the option, the value and the rule.
        """
        if not (value is None and self.optional) and (rule := self._broken(value)):
            raise InputError("{name} ({value!r}) must be {rule}", name=self.name, value=value, rule=rule)

    def _broken(self, value: Any) -> Message | None:
        """Rule that a value breaks."""
        if self.choices:
            return None if value in self.choices else Message("one of {choices}", choices=", ".join(self.choices))
        if self.kind is bool:
            return None if isinstance(value, bool) else Message("true or false")
        if isinstance(value, bool) or not isinstance(value, int if self.kind is int else int | float):
            return Message("a whole number") if self.kind is int else Message("a finite number")
        if isinstance(value, float) and not math.isfinite(value) and value != self.high:
            return Message("a finite number")
        inside = (
            (self.low is None or value >= self.low)
            and (self.above is None or value > self.above)
            and (self.high is None or value <= self.high)
            and (self.below is None or value < self.below)
        )
        return None if inside else self.limits

    def parse(self, text: Any) -> Any:
        """Value that was typed, or chosen, in its field.

        Raises:
            ValueError: it is no number, and must be one.
        """
        if self.kind in (bool, str):
            return text
        plain = str(text or "").strip().replace("−", "-")
        if not plain and self.optional:
            return None
        try:
            value: float = int(plain.replace(",", "")) if self.kind is int else float(plain)
        except ValueError:
            value = math.nan
        if value != value:  # NaN; math.isnan takes no whole number of 400 digits
            raise InputError(
                "{name} (“{text}”) must be a whole number"
                if self.kind is int
                else "{name} (“{text}”) must be a number",
                name=self.name,
                text=plain[:20],
            )
        if self.kind is int and abs(value) > LARGEST:
            raise InputError(
                "{name} (“{text}”) must be at most {most}", name=self.name, text=plain[:20], most=f"{LARGEST:,}"
            )
        return value

    def unchanged(self, value: Any, before: Any) -> bool:
        """True if a field that `before` was written into still has it: it holds six digits."""
        return bool(value in (before, self.parse(field_text(before))))


def options_of(described: type) -> Mapping[str, Option]:
    """Options of a dataclass by name; fields that no user sets are none.

    Values of an option are those of the first type of its annotation: what stands behind |, but None, no user chooses.
    """
    annotations, options = get_type_hints(described), {}
    for field in dataclasses.fields(described):
        name, annotation = field.name, annotations[field.name]
        if not field.metadata:
            continue
        types = [annotation] if get_origin(annotation) is Literal else get_args(annotation) or [annotation]
        choices = get_args(types[0])
        kind = str if choices else types[0]
        options[name] = Option(name, kind, field.default, optional=NoneType in types, choices=choices, **field.metadata)
    return options


def present_names(record: Mapping[str, Any], table: Mapping[str, Option]) -> dict[str, Any]:
    """Values of a file by the present names of their options."""
    names = {option.former: name for name, option in table.items() if option.former}
    return {names.get(name, name): value for name, value in record.items()}


def field_text(value: Any) -> Any:
    """Value as its field holds it."""
    if isinstance(value, bool | str):
        return value
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
