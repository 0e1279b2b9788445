"""Fields of parameters: how many in a row, and those that are tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from model.experiments.claims.recommendation import read_items
from model.experiments.index import experiments
from viz.pages.lab.parameters import IN_A_ROW, even, table_of, text_of_table


@pytest.mark.parametrize(("count", "in_a_row"), [(1, 1), (5, 5), (6, 3), (8, 4), (10, 5), (11, 4), (0, 1)])
def test_rows_of_fields_are_about_as_long(count: int, in_a_row: int) -> None:
    assert even(count) == in_a_row <= IN_A_ROW


@pytest.mark.parametrize("text", ["", "cake: 1, 0.3, 0; honey: 0.9, 0.1, -2"])
def test_a_table_is_read_and_written_as_the_same_text(text: str) -> None:
    table = table_of(text, 4)
    assert list(table.columns) == ["0", "1", "2", "3"]
    assert text_of_table(table) == text


def test_rows_without_a_name_are_nothing_and_missing_numbers_0() -> None:
    table = pd.DataFrame([["cake", 1.0, np.nan], [None, 2.0, 3.0]], columns=["0", "1", "2"])
    assert text_of_table(table) == "cake: 1, 0"


def test_what_the_recommendation_begins_with_is_the_table_that_it_reads() -> None:
    history, candidate, *_others = experiments()["recommendation"].parameters
    for each in (history, candidate):
        items = read_items(str(each.default))
        table = table_of(str(each.default), len(each.columns))
        assert [(item.name, *item.features) for item in items] == list(table.itertuples(index=False, name=None))
