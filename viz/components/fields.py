"""Numbers that are typed or drawn with a slider, with a sentence beside them where they cannot be."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz.i18n import _
from viz.said import said

DECADE = (1, 2, 5)


@dataclass(frozen=True)
class Field:
    """A field of numbers from `low` to `high`.

    most: how many numbers it takes. even: they must be. log: the slider goes by 1, 2, 5, 10. changed: called after a
    change. bound: to the address bar, and kept over pages.
    """

    key: str
    label: str
    default: str
    low: float
    high: float
    whole: bool = True
    even: bool = False
    log: bool = False
    most: int = 1
    changed: Callable[[], None] | None = None
    bound: bool = True


def parse(text: str, field: Field) -> list[float]:
    """The numbers of a text, apart by commas, semicolons or spaces, each once.

    Raises:
        ValueError: a sentence that says which of them cannot be, and what can.
    """
    parts = [part for part in re.split(r"[\s,;，；、]+", text.strip()) if part]
    if not parts:
        raise ValueError(_("Write a number."))
    if len(parts) > field.most:
        raise ValueError(_("{count} numbers are too many: at most {most}.").format(count=len(parts), most=field.most))
    return list(dict.fromkeys(_number(part, field) for part in parts))


def _number(part: str, field: Field) -> float:
    if re.fullmatch(r"0\d+", part):
        raise ValueError(_("“{part}” begins with 0: write 10000 without a comma.").format(part=part[:20]))
    try:
        value = float(part.replace("−", "-"))
    except ValueError:
        raise ValueError(_("“{part}” is not a number.").format(part=part[:20])) from None
    if not math.isfinite(value) or not field.low <= value <= field.high:
        sentence = _("{part} is out of range: {low} to {high}.")
        raise ValueError(sentence.format(part=part[:20], low=written(field.low), high=written(field.high)))
    if field.whole and value != int(value):
        raise ValueError(_("{part} is not a whole number.").format(part=part[:20]))
    if field.even and value % 2:
        raise ValueError(_("{part} is odd: a sine is paired with a cosine.").format(part=part[:20]))
    return value


def written(value: float) -> str:
    """A number as it is typed."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:g}"


def number_field(place: DeltaGenerator, field: Field) -> list[float]:
    """The field, its slider, which moves the first number, and what is wrong. Gives no number while something is."""
    place.text_input(
        field.label,
        field.default,
        key=field.key,
        live="250ms",
        bind="query-params" if field.bound else None,
        persist_state="session" if field.bound else None,
        on_change=field.changed,
    )
    try:
        values = parse(str(st.session_state[field.key] or ""), field)
    except ValueError as error:
        style = "color: color-mix(in srgb, #e03131 70%, currentColor); font-size: 0.85rem; margin: 0"
        place.html(f'<p role="alert" style="{style}">{html.escape(said(error))}</p>')
        return []
    _slider(place, field, values[0])
    return values


def _slider(place: DeltaGenerator, field: Field, value: float) -> None:
    key = f"{field.key}_slider"
    steps = sorted({*_steps(field), value})
    st.session_state[key] = value
    options: dict[str, Any] = {"key": key, "label_visibility": "collapsed", "on_change": _slid, "args": (field,)}
    place.select_slider(field.label, steps, format_func=written, **options)


def _steps(field: Field) -> list[float]:
    if field.log:
        lowest, highest = math.floor(math.log10(field.low)), math.ceil(math.log10(field.high))
        every = (part * 10.0**power for power in range(lowest, highest + 1) for part in DECADE)
        return [step for step in every if field.low <= step <= field.high]
    size = 2 if field.even else 1
    count = int((field.high - field.low) // size) + 1
    stride = max(1, count // 512) * size
    return [float(step) for step in range(int(field.low), int(field.high) + 1, stride)]


def _slid(field: Field) -> None:
    """The slider's number takes the place of the first one."""
    parts = [part for part in re.split(r"[\s,;，；、]+", str(st.session_state[field.key])) if part]
    st.session_state[field.key] = ", ".join([written(st.session_state[f"{field.key}_slider"]), *parts[1:]])
    if field.changed:
        field.changed()
