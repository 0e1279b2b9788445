"""Rules: what is clear beside the spread of the seeds, what they leave open, and the verdict of conditions together."""

import itertools
import math
from statistics import fmean, stdev

import pytest

from model.experiments.rule import (
    Condition,
    Margin,
    Quantity,
    Rule,
    Verdict,
    above,
    alike,
    at_least,
    at_most,
    clearly_above,
    clearly_below,
    clearly_within,
    each_of,
    enough,
    every,
    exceeds,
    greater,
    less,
    order,
    some,
    spread,
)
from model.message import say

HOLDS, IN_PART, WRONG, OPEN = Verdict.HOLDS, Verdict.IN_PART, Verdict.WRONG, Verdict.OPEN
T, F, N = True, False, None


@pytest.mark.parametrize(
    ("these", "those", "least", "expected"),
    [
        ((1.0, 1.1, 0.9), (2.0, 2.1, 1.9), 0.1, "lower"),
        ((2.0, 2.1, 1.9), (1.0, 1.1, 0.9), 0.1, "higher"),
        ((1.0, 1.0), (2.0, 2.0), 0.1, "open"),  # two seeds
        ((1.0,), (2.0,), 0.1, "open"),
        ((1.0, 1.5, 0.5), (2.0, 2.5, 1.5), 0.1, "open"),  # every seed is lower, but by less than twice their spread
        ((1.0, 1.01, 0.99), (1.02, 1.03, 1.01), 0.1, "alike"),
        ((1.0, 1.1, 0.9), (1.0, 1.1, 0.9), 0.1, "open"),  # they may differ by a tenth
        ((1.0, 1.0, 1.0), (1.05, 1.05, 1.05), 0.1, "alike"),
        ((1.0, 1.0, 1.0), (math.inf, math.inf, math.inf), 0.1, "lower"),  # all diverged
        ((1.0, 1.0, 1.0), (math.inf, 1.0, 1.0), 0.1, "open"),
        ((math.inf,) * 3, (math.inf,) * 3, 0.1, "alike"),
        ((0.0,) * 3, (0.0,) * 3, 0.0, "alike"),
        ((1.0,) * 3, (1.0 + 1e-9,) * 3, 0.0, "lower"),
        ((math.nan, 1.0, 1.0), (2.0, 2.0, 2.0), 0.1, "open"),
    ],
)
def test_two_numbers_are_apart_alike_or_open(these, those, least, expected) -> None:
    assert order(these, those, least) == expected
    opposite = {"lower": "higher", "higher": "lower"}.get(expected, expected)
    assert order(those, these, least) == opposite


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.6, 0.6, 0.6), True),
        ((0.4, 0.4, 0.4), False),
        ((0.6, 0.6), None),
        ((0.9, 0.6, 0.6), None),  # 0.7 ± 0.35
        ((0.5, 0.5, 0.5), None),
        ((math.nan, 0.9, 0.9), None),
        ((math.inf, math.inf, math.inf), None),
    ],
)
def test_a_number_is_above_a_limit_below_it_or_open(values, expected) -> None:
    assert above(values, 0.5) is expected


def test_more_seeds_decide_what_three_do_not() -> None:
    """The spread does not shrink with the seeds: only the weight of one that was unlucky does."""
    assert above((0.9, 0.6, 0.6), 0.5) is None
    assert above((0.9, *[0.6] * 9), 0.45) is None
    assert above((0.9, *[0.6] * 9), 0.4) is True


def test_the_spread_is_that_of_the_sample() -> None:
    values = (1.0, 2.0, 4.0)
    assert spread(values) == pytest.approx(math.sqrt(sum((each - fmean(values)) ** 2 for each in values) / 2))
    assert spread(values) == pytest.approx(stdev(values))
    assert spread((3.0,)) == 0.0
    assert spread((math.inf, 1.0)) == math.inf


def seeds(*values: float) -> Quantity:
    return Quantity("a", values)


def timed(low: float, high: float) -> Quantity:
    return Quantity("a", ((low + high) / 2,), interval=(low, high))


@pytest.mark.parametrize(
    ("quantity", "above_it", "below_it"),
    [
        (seeds(0.6, 0.6, 0.6), T, F),  # no spread
        (seeds(0.5, 0.5, 0.5), N, N),  # a tie
        (seeds(0.4, 0.41, 0.39), F, T),
        (seeds(0.9, 0.6, 0.6), N, N),
        (seeds(0.9), N, N),  # one seed
        (seeds(0.9, 0.9), N, N),
        (seeds(math.nan, 0.9, 0.9), N, N),
        (seeds(), N, N),
        (timed(0.6, 0.7), T, F),
        (timed(0.4, 0.6), N, N),
        (timed(0.3, 0.4), F, T),
        (timed(math.nan, math.nan), N, N),
    ],
)
def test_a_quantity_is_clearly_above_a_limit_below_it_or_neither(quantity, above_it, below_it) -> None:
    assert clearly_above(quantity, 0.5).met is above_it
    assert clearly_below(quantity, 0.5).met is below_it
    count = None if quantity.interval else len(quantity.values)
    assert clearly_above(quantity, 0.5).seeds == clearly_below(quantity, 0.5).seeds == count


