"""Numbers that are typed or drawn with a slider, with a sentence beside them where they cannot be."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.options import Option, field_text
from viz.figures.colours import WRONG
from viz.i18n import catalogue
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.state.session import follow_language, take_pending

DECADE = (1, 2, 5)
PARTS = 100  # of a slider that goes by equal steps of no whole numbers
MOST_LETTERS = 1000  # of a field
REFUSED = f"color: color-mix(in srgb, {WRONG} 70%, currentColor); font-size: 0.85rem; margin: 0"


@dataclass(frozen=True)
class Field:
    """A field of numbers from `low` to `high`.

    most: how many numbers it takes. even: they must be. log: the slider goes by 1, 2, 5, 10, where all numbers have one
    sign. changed: called after a change. bound: to the address bar, and kept over pages.
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
    take_pending(field.key, field.default)
    place.text_input(
        field.label if field.most == 1 else _("{name} (several: a, b)").format(name=field.label),
        field.default,
        key=field.key,
        live="250ms",
        max_chars=MOST_LETTERS,
        placeholder=None if field.most == 1 else "1, 2",
        bind="query-params" if field.bound else None,
        persist_state="session" if field.bound else None,
        on_change=field.changed,
    )
    try:
        values = parse(str(st.session_state[field.key] or ""), field)
    except ValueError as error:
        place.html(f'<p role="alert" style="{REFUSED}">{html.escape(translate_error(error))}</p>')
        return []
    _slider(place, field, values)
    return values


def _slider(place: DeltaGenerator, field: Field, values: Sequence[float]) -> None:
    key = f"{field.key}_slider"
    steps = sorted({*_steps(field), values[0]})
    st.session_state[key] = values[0]
    options: dict[str, Any] = {"key": key, "label_visibility": "collapsed", "on_change": _slid, "args": (field,)}
    place.select_slider(field.label, steps, format_func=written if len(values) == 1 else _first, **options)


def _first(value: float) -> str:
    """The number that the slider moves, where others stand beside it."""
    return _("the first: {number}").format(number=written(value))


