"""The names of the pages' controls in the address bar."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from tests.app_reading import opened
from viz.pages.attention import page as attention
from viz.pages.feed_forward import page as feed_forward
from viz.pages.map import page as map
from viz.pages.masks import page as masks
from viz.pages.positions.laboratory import EXPERIMENTS
from viz.pages.predictions import page as predictions
from viz.pages.residual import page as residual
from viz.pages.training import page as training

SHARED = {"stack"}  # means the same on each page that has it


def test_no_two_pages_give_one_name_to_different_choices():
    kinds = [masks.Part, residual.Part, feed_forward.Part, predictions.Part, map.Part, attention.Part, attention.Choice]
    kinds.append(training.Part)
    names = Counter(name.value for kind in kinds if issubclass(kind, StrEnum) for name in kind)
    names.update(["part", "experiment", "vectors", "place", *EXPERIMENTS["any_length"].settable])  # of positions
    assert {name for name, count in names.items() if count > 1} == SHARED


def test_a_choice_outlives_a_look_at_another_page():
    app = opened(units_order="number")
    for page in ("feed_forward", "attention", "feed_forward"):
        app.switch_page(f"viz/pages/{page}/page.py").run()
    assert app.segmented_control(key="units_order").value == "number"