@pytest.mark.parametrize(
    ("low", "high", "met"),
    [(1.6, 2.4, T), (1.4, 2.4, N), (1.0, 1.4, F), (2.6, 2.7, F), (1.4, 2.6, N), (math.nan, math.nan, N)],
)
def test_an_interval_lies_within_two_limits_outside_or_neither(low, high, met) -> None:
    assert clearly_within(timed(low, high), 1.5, 2.5).met is met


@pytest.mark.parametrize(
    ("values", "at_most_it", "above_it"),
    [((0.5, 0.5), T, F), ((0.5, 0.6), F, F), ((0.6,), F, T), ((math.nan,), F, F), ((math.inf, 0.6), F, T)],
)
def test_exact_numbers_need_no_spread_and_every_seed_counts(values, at_most_it, above_it) -> None:
    assert at_most(seeds(*values), 0.5).met is at_most_it
    assert exceeds(seeds(*values), 0.5).met is above_it
    assert at_least(seeds(*values), 0.5).met is (min(values) >= 0.5)
    assert not at_most(seeds(*values), 0.5).chance


@pytest.mark.parametrize(
    ("these", "those", "margin", "found"),
    [
        ((1.0, 1.1, 0.9), (2.0, 2.1, 1.9), Margin(), "lower"),
        ((1.0, 1.1, 0.9), (2.0, 2.1, 1.9), Margin(by=1.2), "open"),
        ((1.0, 1.01, 0.99), (1.02, 1.03, 1.01), Margin(share=0.1), "alike"),
        ((1.0, 1.1, 0.9), (1.05, 1.0, 1.1), Margin(share=0.1), "open"),
        ((1.0, 1.1, 0.9), (1.5, 1.4, 1.6), Margin(factor=2.0), "alike"),
        ((1.0, 1.1, 0.9), (2.5, 2.4, 2.6), Margin(factor=2.0), "lower"),
        ((1.0,), (2.0,), Margin(), "open"),
        ((1.0, 1.0, 1.0), (math.inf,) * 3, Margin(share=0.1), "lower"),
        ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), Margin(share=0.1), "alike"),
    ],
)
def test_quantities_are_in_an_order_or_alike_or_neither(these, those, margin, found) -> None:
    a, b = Quantity("a", these), Quantity("b", those)
    wanted = {less: "lower", greater: "higher", alike: "alike"}
    for condition, order_of in wanted.items():
        assert condition(a, b, margin).met is (None if found == "open" else found == order_of)
    assert less(a, b, margin).met is greater(b, a, margin).met
    assert less(a, b, margin).seeds == min(len(these), len(those))


def given(met: bool | None) -> Condition:
    return Condition(say("so"), met, chance=True)


@pytest.mark.parametrize("met", list(itertools.product((T, F, N), repeat=2)))
def test_conditions_together_are_known_where_one_of_them_decides(met) -> None:
    one, other = map(given, met)
    both = F if F in met else N if N in met else T
    either = T if T in met else N if N in met else F
    assert (one & other).met is every((one, other), say("so")).met is both
    assert (one | other).met is some((one, other), say("so")).met is either
    assert (~one).met is {T: F, F: T, N: N}[met[0]]
    assert one.surely.met is (met[0] is T)
    assert one.or_open.met is (T if met[0] is T else N)


@pytest.mark.parametrize(
    ("given_met", "needs", "wants", "expected"),
    [
        ((), (T, T), (), HOLDS),
        ((), (T, F, N), (T,), WRONG),  # whatever else is open
        ((), (T, N), (T,), OPEN),
        ((), (T,), (T, T), HOLDS),
        ((), (T,), (T, F), IN_PART),
        ((), (T,), (F, N), OPEN),
        ((), (F,), (T,), WRONG),
        ((T,), (F,), (), WRONG),
        ((F,), (F,), (), OPEN),  # the numbers say nothing
        ((N,), (T,), (T,), OPEN),
        ((T,), (), (F,), IN_PART),
    ],
)
def test_a_rule_gives_the_verdict_of_the_condition_that_is_not_met(given_met, needs, wants, expected) -> None:
    rule = Rule(needs=[*map(given, needs)], wants=[*map(given, wants)], given=[*map(given, given_met)])
    assert rule.verdict is expected


