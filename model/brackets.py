"""Strings of brackets, balanced or one slip away from it: one of the built-in tasks."""

from __future__ import annotations

import math
import random

PAIRS = ("()", "[]", "{}")
BRACKETS = "".join(PAIRS)
YES, NO = "yes", "no"


def draw_brackets(length: int, generator: random.Random) -> tuple[str, str]:
    """A string of an even length with "yes" or "no", each half of the time; the "no" are near misses."""
    balanced = draw_balanced(length, generator)
    return (balanced, YES) if generator.random() < 0.5 else (near_miss(balanced, generator), NO)


def judge_brackets(source: str) -> str:
    """ "yes" when nothing is left after taking out neighbouring pairs again and again, else "no".

    Raises:
        ValueError: another character than the six brackets, or none at all.
    """
    if not source or set(source) - set(BRACKETS):
        raise ValueError(f"source ({source!r}) must be of the brackets {BRACKETS} only")
    left, before = source, ""
    while left != before:
        before = left
        for pair in PAIRS:
            left = left.replace(pair, "")
    return NO if left else YES


def balanced_count(length: int) -> int:
    """How many balanced strings of this length there are: a Catalan number times the kinds of each pair.

    There are at least as many near misses: turning the first bracket of each gives another one.
    """
    half, odd = divmod(length, 2)
    return 0 if odd else math.comb(length, half) // (half + 1) * len(PAIRS) ** half


def draw_balanced(length: int, generator: random.Random) -> str:
    """A balanced string, all of this length equally likely.

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
    """The string with one slip that unbalances it: two brackets exchanged, or one bracket that is another.

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
