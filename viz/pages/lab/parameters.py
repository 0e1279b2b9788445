"""The fields of an experiment's parameters: numbers, words, texts, tables, and how many seeds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
import streamlit as st

from model.experiments.experiment import Experiment, Parameter
from model.experiments.rule import SEEDS
from viz.i18n.catalogue import _
from viz.i18n.format import literal
from viz.pages.lab.outcome import words
from viz.ui.fields import NARROW, Field, number_field, written

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

MOST, LAST = 9, 9999  # seeds at most; the largest that can be the first
IN_A_ROW = 5  # fields
LONGEST = 200_000  # letters of a text with many lines
NAME = "^[^:;]+$"  # of a row of a table


def fields(
    key: str, experiment: Experiment, bound: bool = False
) -> tuple[tuple[tuple[str, Any], ...], tuple[int, ...]] | None:
    """Values of its fields, and the seeds; None while one holds nothing that can be. key: beginning of their keys.

    bound: numbers are in the address.
    """
    parameters = [*experiment.parameters]
    if experiment.seeded:
        parameters += [
            Parameter("seeds", _("seeds"), SEEDS, 1, MOST),
            Parameter("seed", _("starting at seed"), 1, 1, LAST),
        ]
    if not parameters:
        return (), (1,)
    st.html(NARROW)
    wide = [each for each in parameters if each.long or each.columns]
    narrow = [each for each in parameters if each not in wide]
    given: dict[str, Any] = {}
    for first in range(0, len(wide), 2):
        for each, place in zip(wide[first : first + 2], st.columns(2, gap="medium"), strict=False):
            given[each.name] = wide_field(place, key, each)
    together, in_a_row = st.container(key=f"fields_{key}"), even(len(narrow))
    for first in range(0, len(narrow), in_a_row):
        places = together.columns(in_a_row if len(narrow) > IN_A_ROW else IN_A_ROW, gap="small")
        for each, place in zip(narrow[first : first + in_a_row], places, strict=False):
            given[each.name] = field(place, key, each, bound)
    if any(value is None for value in given.values()):
        return None
    first, count = int(given.pop("seed", 1)), int(given.pop("seeds", 1))
    return tuple(given.items()), tuple(range(first, first + count))


def even(count: int) -> int:
    """Fields in a row, so that the last row is about as long as the others."""
    rows = max(1, math.ceil(count / IN_A_ROW))
    return max(1, math.ceil(count / rows))


def wide_field(place: DeltaGenerator, key: str, parameter: Parameter) -> str:
    """The text of a parameter that is typed on many lines, or as a table."""
    name, label, default = f"{key}_{parameter.name}", literal(words(parameter.label)), str(parameter.default)
    if not parameter.columns:
        typed = place.text_area(label, default, 120, LONGEST, name, placeholder=parameter.hint, persist_state="session")
        return typed or ""
    base, text = f"{name}_base", f"{name}_text"
    if name not in st.session_state:  # nothing is edited yet, or another page was shown meanwhile
        st.session_state[base] = table_of(st.session_state.get(text, default), len(parameter.columns))
    config: dict[Any, Any] = {
        str(column): st.column_config.NumberColumn(words(each)) for column, each in enumerate(parameter.columns)
    }
    config["0"] = st.column_config.TextColumn(words(parameter.columns[0]), validate=NAME)
    several: Literal["dynamic", "fixed"] = "dynamic" if ";" in default else "fixed"
    place.markdown(label)
    options: dict[str, Any] = {"hide_index": True, "column_config": config, "num_rows": several}
    edited = place.data_editor(st.session_state[base], key=name, **options)
    st.session_state[text] = text_of_table(edited)
    return str(st.session_state[text])


def table_of(text: str, count: int) -> pd.DataFrame:
    """The rows of "name: number, number; …": names in column "0", numbers in the others. count: of columns."""
    rows: list[list[str | float]] = []
    for line in filter(str.strip, text.split(";")):
        name, _colon, numbers = line.partition(":")
        rows.append([name.strip(), *(float(number) for number in numbers.split(","))])
    return pd.DataFrame(rows, columns=[str(column) for column in range(count)])


def text_of_table(table: pd.DataFrame) -> str:
    """The text that a table stands for; of rows without a name nothing, and 0 in the place of a missing number."""
    rows = table[table["0"].notna()].fillna(0.0).itertuples(index=False)
    return "; ".join(f"{name}: {', '.join(map(written, numbers))}" for name, *numbers in rows)


def field(place: DeltaGenerator, key: str, parameter: Parameter, bound: bool) -> Any:
    """The value of a parameter's field; None where it holds none."""
    name, label = f"{key}_{parameter.name}", literal(words(parameter.label))
    if isinstance(parameter.default, str) and parameter.choices:
        return place.selectbox(
            label, parameter.choices, parameter.choices.index(parameter.default), key=name, persist_state="session"
        )
    if isinstance(parameter.default, str):
        return place.text_input(label, parameter.default, key=name, persist_state="session")
    whole = isinstance(parameter.default, int)
    log = parameter.low > 0 and parameter.high / parameter.low > 100
    limits = Field(
        name,
        label,
        written(parameter.default),
        parameter.low,
        parameter.high,
        whole=whole,
        log=log or not whole,
        bound=bound,
    )
    values = number_field(place, limits)
    return type(parameter.default)(values[0]) if values else None
