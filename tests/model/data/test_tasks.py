"""Built-in tasks: each rule against Python's own functions, distinct pairs, and the accuracy of what is written."""

import datetime
import itertools
import random
from collections import Counter
from string import ascii_lowercase

import pytest

from model.data.pairs import Pair
from model.data.tasks import (
    BRACKETS,
    FIRST_YEAR,
    LAST_YEAR,
    LONGEST,
    TASKS,
    balanced_count,
    date_count,
    exact_match,
    find_task,
    judge_brackets,
    lengths,
    solve_date,
    task_pairs,
)

NAMES = tuple(TASKS)


def is_balanced(text: str) -> bool:
    """By a stack."""
    waiting = []
    for character in text:
        if character in "([{":
            waiting.append({"(": ")", "[": "]", "{": "}"}[character])
        elif not waiting or waiting.pop() != character:
            return False
    return not waiting


def iso_date(text: str) -> str:
    """By datetime, whose %b and %B are English names in the C locale that Python starts with."""
    for form in ("%B %d, %Y", "%d %B %Y", "%d %b %Y", "%d/%m/%Y", "%Y年%m月%d日"):
        try:
            return datetime.datetime.strptime(text, form).date().isoformat()
        except ValueError:
            continue
    raise AssertionError(text)


RULES = {
    "copy": lambda text: text,
    "reverse": lambda text: "".join(reversed(text)),
    "sort": lambda text: "".join(sorted(text)),
    "caesar": lambda text: "".join((ascii_lowercase * 2)[ascii_lowercase.index(c) + int(text[0])] for c in text[1:]),
    "addition": lambda text: str(sum(int(number) for number in text.split("+"))),
    "brackets": lambda text: "yes" if is_balanced(text) else "no",
    "dates": iso_date,
}


@pytest.mark.parametrize("name", NAMES)
def test_targets_and_solver_follow_the_rule(name):
    for source, target in task_pairs(name, 300, TASKS[name].lengths, 1):
        assert target == RULES[name](source) == TASKS[name].solve(source)


@pytest.mark.parametrize("name", NAMES)
def test_sources_are_distinct_and_of_every_length_that_is_asked(name):
    asked = TASKS[name].lengths[1:4]
    pairs = task_pairs(name, 120, asked, 1)
    assert len({source for source, _ in pairs}) == len(pairs) == 120
    assert Counter(len(source) for source, _ in pairs).keys() == set(asked)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_pairs(name):
    first, again, other = (task_pairs(name, 50, TASKS[name].lengths, seed) for seed in (3, 3, 4))
    assert first == again != other


@pytest.mark.parametrize("name", NAMES)
def test_longest_sources_are_solved(name):
    length = max(lengths()) if name == "dates" else 1000
    ((source, target),) = task_pairs(name, 1, [length], 0)
    assert len(source) == length
    assert target == RULES[name](source) == TASKS[name].solve(source)


def additions(length: int) -> set[str]:
    numbers = [str(number) for number in range(10 ** (length - 2))]
    return {f"{a}+{b}" for a in numbers for b in numbers if len(a) + len(b) + 1 == length}


def balanced(length: int) -> set[str]:
    return {text for text in map("".join, itertools.product(BRACKETS, repeat=length)) if is_balanced(text)}


@pytest.mark.parametrize(
    ("name", "length", "sources"),
    [
        ("copy", 1, set("abcdefghijklmnopqrstuvwxyz")),
        ("sort", 2, {f"{number:02}" for number in range(100)}),
        ("caesar", 2, {f"{digit}{letter}" for digit in range(10) for letter in ascii_lowercase}),
        ("addition", 3, additions(3)),
        ("addition", 4, additions(4)),
    ],
)
def test_every_source_can_be_had_and_not_one_more(name, length, sources):
    pairs = task_pairs(name, len(sources), [length], 0)
    assert {source for source, _ in pairs} == sources
    with pytest.raises(ValueError, match=rf"at most {len(sources):,}: the task {name} has no more distinct pairs"):
        task_pairs(name, len(sources) + 1, [length, length], 0)


def test_every_balanced_string_can_be_had_with_as_many_near_misses():
    pairs = task_pairs("brackets", 2 * (3 + 18), [2, 4], 0)
    assert {source for source, target in pairs if target == "yes"} == balanced(2) | balanced(4)
    assert [balanced_count(length) for length in (1, 2, 4, 5, 6)] == [0, 3, 18, 0, len(balanced(6))]
    assert Counter(target for _, target in pairs) == {"yes": 21, "no": 21}


