"""Options that a user sets: each field of a dataclass with its range, its label and its help in one place.

Command line, forms, docs/options.md and the checks of a config are drawn from them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from model.message import InputError, Message

LARGEST = 10**15  # of a whole number that is typed: no memory holds more of anything


def option(default: Any, label: str, text: str, **more: Any) -> Any:
    """Field of a dataclass that is an option. text: its help. more: of `Option`, such as its range."""
    return dataclasses.field(default=default, metadata={"label": label, "help": text, **more})


@dataclass(frozen=True)
class Option:
    """Option of a network or a training.

    annotation: type of its values. label: on its field. low, high: the least and the largest number; above, below:
    bounds that no number reaches; infinity is a number only where `high` says so. choices: the only values, where they
    are named. fixed: from the beginning of a run to its end. former: its name in older files and command lines.
    """

    name: str
    annotation: str
    default: Any
    label: str
    help: str
    low: int | None = None
    above: int | None = None
    high: int | float | None = None
    below: int | None = None
    choices: tuple[str, ...] = ()
    fixed: bool = False
    former: str = ""

    @property
    def switch(self) -> bool:
        """Whether it is on or off."""
        return self.annotation == "bool"

    @property
    def whole(self) -> bool:
        """Whether its numbers are whole."""
        return self.annotation.startswith("int")

    @property
    def optional(self) -> bool:
        """Whether it can be left out."""
        return "None" in self.annotation

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
        if self.choices:
            if value not in self.choices:
                raise InputError(
                    "{name} ({value!r}) must be one of {choices}",
                    name=self.name,
                    value=value,
                    choices=", ".join(self.choices),
                )
        elif self.switch:
            if not isinstance(value, bool):
                raise InputError("{name} ({value!r}) must be true or false", name=self.name, value=value)
        elif not (value is None and self.optional):
            self._require_number(value)

    def _require_number(self, value: Any) -> None:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if self.whole and not (number and isinstance(value, int)):
            raise InputError("{name} ({value!r}) must be a whole number", name=self.name, value=value)
        if not number or not (math.isfinite(value) or value == self.high):
            raise InputError("{name} ({value!r}) must be a finite number", name=self.name, value=value)
        if (
            (self.low is not None and value < self.low)
            or (self.above is not None and value <= self.above)
            or (self.high is not None and value > self.high)
            or (self.below is not None and value >= self.below)
        ):
            raise InputError("{name} ({value}) must be {limits}", name=self.name, value=value, limits=self.limits)

    def parse(self, text: Any) -> Any:
        """Value that was typed, or chosen, in its field.

        Raises:
            ValueError: it is no number, and must be one.
        """
        if self.switch or self.choices:
            return text
        plain = str(text or "").strip().replace("−", "-")
        if not plain and self.optional:
            return None
        try:
            value: float = int(plain.replace(",", "")) if self.whole else float(plain)
        except ValueError:
            value = math.nan
        if value != value:  # NaN; math.isnan takes no whole number of 400 digits
            raise InputError(
                "{name} (“{text}”) must be a whole number" if self.whole else "{name} (“{text}”) must be a number",
                name=self.name,
                text=plain[:20],
            )
        if self.whole and abs(value) > LARGEST:
            raise InputError(
                "{name} (“{text}”) must be at most {most}", name=self.name, text=plain[:20], most=f"{LARGEST:,}"
            )
        return value

    def unchanged(self, value: Any, before: Any) -> bool:
        """Whether a field that `before` was written into still has it: it holds six digits."""
        return bool(value in (before, self.parse(field_text(before))))


def options_of(described: type) -> Mapping[str, Option]:
    """Options of a dataclass by name; fields that no user sets are none."""
    types = get_type_hints(described)
    return MappingProxyType(
        {
            field.name: Option(
                field.name, str(field.type), field.default, choices=_choices(types[field.name]), **field.metadata
            )
            for field in dataclasses.fields(described)
            if field.metadata
        }
    )


def _choices(annotation: Any) -> tuple[str, ...]:
    """Values that a type names: what stands behind the first of them, after |, is none that a user can choose."""
    first = annotation if get_origin(annotation) is Literal else next(iter(get_args(annotation)), None)
    return get_args(first) if get_origin(first) is Literal else ()


def present_names(record: Mapping[str, Any], table: Mapping[str, Option]) -> dict[str, Any]:
    """Values of a file by the present names of their options."""
    names = {option.former: name for name, option in table.items() if option.former}
    return {names.get(name, name): value for name, value in record.items()}


def field_text(value: Any) -> Any:
    """Value as its field holds it."""
    if isinstance(value, bool | str):
        return value
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
