"""Built-in tasks: pairs made by a rule, so that a model's output is right or wrong beyond doubt.

A character is a token, and the length of a task's source is its number of characters.
"""

from __future__ import annotations

import datetime
import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from model.data.pairs import Pair
from model.message import InputError

# Task "brackets": strings of brackets, balanced or one slip away from it.

PAIRS = ("()", "[]", "{}")
BRACKETS = "".join(PAIRS)
YES, NO = "yes", "no"


def draw_brackets(length: int, generator: random.Random) -> tuple[str, str]:
    """String of an even length with "yes" or "no", equally frequent; those with "no" are near misses."""
    balanced = draw_balanced(length, generator)
    return (balanced, YES) if generator.random() < 0.5 else (near_miss(balanced, generator), NO)


def judge_brackets(source: str) -> str:
    """Answer "yes" if nothing is left after removing neighbouring pairs again and again, else "no".

    Raises:
        ValueError: the source is empty or has another character than the six brackets.
    """
    if not source or set(source) - set(BRACKETS):
        raise InputError(
            "source ({source!r}) must be of the brackets {brackets} only", source=source, brackets=BRACKETS
        )
    left, before = source, ""
    while left != before:
        before = left
        for pair in PAIRS:
            left = left.replace(pair, "")
    return NO if left else YES


def balanced_count(length: int) -> int:
    """Number of balanced strings of this length: a Catalan number times the kinds of each pair.

    There are at least as many near misses: turning the first bracket of each gives a different one.
    """
    half, odd = divmod(length, 2)
    return 0 if odd else math.comb(length, half) // (half + 1) * len(PAIRS) ** half


def draw_balanced(length: int, generator: random.Random) -> str:
    """Balanced string of this length; all are equally likely.

    Of the rotations of half + 1 steps up and half down exactly one stays above its start (the cycle lemma, Dvoretzky
    and Motzkin, 1947); without its first step it says which brackets open.
    """
    half = length // 2
    steps = [1] * (half + 1) + [-1] * half
    generator.shuffle(steps)
    height, lowest, first = 0, 0, 0
    for place, step in enumerate(steps, start=1):
        height += step
        if height <= lowest:
            lowest, first = height, place
    rotated = steps[first:] + steps[:first]
    open_pairs: list[str] = []
    written = ""
    for step in rotated[1:]:
        if step == 1:
            open_pairs.append(generator.choice(PAIRS))
            written += open_pairs[-1][0]
        else:
            written += open_pairs.pop()[1]
    return written


def near_miss(balanced: str, generator: random.Random) -> str:
    """Balanced string with one slip that unbalances it: two brackets exchanged, or one replaced by another.

    Exchanged brackets leave the count of each bracket as it was, so that counting does not find them.
    """
    if generator.random() < 0.5:
        return _one_replaced(balanced, generator)
    slipped = _two_exchanged(balanced, generator)
    while judge_brackets(slipped) == YES:
        slipped = _two_exchanged(balanced, generator)
    return slipped


def _one_replaced(text: str, generator: random.Random) -> str:
    place = generator.randrange(len(text))
    other = generator.choice(BRACKETS.replace(text[place], ""))
    return text[:place] + other + text[place + 1 :]


def _two_exchanged(text: str, generator: random.Random) -> str:
    first, second = sorted(generator.sample(range(len(text)), 2))
    return text[:first] + text[second] + text[first + 1 : second] + text[first] + text[second + 1 :]


# Task "dates": dates in five formats.

MONTHS = "January February March April May June July August September October November December".split()
FIRST_YEAR, LAST_YEAR = 1900, 2099
# 04/03/2021 has the day before the month.
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
    """A date in a format with `length` characters, and the same date as year-month-day."""
    text, month, day = generator.choice(_written()[length])
    year = generator.choice(_years(month, day))
    return text.format(year), f"{year}-{month:02}-{day:02}"


def solve_date(source: str) -> str:
    """A date as year-month-day.

    Raises:
        ValueError: the source is in none of the task's formats, or there is no such day.
    """
    for pattern in _PATTERNS:
        if match := re.fullmatch(pattern, source):
            try:
                return _date(match).isoformat()
            except ValueError as error:
                raise InputError(
                    "source ({source!r}) is no date of the calendar: {error}", source=source, error=error
                ) from error
    raise InputError(
        "source ({source!r}) must be a date as March 4, 2021, 4 Mar 2021, 04/03/2021 or 2021年3月4日", source=source
    )


def lengths() -> list[int]:
    """Numbers of characters that a date may have, from short to long."""
    return sorted(_written())


def date_count(length: int) -> int:
    """Number of sources with this many characters."""
    return sum(len(_years(month, day)) for _, month, day in _written().get(length, ()))


def _date(match: re.Match[str]) -> datetime.date:
    parts = match.groupdict()
    if "name" in parts:
        named = [number for number, name in enumerate(MONTHS, start=1) if parts["name"] in (name, name[:3])]
        if not named:
            raise InputError("no month is called {parts}", parts=parts["name"])
        parts["month"] = str(named[0])
    return datetime.date(*(int(parts[part]) for part in ("year", "month", "day")))