def _steps(field: Field) -> list[float]:
    if field.log and field.low > 0:
        return _decades(field.low, field.high)
    if field.log and field.high < 0:
        return [-step for step in reversed(_decades(-field.high, -field.low))]
    if not field.whole:
        return [float(field.low + (field.high - field.low) * part / PARTS) for part in range(PARTS + 1)]
    size = 2 if field.even else 1
    count = int((field.high - field.low) // size) + 1
    stride = max(1, count // 512) * size
    return [float(step) for step in range(int(field.low), int(field.high) + 1, stride)]


def _decades(low: float, high: float) -> list[float]:
    lowest, highest = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = (part * 10.0**power for power in range(lowest, highest + 1) for part in DECADE)
    return [step for step in every if low <= step <= high]


def _slid(field: Field) -> None:
    """The slider's number takes the place of the first one."""
    parts = [part for part in re.split(r"[\s,;，；、]+", str(st.session_state[field.key])) if part]
    st.session_state[field.key] = ", ".join([written(st.session_state[f"{field.key}_slider"]), *parts[1:]])
    if field.changed:
        field.changed()


# Fields for the options of a config or of a training, each with what is wrong with it beneath.

# On a tablet a form has the whole width; on a phone two fields stand side by side, or it would have no end.
NARROW = """<style>
@media (max-width: 1000px) {
  [data-testid="stHorizontalBlock"]:has([class*="st-key-fields_"]) { flex-wrap: wrap; }
  [data-testid="stColumn"]:has([class*="st-key-fields_"]) { min-width: 100%; }
}
@media (max-width: 640px) {
  [class*="st-key-fields_"] { display: grid; grid-template-columns: 1fr 1fr; align-items: start; }
  [class*="st-key-fields_"] [data-testid="stLayoutWrapper"] { display: contents; }
  [class*="st-key-fields_"] [data-testid="stHorizontalBlock"] { display: contents; }
  [class*="st-key-fields_"] [data-testid="stColumn"] { min-width: 0; width: auto; }
  [class*="st-key-fields_"] [data-testid="stColumn"]:not(:has([data-testid="stElementContainer"])) { display: none; }
}</style>"""


def choice_titles(option: Option) -> dict[str, str]:
    """Titles of an option's choices in the page's language; a name of the field stays as it is."""
    words = {"cosine": _("cosine"), "inverse-sqrt": _("inverse-sqrt"), "constant": _("constant")}
    return {choice: words.get(choice, choice) for choice in option.choices}


@dataclass(frozen=True)
class Form:
    """Fields of the options `described`, kept in the session under `prefix`; changed: called with a name after."""

    prefix: str
    described: Mapping[str, Option]
    changed: Callable[[str], None] | None = None

    def key(self, name: str) -> str:
        return f"{self.prefix}_{name}"

    def put(self, values: Mapping[str, Any]) -> None:
        """Write values into the fields; only before they are drawn, or in a callback."""
        for name, value in values.items():
            if name in self.described:
                st.session_state[self.key(name)] = self._last[name] = field_text(value)

    def refill(self) -> None:
        """Give fields that must hold something what they held before, where they are empty; before they are drawn.

        A browser that lags behind runs in quick succession sends nothing for a field that it draws anew.
        """
        for name, option in self.described.items():
            value = st.session_state.get(self.key(name))
            if value not in ("", None):
                with suppress(ValueError):
                    option.parse(value)
                    self._last[name] = value
            elif name in self._last and not option.optional and not option.choices:
                st.session_state[self.key(name)] = self._last[name]

    @property
    def _last(self) -> dict[str, Any]:
        """Last value of each field that could be read."""
        held: dict[str, Any] = st.session_state.setdefault(f"{self.prefix}_last", {})
        return held

    def holds(self) -> bool:
        """True if values have been put in this session."""
        return all(self.key(name) in st.session_state for name in self.described)

    def read(self, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
        """The values of these fields, and what is wrong with those that have none, by name."""
        values, wrong = {}, {}
        for name in names:
            try:
                value = self.described[name].parse(st.session_state[self.key(name)])
                self.described[name].require(value)
                values[name] = value
            except ValueError as error:
                wrong[name] = translate_error(error)
        return values, wrong

    def draw(
        self,
        place: DeltaGenerator,
        names: Sequence[str],
        wrong: Mapping[str, str],
        columns: int = 3,
        fixed: bool = False,
    ) -> None:
        """The fields in rows. fixed: they cannot be changed now."""
        place.html(NARROW)
        form = place.container(key=f"fields_{self.prefix}_{names[0]}") if names else place
        for first in range(0, len(names), columns):
            row = form.columns(columns, gap="small")
            for cell, name in zip(row, names[first : first + columns], strict=False):
                self._field(cell, self.described[name], fixed)
                if name in wrong:
                    cell.html(f'<p role="alert" style="{REFUSED}">{html.escape(wrong[name])}</p>')

    def _field(self, place: DeltaGenerator, option: Option, fixed: bool) -> None:
        label, limits = _(option.label), f" ({translate_error(option.limits)})" if option.limits else ""
        more: dict[str, Any] = {
            "key": self.key(option.name),
            "help": f"`{option.name}`: {_(option.help)}{limits}",
            "disabled": fixed,
            "persist_state": "session",
            "on_change": self.changed,
            "args": (option.name,),
        }
        if option.kind is bool:
            place.toggle(label, **more)
        elif option.choices:
            follow_language(self.key(option.name))
            place.selectbox(label, option.choices, format_func=choice_titles(option).__getitem__, **more)
        else:
            place.text_input(label, max_chars=MOST_LETTERS, **more)


# The field for files, in the language of the page.

BUTTON = '[data-testid="stFileUploaderDropzone"] button p'


def in_words() -> None:
    """Streamlit's field for files says its one word in English: this puts ours in its place."""
    if catalogue.language() != "en":
        word = _("Upload")
        st.html(
            f'<style>{BUTTON} {{ font-size: 0; }} {BUTTON}::after {{ content: "{word}"; font-size: 1rem; }}</style>'
        )