@pytest.mark.parametrize(
    ("met", "expected"),
    [
        ((T, T, T), HOLDS),
        ((F, F), WRONG),
        ((T, F), IN_PART),
        ((T, F, N), IN_PART),
        ((T, N), OPEN),
        ((F, N), OPEN),
        ((N,), OPEN),
    ],
)
def test_a_statement_on_several_things_may_hold_of_some(met, expected) -> None:
    assert each_of(map(given, met), say("so")).verdict is expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (HOLDS, HOLDS, HOLDS),
        (HOLDS, WRONG, IN_PART),
        (HOLDS, OPEN, OPEN),
        (WRONG, OPEN, OPEN),
        (IN_PART, OPEN, OPEN),
        (IN_PART, WRONG, IN_PART),
        (WRONG, WRONG, WRONG),
    ],
)
def test_each_half_of_a_sentence_is_judged_by_itself(first, second, expected) -> None:
    made = {
        HOLDS: Rule(needs=[given(T)]),
        IN_PART: Rule(wants=[given(F)]),
        WRONG: Rule(needs=[given(F)]),
        OPEN: Rule(needs=[given(N)]),
    }
    assert Rule(halves=(made[first], made[second])).verdict is expected
    assert Rule(halves=(made[second], made[first])).verdict is expected


def test_a_rule_says_its_conditions_and_what_becomes_of_the_statement_without_them() -> None:
    a, b = Quantity(say("loss of {arm}", arm="A"), (1.0,)), Quantity("B", (2.0,))
    rule = Rule(needs=[less(a, b)], wants=[~greater(a, b, Margin(share=0.1)), at_most(b, 3.0)], given=[exceeds(b, 0.0)])
    assert str(rule) == (
        "It is judged only if “B” is above 0. It holds at least in part only if “loss of A” is below “B” by more than "
        "twice the spread of the seeds; otherwise it is wrong. It holds in full only if “loss of A” is not above “B” "
        "by more than 10 % and by more than twice the spread of the seeds, and “B” is at most 3. It stays open with "
        "fewer than 3 seeds, or where these numbers leave it undecided."
    )
    assert str(Rule([~at_most(b, 3.0)])) == "It holds if “B” is above 3; otherwise it is wrong."
    assert (~~clearly_above(timed(1.0, 2.0), 0.5)) == clearly_above(timed(1.0, 2.0), 0.5)
    halves = str(Rule(halves=(Rule(needs=[exceeds(b, 0.0)]), Rule(needs=[at_most(b, 0.0)]))))
    assert halves == (
        "Each half of the statement is judged by itself. The first: It holds if “B” is above 0; otherwise it is wrong. "
        "The second: It holds if “B” is at most 0; otherwise it is wrong."
    )
    assert str(Rule([exceeds(b, 0.0) & (at_most(b, 0.0) | at_most(Quantity("C", (1.0,), "%"), 2.0))])) == (
        "It holds if (“B” is above 0, and (“B” is at most 0, or “C” is at most 2\xa0%)); otherwise it is wrong."
    )
    assert str(each_of([clearly_above(timed(1.0, 2.0), 0.5)], say("each of them"))) == (
        "It holds at least in part only if in one case at least: each of them; otherwise it is wrong. It holds in full "
        "only if that is so in every case. It stays open where these numbers leave it undecided."
    )


@pytest.mark.parametrize(("count", "expected"), [(1, OPEN), (2, OPEN), (3, HOLDS), (9, HOLDS)])
def test_a_rule_may_ask_for_seeds_where_no_spread_is_taken(count: int, expected: Verdict) -> None:
    rule = Rule([at_most(seeds(1.0), 2.0)], given=[enough(count)])
    assert rule.verdict is expected
    assert len(rule.remarks) == (expected is OPEN)
    assert str(rule) == (
        "It is judged only if there are at least 3 seeds. It holds if “a” is at most 2; otherwise it is wrong."
    )


def test_that_seeds_are_too_few_is_remarked_once() -> None:
    few, enough = less(seeds(1.0), seeds(2.0)), less(seeds(1.0, 1.0, 1.0), seeds(2.0, 2.0, 2.0))
    assert Rule(needs=[enough], wants=[at_most(seeds(1.0), 2.0)]).remarks == []
    for rule in (
        Rule(needs=[few, few]),
        Rule(wants=[few & enough]),
        Rule(halves=(Rule(needs=[enough]), each_of([few], "x"))),
    ):
        assert list(map(str, rule.remarks)) == [
            "with fewer than 3 seeds nothing is called clear: their spread is not known"
        ]


def test_a_rule_in_short_says_what_is_compared_and_nothing_of_chance() -> None:
    higher, lower = Quantity("without", (1.0, 1.1, 1.2)), Quantity("with", (0.5, 0.6, 0.7))
    rule = Rule([greater(higher, lower, Margin(share=0.1))], [clearly_below(lower, 0.1).or_open], [enough(3)])
    assert rule.brief == (
        "It holds at least in part only if “without” is above “with” by more than 10 %; otherwise it is wrong. "
        "It holds in full only if “with” is below 0.1."
    )
    assert {"spread", "3 seeds"} == {each for each in ("spread", "3 seeds") if each in rule.text}