@cache
def _written() -> dict[int, list[tuple[str, int, int]]]:
    """Templates of days, without the year, with month and day, by length. "4 May" is one template in two formats."""
    templates: dict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
    for month, name in enumerate(MONTHS, start=1):
        for day in range(1, _last_day(month) + 1):
            for pattern in FORMATS:
                text = pattern.format(name=name, month=month, day=day)
                templates[len(text.format(FIRST_YEAR))][text] = (month, day)
    return {length: [(text, *date) for text, date in texts.items()] for length, texts in templates.items()}


@cache
def _years(month: int, day: int) -> list[int]:
    years = range(FIRST_YEAR, LAST_YEAR + 1)
    return [year for year in years if (month, day) != (2, 29) or _is_leap(year)]


def _last_day(month: int) -> int:
    return 29 if month == 2 else 30 if month in (4, 6, 9, 11) else 31


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


LETTERS, DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"

# Task "caesar": each letter is moved on in the alphabet by as many places as the digit before them says.


def draw_caesar(length: int, generator: random.Random) -> tuple[str, str]:
    """Digit and letters, and the letters moved on."""
    places, letters = generator.randrange(10), "".join(generator.choices(LETTERS, k=length - 1))
    return f"{places}{letters}", "".join(chr((ord(letter) - ord("a") + places) % 26 + ord("a")) for letter in letters)


def solve_caesar(source: str) -> str:
    """Letters moved on one place, as often as the digit says.

    Raises:
        ValueError: the source does not begin with a digit, or something else than letters follows.
    """
    places, letters = source[:1], source[1:]
    if not places or places not in DIGITS or not letters or set(letters) - set(LETTERS):
        raise InputError(
            "source ({source!r}) must be one digit and letters from a to z after it, as 3abc", source=source
        )
    for _place in range(int(places)):
        letters = letters.translate(str.maketrans(LETTERS, f"{LETTERS[1:]}{LETTERS[0]}"))
    return letters


LONGEST = 1000
CODE_LICENCE = "made by code, model/data/tasks.py"  # as a licence


@dataclass(frozen=True)
class Task:
    """A rule from a source to the one right target.

    draw: random source of a length with its target. solve: target of any source, computed in another way than by
    `draw`; ValueError where the source is none of this task. lengths: of the usual training sources. sources: number of
    sources of a length. answers: all possible targets, equally frequent; empty: any text. one_alphabet: targets have
    the same characters as sources. any_length: there are sources of every length.
    """

    name: str
    description: str
    draw: Callable[[int, random.Random], tuple[str, str]]
    solve: Callable[[str], str]
    lengths: tuple[int, ...]
    sources: Callable[[int], int]
    answers: tuple[str, ...] = ()
    one_alphabet: bool = False
    any_length: bool = False


def find_task(name: str) -> Task:
    """Built-in task of a name.

    Raises:
        ValueError: there is none.
    """
    if name not in TASKS:
        raise InputError("task ({name!r}) must be one of {tasks}", name=name, tasks=", ".join(TASKS))
    return TASKS[name]


def task_pairs(name: str, count: int, lengths: Sequence[int], seed: int) -> list[Pair]:
    """`count` pairs of a task with distinct sources of these lengths, equally frequent while a length has sources left.

    The same arguments give the same pairs. A task with few answers gives each in turn.

    Raises:
        ValueError: unknown task, a count below 1, a length that the task does not have, or fewer sources than `count`.
    """
    task = find_task(name)
    left = _room(task, lengths)
    if count < 1:
        raise InputError("count ({count}) must be at least 1", count=count)
    if count > sum(left.values()):
        raise InputError(
            "count ({count:,}) must be at most {values:,}: the task {name} has no more distinct pairs of the "
            "lengths {listed}; allow more lengths",
            count=count,
            values=sum(left.values()),
            name=name,
            listed=_listed(lengths),
        )
    generator = random.Random(f"{name} {seed}")
    targets: dict[str, str] = {}
    while len(targets) < count:
        answer = task.answers[len(targets) % len(task.answers)] if task.answers else None
        length = generator.choice([length for length, kind in left if kind == answer and left[length, kind]])
        source, target = task.draw(length, generator)
        while source in targets or answer not in (None, target):
            source, target = task.draw(length, generator)
        targets[source] = target
        left[length, answer] -= 1
    return [Pair(source, target) for source, target in targets.items()]


def exact_match(name: str, sources: Sequence[str], written: Sequence[str]) -> float:
    """Share of written targets that equal the solution of their source by the task's rule, to the character.

    Raises:
        ValueError: unknown task, no sources, another number of targets, or a source that is none of the task's.
    """
    task = find_task(name)
    if not sources or len(sources) != len(written):
        raise InputError(
            "{n_written} written targets for {n_sources} sources: give one for each, at least one",
            n_written=len(written),
            n_sources=len(sources),
        )
    right = [task.solve(source) == target for source, target in zip(sources, written, strict=True)]
    return sum(right) / len(right)


