"""What a field of numbers takes, and what it says of what it does not."""

import re

import pytest

from viz.ui.fields import Field, _steps, parse, written

FIELD = Field("bases", "base", "", 1, 1e6, whole=False, most=3)
WHOLE = Field("widths", "d_model", "", 2, 64, even=True)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("10000, 1000", [10_000, 1000]),
        (" 10000;20，30 ", [10_000, 20, 30]),
        ("1e3 1000", [1000]),
        ("1.5", [1.5]),
    ],
)
def test_numbers_are_read_each_once(text, numbers):
    assert parse(text, FIELD) == numbers


@pytest.mark.parametrize(
    ("field", "text", "sentence"),
    [
        (FIELD, "", "Write a number."),
        (FIELD, "ten", "“ten” is not a number."),
        (FIELD, "10,000", "“000” begins with 0: write 10000 without a comma."),
        (FIELD, "1 2 3 4", "4 numbers are too many: at most 3."),
        (FIELD, "0", "0 is out of range: 1 to 1000000."),
        (FIELD, "nan", "nan is out of range"),
        (FIELD, "inf", "inf is out of range"),
        (FIELD, "-5", "-5 is out of range"),
        (WHOLE, "2.5", "2.5 is not a whole number."),
        (WHOLE, "7", "7 is odd: a sine is paired with a cosine."),
        (WHOLE, "<script>", "“<script>” is not a number."),
    ],
)
def test_what_cannot_be_is_a_sentence(field, text, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        parse(text, field)


def test_numbers_are_written_as_they_are_typed():
    assert [written(value) for value in (10_000.0, 0.001, 1e12, 2.5)] == ["10000", "0.001", "1000000000000", "2.5"]


@pytest.mark.parametrize(
    ("low", "high", "count", "some"),
    [
        (1e-2, 10, 10, {0.05, 1.0}),
        (-1e3, -1, 10, {-200.0, -5.0}),
        (0.0, 10.0, 101, {0.0, 2.5}),
        (-1.0, 1.0, 101, {0.5}),
    ],
)
def test_a_slider_goes_through_its_range_whatever_the_signs(low, high, count, some):
    steps = _steps(Field("x", "x", "", low, high, whole=False, log=True))
    assert steps == sorted(steps)
    assert (steps[0], steps[-1], len(steps)) == (low, high, count)
    assert some <= set(steps)
