"""How the numbers of LayerNorm's forms are written."""

from __future__ import annotations

import pandas as pd

from viz.pages.residual import norm_forms


def test_only_divisors_have_nine_digits_whatever_the_columns_are_called(monkeypatch):
    words = {"divides by": "gap", "largest difference": "largest gap", "{name}, pinned": "{name} (pinned)"}
    monkeypatch.setattr(norm_forms, "_", lambda text: words.get(text, text))
    names = ["gap", "largest gap", "gap (pinned)", "largest gap (pinned)"]
    written = norm_forms.digits(pd.DataFrame(columns=["form", *names]))
    assert written == dict(zip(names, ["{:.9g}", "{:.3g}"] * 2, strict=True))