def _room(task: Task, lengths: Sequence[int]) -> dict[tuple[int, str | None], int]:
    """Number of sources of each length and answer."""
    if not lengths:
        raise InputError(
            "no length is given for the task {name}: it is usually trained with {usual}",
            name=task.name,
            usual=_usual(task),
        )
    for length in lengths:
        if not 1 <= length <= LONGEST:
            raise InputError("length ({length}) must be from 1 to {longest:,}", length=length, longest=LONGEST)
        if not task.sources(length):
            raise InputError(
                "the task {name} has no sources of length {length}: usual are {usual}",
                name=task.name,
                length=length,
                usual=_usual(task),
            )
    kinds: tuple[str | None, ...] = task.answers or (None,)
    return {(length, kind): task.sources(length) // len(kinds) for length in sorted(set(lengths)) for kind in kinds}


def _usual(task: Task) -> str:
    return _listed(task.lengths)


def _listed(lengths: Sequence[int]) -> str:
    return ", ".join(map(str, lengths))


def _string_task(
    name: str, description: str, alphabet: str, rule: Callable[[str], str], solve: Callable[[str], str]
) -> Task:
    """Task whose source is any string of characters from an alphabet."""

    def draw(length: int, generator: random.Random) -> tuple[str, str]:
        source = "".join(generator.choices(alphabet, k=length))
        return source, rule(source)

    def checked(source: str) -> str:
        if not source or set(source) - set(alphabet):
            raise InputError(
                "source ({source!r}) must be of the characters {alphabet} to {alphabet_2} only",
                source=source,
                alphabet=alphabet[0],
                alphabet_2=alphabet[-1],
            )
        return solve(source)

    def sources(length: int) -> int:
        return int(len(alphabet) ** length)

    lengths = tuple(range(2, 13))
    return Task(name, description, draw, checked, lengths, sources, one_alphabet=True, any_length=True)


def _reverse(source: str) -> str:
    return "".join(source[place] for place in range(len(source) - 1, -1, -1))


def _count_out(source: str) -> str:
    return "".join(digit * source.count(digit) for digit in DIGITS)


def _draw_addition(length: int, generator: random.Random) -> tuple[str, str]:
    digits = generator.randint(1, length - 2)
    first, second = (_draw_number(width, generator) for width in (digits, length - 1 - digits))
    return f"{first}+{second}", str(first + second)


def _draw_number(digits: int, generator: random.Random) -> int:
    """Random number of `digits` digits, without leading zeros; 0 itself has one digit."""
    return generator.randrange(10 ** (digits - 1) if digits > 1 else 0, 10**digits)


def _add(source: str) -> str:
    """Sum as on paper: column by column from the right, with a carry."""
    numbers = source.split("+")
    if len(numbers) != 2 or not all(number and not set(number) - set(DIGITS) for number in numbers):
        raise InputError("source ({source!r}) must be two numbers with a + between them, as 123+45", source=source)
    width = max(map(len, numbers)) + 1
    written, carry = "", 0
    for column in zip(*(reversed(number.zfill(width)) for number in numbers), strict=True):
        carry, digit = divmod(sum(map(int, column)) + carry, 10)
        written = f"{digit}{written}"
    return written.lstrip("0") or "0"


def _additions(length: int) -> int:
    numbers = {digits: 9 * 10 ** (digits - 1) + (digits == 1) for digits in range(1, length)}
    return sum(numbers[digits] * numbers[length - 1 - digits] for digits in range(1, length - 1))


TASKS = {
    task.name: task
    for task in (
        _string_task("copy", "Write the letters again: abc → abc.", LETTERS, str, "".join),
        _string_task("reverse", "Write the letters backwards: abc → cba.", LETTERS, lambda text: text[::-1], _reverse),
        _string_task(
            "sort",
            "Write the digits from small to large: 3121 → 1123.",
            DIGITS,
            lambda text: "".join(sorted(text)),
            _count_out,
        ),
        Task(
            "caesar",
            "Move each letter on in the alphabet by as many places as the digit says: 3abz → dec.",
            draw_caesar,
            solve_caesar,
            tuple(range(2, 10)),
            lambda length: 10 * 26 ** (length - 1) if length > 1 else 0,
        ),
        Task("addition", "Add two numbers: 123+45 → 168.", _draw_addition, _add, tuple(range(3, 9)), _additions),
        Task(
            "brackets",
            "Say whether every bracket is closed by its own kind, in the right order: ([]{}) → yes, ([)] → no.",
            draw_brackets,
            judge_brackets,
            tuple(range(4, 17, 2)),
            lambda length: 2 * balanced_count(length),
            (YES, NO),
        ),
        Task(
            "dates",
            "Write a date as year-month-day: March 4, 2021 → 2021-03-04; 04/03/2021 is the same, day before month.",
            draw_date,
            solve_date,
            tuple(lengths()),
            date_count,
        ),
    )
}
