"""Rules by which statements are judged: conditions on measured quantities, beside the spread that chance leaves them.

A condition is met, is not met, or these numbers do not decide it. A rule says of each condition which verdict there is
where it is not met, and gives the verdict on the numbers that it was made of; page and command line print it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, stdev
from typing import Literal

from model.message import Message, digits, say

SEEDS = 3  # of what chance plays a part in: with fewer, their spread is not known, and nothing is called clear
SPREADS = 2.0  # times the spread of the seeds: a distance below it may be chance

Order = Literal["lower", "higher", "alike", "open"]


class Verdict(StrEnum):
    """Verdict on a statement, computed from what was measured. OPEN: the numbers do not decide it."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    WRONG = "wrong"
    OPEN = "open"


@dataclass(frozen=True)
class Quantity:
    """Measured number: one value for each seed, or one alone where chance plays no part. unit: s, bytes, nats, %.

    interval: of one that chance moves and no seed repeats, such as a time: the ends between which it surely lies.
    """

    name: str
    values: tuple[float, ...]
    unit: str = ""
    interval: tuple[float, float] | None = None

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return fmean(self.values)

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds; None for fewer than two."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


# Numbers of several seeds beside their spread.


def spread(values: Sequence[float]) -> float:
    """Standard deviation over the seeds; 0 where all are equal, infinite ones too, infinite where only some are."""
    if len(set(values)) == 1:
        return 0.0
    return stdev(values) if all(map(math.isfinite, values)) else math.inf


def order(these: Sequence[float], those: Sequence[float], least: float = 0.0) -> Order:
    """Numbers beside others, a number for each seed.

    "lower" or "higher": their means differ by more than `least` and by more than `SPREADS` times the spread of the
    difference, √(s₁² + s₂²). "alike": they do not differ by more than `least`, wherever in that range they are. "open":
    neither can be said, or there are fewer than `SEEDS` seeds.
    """
    if min(len(these), len(those)) < SEEDS:
        return "open"
    noise = SPREADS * math.hypot(spread(these), spread(those))
    first, second = fmean(these), fmean(those)
    gap = 0.0 if first == second else second - first
    if math.isnan(gap) or math.isinf(noise):
        return "open"
    if abs(gap) > max(noise, least):
        return "lower" if gap > 0 else "higher"
    return "alike" if abs(gap) + noise <= least else "open"


def above(values: Sequence[float], limit: float) -> bool | None:
    """True of a number above a limit by more than `SPREADS` times its spread over the seeds, False of one as far below
    it; None: neither can be said, or there are fewer than `SEEDS` seeds.
    """
    if len(values) < SEEDS or not all(map(math.isfinite, values)):
        return None
    noise, mean = SPREADS * spread(values), fmean(values)
    return True if mean - noise > limit else False if mean + noise < limit else None


def joined(parts: Sequence[str]) -> str:
    """Parts of a sentence, one after another."""
    first, *rest = parts
    if len(rest) > 1:
        return say("{first}, {rest}", first=first, rest=joined(rest))
    return say("{first}, and {rest}", first=first, rest=rest[0]) if rest else first


def spoken(parts: Sequence[Message], **values: Message) -> Message:
    """Sentences one after another. values: which the whole has besides."""
    first, *rest = parts
    for each in rest:
        first = say("{sentence} {next}", sentence=first, next=each, **values)
    return first


@dataclass(frozen=True)
class Condition:
    """Statement on measured quantities, and whether they meet it; None: they do not decide it.

    chance: they might have come out otherwise. seeds: number of those that its spread is of. denial: the opposite in
    words, where there are better ones than that it is not so.
    """

    text: str
    met: bool | None
    chance: bool = False
    seeds: int | None = None
    denial: str = ""

    def __invert__(self) -> Condition:
        text = self.denial or say("it is not so that {condition}", condition=self.text)
        return replace(self, text=text, met=_not(self.met), denial=self.text)

    def __and__(self, other: Condition) -> Condition:
        return every((self, other), say("({first}, and {second})", first=self.text, second=other.text))

    def __or__(self, other: Condition) -> Condition:
        return some((self, other), say("({first}, or {second})", first=self.text, second=other.text))

    @property
    def or_open(self) -> Condition:
        """Condition that is open where this one is not met."""
        return replace(
            self,
            text=say("{condition} (otherwise it stays open)", condition=self.text, brief=self.text),
            met=self.met or None,
        )

    @property
    def surely(self) -> Condition:
        """Condition that is not met either where this one is not decided."""
        return replace(self, met=self.met is True)


def _not(met: bool | None) -> bool | None:
    return None if met is None else not met


def every(conditions: Iterable[Condition], text: str) -> Condition:
    """Condition that each of these is met; `text` says of all what each says of one."""
    items = list(conditions)
    met = {each.met for each in items}
    return _together(items, text, False if False in met else None if None in met else True)


def some(conditions: Iterable[Condition], text: str) -> Condition:
    """Condition that one of these at least is met; `text` says of all what each says of one."""
    items = list(conditions)
    met = {each.met for each in items}
    return _together(items, text, True if True in met else None if None in met else False)


