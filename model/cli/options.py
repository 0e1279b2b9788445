"""Command-line arguments made from the tables of options, and docs/options.md: `python -m model.cli.options`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from model.network.config import NETWORK_OPTIONS
from model.options import Option
from model.training.settings import TRAINING_OPTIONS, TrainingSettings

PAGE = """\
# Options

Every option of a network and of a training: on the command line (`python -m model train --d-model 64`), on the form of
the page Training, in `TransformerConfig(d_model=64)` and `TrainingSettings(rate=1e-3)`. `python -m model.cli.options`
writes this page from the fields of these two.
"""
HEAD = "| option | on the form | values | default | what it is |\n| --- | --- | --- | --- | --- |"


def add_network_options(group: Any) -> None:
    """Add an argument for each option of the network; those not given are those of the preset."""
    for option in NETWORK_OPTIONS.values():
        _add(group, option, "")


def add_training_options(group: Any) -> None:
    """Add an argument for each setting; those not given are missing from the namespace."""
    for option in TRAINING_OPTIONS.values():
        _add(group, option, f" (default: {option.default})")


def settings_of(options: argparse.Namespace) -> TrainingSettings:
    """Settings with the given options.

    Raises:
        ValueError: a setting is out of its range.
    """
    return TrainingSettings(**_given(options, TRAINING_OPTIONS))


def network_options(options: argparse.Namespace) -> dict[str, Any]:
    """Given options of the network by field."""
    return _given(options, NETWORK_OPTIONS)


def _given(options: argparse.Namespace, table: Mapping[str, Option]) -> dict[str, Any]:
    return {name: getattr(options, name) for name in table if hasattr(options, name)}


def _add(group: Any, option: Option, more: str) -> None:
    flags, default = ["--" + name.replace("_", "-") for name in (option.name, option.former) if name], argparse.SUPPRESS
    text = option.help + (f"; {option.limits}" if option.limits else "") + more
    text += f"; {flags[1]} is its old name" if option.former else ""
    if option.kind is bool:
        group.add_argument(*flags, action=argparse.BooleanOptionalAction, default=default, help=text)
    else:
        group.add_argument(*flags, type=option.kind, default=default, choices=option.choices or None, help=text)


def page() -> str:
    """Text of docs/options.md."""
    parts = [PAGE]
    for title, table in (("The network", NETWORK_OPTIONS), ("The training", TRAINING_OPTIONS)):
        rows = [
            f"| `{option.name}` | {option.label} | {_values(option)} | {_default(option)} | {option.help} |"
            for option in table.values()
        ]
        parts.append("\n".join([f"## {title}", "", HEAD, *rows, ""]))
    return "\n".join(parts)


def _values(option: Option) -> str:
    if option.choices:
        return ", ".join(f"`{choice}`" for choice in option.choices)
    return "on, off" if option.kind is bool else f"{option.limits}{', or none' if option.optional else ''}"


def _default(option: Option) -> str:
    if option.default is None:
        return "none"
    return ("on" if option.default else "off") if option.kind is bool else f"`{option.default}`"


if __name__ == "__main__":
    print(page(), end="")
