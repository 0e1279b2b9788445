"""One table of options: every field of both dataclasses is in it, and what is drawn from it agrees."""

from __future__ import annotations

import argparse
import dataclasses
import math
from pathlib import Path
from typing import get_args

import jaxtyping
import pytest

from model.cli import options as command_line
from model.network.config import NETWORK_OPTIONS, Position, TransformerConfig
from model.options import Option, field_text
from model.training.settings import TRAINING_OPTIONS, TrainingSettings

OPTIONS = {**NETWORK_OPTIONS, **TRAINING_OPTIONS}
each_option = pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS.keys())


@pytest.fixture
def unchecked(monkeypatch):
    """Without the test run's type checks, which would refuse a wrong type before our own error does."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def test_every_field_is_an_option_but_the_vocabularies():
    fields = [
        field.name for described in (TransformerConfig, TrainingSettings) for field in dataclasses.fields(described)
    ]
    assert [name for name in fields if name not in OPTIONS] == ["source_vocabulary", "target_vocabulary"]
    assert len({option.label for option in OPTIONS.values()}) == len(OPTIONS) == len(fields) - 2


@each_option
def test_an_option_has_words_and_a_range(option):
    assert option.label
    assert option.help
    assert (
        bool(option.choices) + (option.kind is bool) + bool(option.limits) == 1
    )  # one of the three says what it can be
    option.require(option.default)


def made(option: Option, value: object) -> None:
    """A config or settings with this value."""
    if option.name in NETWORK_OPTIONS:
        TransformerConfig(source_vocabulary=9, target_vocabulary=9, **{option.name: value})
    else:
        TrainingSettings(**{option.name: value})


def refused(option: Option) -> list[tuple[object, str]]:
    """Values that the option must not have, and what is said of each."""
    if option.choices:
        return [("odd", f"{option.name} ('odd') must be one of {', '.join(option.choices)}")]
    if option.kind is bool:
        return [(value, f"{option.name} ({value!r}) must be true or false") for value in (0, 1, None, "no")]
    wrong = ["1", True, math.nan] + ([] if option.optional else [None]) + ([2.5] if option.kind is int else [])
    what = "a whole number" if option.kind is int else "a finite number"
    found = [(value, f"{option.name} ({value!r}) must be {what}") for value in wrong]
    step = 1 if option.kind is int else 1e-3
    for value in (
        *(bound - step for bound in (option.low,) if bound is not None),
        *(bound + step for bound in (option.high,) if bound not in (None, math.inf)),
        *(bound for bound in (option.above, option.below) if bound is not None),
    ):
        found.append((value, f"{option.name} ({value}) must be {option.limits}"))
    return found


@pytest.mark.usefixtures("unchecked")
@each_option
def test_an_error_names_the_option_the_value_and_the_rule(option):
    for value, sentence in refused(option):
        with pytest.raises(ValueError) as error:  # noqa: PT011 - its sentence is compared
            made(option, value)
        assert str(error.value) == sentence


def test_ranges_in_words():
    words = {name: str(option.limits) for name, option in OPTIONS.items() if option.limits}
    assert words["d_model"] == "at least 1"
    assert words["dropout"] == "at least 0 and below 1"
    assert words["norm_epsilon"] == words["clip"] == "greater than 0"
    assert words["epochs"] == "between 1 and 10000"
    assert OPTIONS["position"].choices == get_args(Position)
    assert TrainingSettings(clip=math.inf).clip == math.inf


@each_option
def test_the_command_line_has_each_option_with_its_help_and_choices(option):
    parser = argparse.ArgumentParser()
    command_line.add_network_options(parser)
    command_line.add_training_options(parser)
    (action,) = [each for each in parser._actions if each.dest == option.name]
    assert action.option_strings[0] == f"--{option.name.replace('_', '-')}"
    assert action.help.startswith(option.help)
    assert str(option.limits or "") in action.help
    assert action.choices == (option.choices or None)
    value = option.default if option.default is not None else 7
    words = [action.option_strings[not value]] if option.kind is bool else [action.option_strings[0], str(value)]
    if option.former:
        assert action.option_strings[1] == f"--{option.former.replace('_', '-')}"
    given = parser.parse_args(words)
    assert command_line.network_options(given) | dataclasses.asdict(command_line.settings_of(given)) == (
        dataclasses.asdict(TrainingSettings()) | {option.name: value}
    )


def test_the_page_is_written_from_the_table():
    assert Path("docs/options.md").read_text(encoding="utf-8") == command_line.page(), (
        "python -m model.cli.options > docs/options.md"
    )
    assert all(f"\n| `{name}` | {option.label} |" in command_line.page() for name, option in OPTIONS.items())


@each_option
def test_a_value_comes_back_from_its_field(option):
    assert option.parse(field_text(option.default)) == option.default
    assert option.unchanged(option.default, option.default)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("rate", "nan", "rate (“nan”) must be a number"),
        ("rate", "fast", "rate (“fast”) must be a number"),
        ("d_ff", "2.5", "d_ff (“2.5”) must be a whole number"),
        ("d_ff", "", "d_ff (“”) must be a whole number"),
        ("d_ff", "1e400", "d_ff (“1e400”) must be a whole number"),
        ("steps", "7" * 330, "steps (“77777777777777777777”) must be at most 1,000,000,000,000,000"),
        ("seed", "9" * 16, "seed (“9999999999999999”) must be at most 1,000,000,000,000,000"),
    ],
)
def test_what_is_typed_and_is_no_number_is_refused(name, text, sentence):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - its sentence is compared
        OPTIONS[name].parse(text)
    assert str(error.value) == sentence


def test_numbers_are_read_as_they_are_typed():
    assert OPTIONS["d_ff"].parse(" 1,024 ") == 1024
    assert OPTIONS["seed"].parse("−3") == -3
    assert OPTIONS["window"].parse("") is None
    assert OPTIONS["clip"].parse("inf") == math.inf
    assert OPTIONS["rate"].unchanged(0.000123457, 0.000123456789)
    assert not OPTIONS["rate"].unchanged(0.000124, 0.000123456789)