def _together(conditions: Sequence[Condition], text: str, met: bool | None) -> Condition:
    seeds = [each.seeds for each in conditions if each.seeds is not None]
    return Condition(text, met, any(each.chance for each in conditions), min(seeds, default=None))


def _limit(a: Quantity, limit: float) -> float | str:
    """Limit of a quantity as a rule says it."""
    return f"{digits(limit)}\u00a0%" if a.unit == "%" else limit


# Conditions on numbers that are exact, with each seed.


def at_most(a: Quantity, limit: float) -> Condition:
    """a ≤ limit, with every seed; not of NaN."""
    names = {"a": a.name, "limit": _limit(a, limit)}
    text, denial = say("“{a}” is at most {limit}", **names), say("“{a}” is above {limit}", **names)
    return Condition(text, all(value <= limit for value in a.values), denial=denial)


def at_least(a: Quantity, limit: float) -> Condition:
    """a ≥ limit, with every seed; not of NaN."""
    return Condition(
        say("“{a}” is at least {limit}", a=a.name, limit=_limit(a, limit)), all(value >= limit for value in a.values)
    )


def exceeds(a: Quantity, limit: float) -> Condition:
    """a > limit, with every seed; not of NaN."""
    return Condition(
        say("“{a}” is above {limit}", a=a.name, limit=_limit(a, limit)), all(value > limit for value in a.values)
    )


# Conditions on numbers that chance moves.


def enough(seeds: int) -> Condition:
    """Condition that there are as many seeds as a spread needs."""
    return Condition(say("there are at least {seeds} seeds", seeds=SEEDS), seeds >= SEEDS, seeds=seeds)


@dataclass(frozen=True)
class Margin:
    """Least distance that counts, beside the spread: a number, a share of the larger mean, or a factor between both."""

    by: float = 0.0
    share: float = 0.0
    factor: float = 1.0

    @property
    def least(self) -> float | str:
        """The distance as a rule says it; 0 without one."""
        if self.factor > 1.0:
            return say("{factor} ×", factor=self.factor)
        return f"{100 * self.share:g} %" if self.share else self.by

    def applied(self, text: Message) -> Message:
        """Text of a comparison with this margin."""
        if not self.least:
            return say("{condition} by more than twice the spread of the seeds", condition=text, brief=text)
        return say(
            "{condition} by more than {least} and by more than twice the spread of the seeds",
            condition=text,
            least=self.least,
            brief=say("{condition} by more than {least}", condition=text, least=self.least),
        )


NO_MARGIN = Margin()


def clearly_above(a: Quantity, limit: float) -> Condition:
    """a above a limit: by more than twice the spread of its seeds, or with its whole interval."""
    names = {"a": a.name, "limit": _limit(a, limit)}
    text, denial = say("“{a}” is above {limit}", **names), say("“{a}” is not above {limit}", **names)
    if a.interval:
        low, high = a.interval
        met = True if low > limit else False if high < limit else None
        text = say("{condition}, even at the lower end of its interval", condition=text, brief=text)
        denial = say("{condition}, even at the upper end of its interval", condition=denial, brief=denial)
        return Condition(text, met, chance=True, denial=denial)
    return Condition(NO_MARGIN.applied(text), above(a.values, limit), True, len(a.values), NO_MARGIN.applied(denial))


def clearly_below(a: Quantity, limit: float) -> Condition:
    """a below a limit: by more than twice the spread of its seeds, or with its whole interval."""
    text, opposite = say("“{a}” is below {limit}", a=a.name, limit=_limit(a, limit)), clearly_above(a, limit)
    within = say("{condition}, even at the upper end of its interval", condition=text, brief=text)
    text = within if a.interval else NO_MARGIN.applied(text)
    return replace(opposite, text=text, met=_not(opposite.met), denial="")


def clearly_within(a: Quantity, low: float, high: float) -> Condition:
    """a between two limits, with its whole interval."""
    names: dict[str, float | str] = {"a": a.name, "low": low, "high": high}
    brief = say("“{a}” is from {low} to {high}", **names)
    text = say("“{a}” is from {low} to {high}, both ends of its interval too", **names, brief=brief)
    return every((clearly_above(a, low), clearly_below(a, high)), text)


def compared(a: Quantity, b: Quantity, margin: Margin = NO_MARGIN) -> Order:
    """a beside b: what is less than the margin is no difference."""
    if margin.factor > 1.0:
        these, those = ([math.log(value) for value in each.values] for each in (a, b))
        return order(these, those, math.log(margin.factor))
    larger = max((each.mean for each in (a, b) if each.values and math.isfinite(each.mean)), default=0.0)
    return order(a.values, b.values, max(margin.by, margin.share * larger))


def less(a: Quantity, b: Quantity, margin: Margin = NO_MARGIN) -> Condition:
    """a below b by more than twice the spread of both, and by the margin. Not met: a is above b by as much, or they are
    surely less apart than the margin.
    """
    return _ordered(a, b, margin, margin.applied(say("“{a}” is below “{b}”", a=a.name, b=b.name)), "lower")


