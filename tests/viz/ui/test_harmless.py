"""Tables that leave for a spreadsheet: texts that it would compute are made texts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from viz.ui.parts import harmless


@pytest.mark.parametrize("text", ["=1+1", "+1", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_text_that_begins_like_a_formula_is_kept_from_being_one(text):
    made = harmless(pd.DataFrame({"token": [text, "plain", None, "a=b"], "value": [-1.5, 0.0, np.nan, 2.0]}))
    assert made["token"].tolist()[:2] == [f"'{text}", "plain"]
    assert made["token"][3] == "a=b"
    assert made["value"][0] == -1.5


def test_a_table_of_numbers_is_the_same():
    frame = pd.DataFrame({"value": [-1.0, 2.0]})
    assert harmless(frame) is frame
