"""What is said of the demonstration's goal while a thread measures it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from model.training.live.runs import Curves
from viz.pages.training.demonstration import progress_words


def demonstrated(measured: dict[int, float], seen: float | None, begun: bool = True, left: float | None = None) -> Any:
    """A training after step 30. measured: by step, as its curve has it; seen: the newest, as its snapshot has it."""
    curves = Curves(["loss"])
    for step, share in measured.items():
        curves.add(step, {"exact match": share})
    return SimpleNamespace(
        snapshot=SimpleNamespace(step=30, total=1500, exact_match=seen, seconds_left=left, status="running"),
        current=SimpleNamespace(curves=curves) if begun else None,
        settings=SimpleNamespace(validate_every=50),
    )


@pytest.mark.parametrize("seen", [None, 0.5])
@pytest.mark.parametrize("begun", [True, False])
def test_nothing_is_said_of_what_no_curve_has_yet(seen: float | None, begun: bool) -> None:
    words = progress_words(demonstrated({}, seen, begun, 42.4))
    assert words == "step 30 of 1,500 · 42 s left · unseen words are tried every 50 steps"
    preparing = demonstrated({}, None, begun=False)
    preparing.snapshot.total = 0  # nobody knows yet
    assert progress_words(preparing) == "preparing the data …"


def test_the_newest_measurement_is_said_and_the_step_that_reached_the_goal() -> None:
    words = progress_words(demonstrated({10: 0.5, 20: 0.75}, 0.75))
    share = "of unseen words were written backwards without a mistake after step 20"
    assert words == f"step 30 of 1,500 · 75.0\xa0%\xa0{share}; the goal is 99\xa0%"
    reached = progress_words(demonstrated({10: 1.0, 20: 0.995}, 0.995))
    assert reached.endswith(f"99.5\xa0%\xa0{share}; the goal of 99\xa0% was reached after step 10")