def greater(a: Quantity, b: Quantity, margin: Margin = NO_MARGIN) -> Condition:
    """a above b: see `less`."""
    names = {"a": a.name, "b": b.name}
    text, denial = (
        margin.applied(each)
        for each in (say("“{a}” is above “{b}”", **names), say("“{a}” is not above “{b}”", **names))
    )
    return replace(_ordered(a, b, margin, text, "higher"), denial=denial)


def alike(a: Quantity, b: Quantity, margin: Margin) -> Condition:
    """a and b surely less apart than the margin, wherever their spread lets them be."""
    names: dict[str, float | str] = {"a": a.name, "b": b.name, "least": margin.least}
    brief = say("“{a}” and “{b}” are less than {least} apart", **names)
    text = say("“{a}” and “{b}” are less than {least} apart, twice the spread included", **names, brief=brief)
    return _ordered(a, b, margin, text, "alike")


def _ordered(a: Quantity, b: Quantity, margin: Margin, text: Message, met: Order) -> Condition:
    relation = compared(a, b, margin)
    seeds = min(len(a.values), len(b.values))
    return Condition(text, None if relation == "open" else relation == met, chance=True, seeds=seeds)


@dataclass(frozen=True)
class Rule:
    """Rule of a verdict, with the numbers that it was made of.

    given: if one is not met, or undecided, the verdict is open. needs: if one is not met, the statement is wrong.
    wants: if one is not met, it holds only under conditions; if any of both is undecided, it is open. All met: it
    holds. halves: rules of the halves of a sentence, each judged by itself, in place of these.
    """

    needs: Sequence[Condition] = ()
    wants: Sequence[Condition] = ()
    given: Sequence[Condition] = ()
    halves: Sequence[Rule] = ()

    @property
    def verdict(self) -> Verdict:
        """Verdict of the numbers."""
        if self.halves:
            verdicts = {half.verdict for half in self.halves}
            return (
                verdicts.pop() if len(verdicts) == 1 else Verdict.OPEN if Verdict.OPEN in verdicts else Verdict.IN_PART
            )
        needed, wanted = ([each.met for each in conditions] for conditions in (self.needs, self.wants))
        if not all(each.met for each in self.given):
            return Verdict.OPEN
        if False in needed:
            return Verdict.WRONG
        if None in (*needed, *wanted):
            return Verdict.OPEN
        return Verdict.IN_PART if False in wanted else Verdict.HOLDS

    @property
    def conditions(self) -> list[Condition]:
        """All conditions, those of the halves too."""
        return [*self.given, *self.needs, *self.wants, *(each for half in self.halves for each in half.conditions)]

    @property
    def text(self) -> Message:
        """Sentence of the rule: its conditions, and the verdict where one of them is not met."""
        if self.halves:
            first, second = (half.text for half in self.halves)
            return say(
                "Each half of the statement is judged by itself. The first: {first} The second: {second}",
                first=first,
                second=second,
            )
        given, needed, wanted = (
            joined([each.text for each in conditions]) if conditions else ""
            for conditions in (self.given, self.needs, self.wants)
        )
        parts: list[Message] = []
        if not wanted:
            parts.append(say("It holds if {conditions}; otherwise it is wrong.", conditions=needed))
        elif needed:
            parts.append(
                say("It holds at least in part only if {conditions}; otherwise it is wrong.", conditions=needed)
            )
            parts.append(say("It holds in full only if {conditions}.", conditions=wanted))
        else:
            parts.append(say("It holds if {conditions}; otherwise only in part.", conditions=wanted))
        ruled, by_chance = spoken(parts), [each for each in self.conditions if each.chance]
        parts = [say("It is judged only if {conditions}.", conditions=given)] if given else []
        parts.append(ruled)
        if any(each.seeds is not None for each in by_chance):
            undecided = say(
                "It stays open with fewer than {seeds} seeds, or where these numbers leave it undecided.", seeds=SEEDS
            )
            parts.append(undecided)
        elif by_chance:
            parts.append(say("It stays open where these numbers leave it undecided."))
        return spoken(parts, brief=ruled)

    @property
    def brief(self) -> str:
        """Sentence of the rule without what it says of chance, and of numbers that decide nothing."""
        return self.text.brief

    def __str__(self) -> str:
        return self.text

    @property
    def remarks(self) -> list[Message]:
        """Remark that nothing is clear with so few seeds; none with enough."""
        if all(each.seeds is None or each.seeds >= SEEDS for each in self.conditions):
            return []
        return [say("with fewer than {count} seeds nothing is called clear: their spread is not known", count=SEEDS)]


def each_of(conditions: Iterable[Condition], text: str) -> Rule:
    """Rule of a statement on each of several things: wrong where it is met by none, and only if by some.

    text: says of all what each of the conditions says of one.
    """
    items = list(conditions)
    return Rule(
        needs=[some(items, say("in one case at least: {condition}", condition=text))],
        wants=[every(items, say("that is so in every case"))],
    )
