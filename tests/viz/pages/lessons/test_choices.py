"""Choices that a lesson's address may have are those of the pages."""

from __future__ import annotations

from typing import get_args

import pytest

from model.analysis.head_metrics import METRICS
from model.capture.trace import AttentionKind
from model.lessons.choices import CHOICES, require_choices
from model.lessons.state import CONTROLS, State
from model.message import InputError
from viz.pages.attention import controls
from viz.pages.attention import page as attention
from viz.pages.checkpoints import page as checkpoints
from viz.pages.feed_forward import experts
from viz.pages.feed_forward import page as feed_forward
from viz.pages.lab import page as lab
from viz.pages.lab.worked_example import STEPS
from viz.pages.lessons.page_choices import PLACED
from viz.pages.lessons.strip import HIDDEN
from viz.pages.masks import page as masks
from viz.pages.positions import laboratory
from viz.pages.positions import page as positions
from viz.pages.predictions import logit_lens
from viz.pages.predictions import page as predictions
from viz.pages.residual import batch_norm, dropout, gradients, stream
from viz.pages.residual import page as residual
from viz.pages.training import curves, form
from viz.pages.training import page as training

OF_PAGES = {
    "attention": get_args(AttentionKind)[:3],
    "scale": controls.SCALES,
    "quantity": controls.Quantity,
    "metric": METRICS,
    "order": controls.ORDERS,
    "combine": controls.COMBINED,
    "metric_across": controls.metrics_of("cross"),
    "order_across": controls.ORDERS,
    "combine_across": controls.COMBINED[:-1],
    "draw": controls.DRAWINGS,
    "below": controls.BELOW,
    "bertviz": attention.VIEWS,
    "scope": masks.SCOPES,
    "mask_experiment": masks.EXPERIMENTS,
    "part": positions.SECTIONS,
    "experiment": laboratory.EXPERIMENTS,
    "residual_view": residual.RESIDUAL_VIEWS,
    "stream": stream.QUANTITIES,
    "moment": batch_norm.MOMENTS,
    "masks": dropout.MASKS,
    "gradient_of": gradients.QUANTITIES,
    "units_order": feed_forward.ORDERS,
    "routed": experts.ROUTED,
    "view": predictions.VIEWS,
    "shade": logit_lens.SHADES,
    "beam": predictions.BEAMS,
    "training_part": training.SEGMENTS,
    "begin": form.WAYS,
    curves.GROUP: curves.GROUPS,
    curves.SMOOTHING: curves.SMOOTHINGS,
    curves.AXES: curves.SCALES,
    "lab_part": lab.SECTIONS,
    "arithmetic": lab.ARITHMETIC,
    "example_round": STEPS,
    "checkpoints_part": checkpoints.SEGMENTS,
}


@pytest.mark.parametrize("name", OF_PAGES)
def test_the_values_of_a_choice_are_those_of_its_page(name):
    assert set(CHOICES[name]) == set(map(str, OF_PAGES[name]))


def test_what_is_no_choice_of_a_page_is_known_too():
    assert {str(name) for name in PLACED} <= set(CHOICES)
    assert set(HIDDEN) == set(CONTROLS)


@pytest.mark.parametrize("address", ["/attention?quantity=wieght", "/attention?quanity=weight", "/masks?scope=none"])
def test_another_choice_is_refused(address):
    with pytest.raises(InputError, match=r"quantity \('wieght'\)|'quanity'|scope \('none'\)"):
        require_choices(State.read(address))
