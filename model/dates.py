"""Dates in five ways of writing: one of the built-in tasks."""

from __future__ import annotations

import datetime
import random
import re
from collections import defaultdict
from functools import cache

MONTHS = "January February March April May June July August September October November December".split()
FIRST_YEAR, LAST_YEAR = 1900, 2099
# The ways of writing; 04/03/2021 has the day before the month.
FORMATS = (
    "{name} {day}, {{}}",
    "{day} {name} {{}}",
    "{day} {name:.3} {{}}",
    "{day:02}/{month:02}/{{}}",
    "{{}}年{month}月{day}日",
)
_NAME, _DAY, _MONTH, _YEAR = (
    "(?P<name>[A-Z][a-z]+)",
    "(?P<day>[0-9]{1,2})",
    "(?P<month>[0-9]{1,2})",
    "(?P<year>[0-9]{4})",
)
_PATTERNS = (
    f"{_NAME} {_DAY}, {_YEAR}",
    f"{_DAY} {_NAME} {_YEAR}",
    f"{_DAY}/{_MONTH}/{_YEAR}",
    f"{_YEAR}年{_MONTH}月{_DAY}日",
)


def draw_date(length: int, generator: random.Random) -> tuple[str, str]:
    """A date written with `length` characters, and the same as year-month-day."""
    text, month, day = generator.choice(_written()[length])
    year = generator.choice(_years(month, day))
    return text.format(year), f"{year}-{month:02}-{day:02}"


def solve_date(source: str) -> str:
    """The date as year-month-day.

    Raises:
        ValueError: it is written in no way of this task, or there is no such day.
    """
    for pattern in _PATTERNS:
        if match := re.fullmatch(pattern, source):
            try:
                return _date(match).isoformat()
            except ValueError as error:
                raise ValueError(f"source ({source!r}) is no date of the calendar: {error}") from error
    raise ValueError(f"source ({source!r}) must be a date as March 4, 2021, 4 Mar 2021, 04/03/2021 or 2021年3月4日")


def lengths() -> list[int]:
    """How many characters a date may have, from short to long."""
    return sorted(_written())


def date_count(length: int) -> int:
    """How many dates there are with this many characters."""
    return sum(len(_years(month, day)) for _, month, day in _written().get(length, ()))


def _date(match: re.Match[str]) -> datetime.date:
    parts = match.groupdict()
    if "name" in parts:
        named = [number for number, name in enumerate(MONTHS, start=1) if parts["name"] in (name, name[:3])]
        if not named:
            raise ValueError(f"no month is called {parts['name']}")
        parts["month"] = str(named[0])
    return datetime.date(*(int(parts[part]) for part in ("year", "month", "day")))


@cache
def _written() -> dict[int, list[tuple[str, int, int]]]:
    """By length: each text of a day without its year, with month and day. "4 May" is one text in two formats."""
    found: dict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
    for month, name in enumerate(MONTHS, start=1):
        for day in range(1, _last_day(month) + 1):
            for pattern in FORMATS:
                text = pattern.format(name=name, month=month, day=day)
                found[len(text.format(FIRST_YEAR))][text] = (month, day)
    return {length: [(text, *date) for text, date in texts.items()] for length, texts in found.items()}


@cache
def _years(month: int, day: int) -> list[int]:
    years = range(FIRST_YEAR, LAST_YEAR + 1)
    return [year for year in years if (month, day) != (2, 29) or _is_leap(year)]


def _last_day(month: int) -> int:
    return 29 if month == 2 else 30 if month in (4, 6, 9, 11) else 31


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