def test_unbalanced_brackets_are_one_slip_away_and_counting_finds_but_half_of_them():
    wrong = [source for source, target in task_pairs("brackets", 200, [6], 0) if target == "no"]
    right = balanced(6)
    same_counts = 0
    for source in wrong:
        nearest = min(sum(a != b for a, b in zip(source, other, strict=True)) for other in right)
        assert nearest in (1, 2)
        same_counts += all(source.count(pair[0]) == source.count(pair[1]) for pair in ("()", "[]", "{}"))
    assert 25 <= same_counts <= 75


def test_balanced_strings_are_drawn_evenly():
    generator = random.Random(0)
    drawn = Counter(TASKS["brackets"].draw(4, generator) for _ in range(7200))
    counts = [count for (_, answer), count in drawn.items() if answer == "yes"]
    assert len(counts) == 18
    assert sum((count - 200) ** 2 / 200 for count in counts) < 40.8  # chi-squared, 17 degrees of freedom: p = 0.001


def test_all_days_of_the_calendar_and_no_other():
    first, last = datetime.date(FIRST_YEAR, 1, 1), datetime.date(LAST_YEAR, 12, 31)
    days = (last - first).days + 1
    in_may = 31 * (LAST_YEAR - FIRST_YEAR + 1)  # "4 May 2021" in two of the five formats
    assert sum(date_count(length) for length in range(30)) == 5 * days - in_may
    assert solve_date("29 Feb 2000") == "2000-02-29"
    assert solve_date("04/03/2021") == solve_date("March 4, 2021") == solve_date("2021年3月4日") == "2021-03-04"


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("copy", "aB", "of the characters a to z only"),
        ("sort", "", "of the characters 0 to 9 only"),
        ("caesar", "3", "one digit and letters from a to z after it"),
        ("caesar", "abc", "one digit and letters from a to z after it"),
        ("addition", "1+2+3", "two numbers with a"),
        ("addition", "1+", "two numbers with a"),
        ("addition", "1+²", "two numbers with a"),
        ("brackets", "(x)", "of the brackets"),
        ("dates", "29 Feb 1900", "is no date of the calendar: day"),
        ("dates", "3 Foo 2021", "is no date of the calendar: no month is called Foo"),
        ("dates", "2021-03-04", "must be a date as"),
    ],
)
def test_a_source_of_no_task_is_refused(name, source, message):
    with pytest.raises(ValueError, match=message):
        exact_match(name, [source], [""])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cpoy", 1, [3], 0), r"task \('cpoy'\) must be one of copy, reverse, sort"),
        (("copy", 0, [3], 0), r"count \(0\) must be at least 1"),
        (("copy", 1, [3, 0], 0), r"length \(0\) must be from 1 to 1,000"),
        (("copy", 1, [1001], 0), r"length \(1001\) must be"),
        (("copy", 1, [], 0), "no length is given"),
        (("brackets", 1, [4, 5], 0), "no sources of length 5: usual are 4, 6"),
        (("addition", 1, [2], 0), "no sources of length 2: usual are 3, 4"),
        (("dates", 1, [8], 0), "no sources of length 8: usual are 9, 10"),
    ],
)
def test_what_cannot_be_made_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        task_pairs(*arguments)


def test_exact_match_is_the_share_of_right_targets():
    assert exact_match("addition", ["1+2", "9+9", "10+5", "0+0"], ["3", "18 ", "15", ""]) == 0.5
    assert exact_match("brackets", ["()", "(]"], ["yes", "no"]) == 1
    for written in (["3"], []):
        with pytest.raises(ValueError, match=rf"{len(written)} written targets for 2 sources"):
            exact_match("addition", ["1+2", "2+2"], written)
    with pytest.raises(ValueError, match="0 written targets for 0 sources"):
        exact_match("addition", [], [])


@pytest.mark.parametrize("task", TASKS.values(), ids=NAMES)
def test_what_a_task_says_of_its_texts_is_so(task):
    pairs = task_pairs(task.name, 600, task.lengths[2:], 5)
    sources, targets = ({letter for text in texts for letter in text} for texts in zip(*pairs, strict=True))
    assert task.one_alphabet == (sources == targets)
    assert task.any_length == all(task.sources(length) for length in range(1, LONGEST + 1))


def test_a_task_is_found_by_its_name_and_says_what_it_asks():
    for name, task in TASKS.items():
        assert find_task(name) is task
        assert task.name == name
        assert task.description.endswith(".")
    assert isinstance(task_pairs("sort", 1, [2], 0)[0], Pair)
    assert [judge_brackets(text) for text in ("([]{})", "([)]", ")(")] == ["yes", "no", "no"]
