"""The short experiments on a device that is not the CPU: the same verdicts."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from model.experiments.claims import attention, masks, norms, positions
from model.experiments.rule import Verdict
from model.network.config import Kind
from tests.model.elsewhere import KINDS, elsewhere
from tests.model.experiments.claims.judging import judged, tiny

OF_MODEL = (
    *("order", "attention-formula", "cross-attention", "several-heads", "feed-forward", "encoder-softmax"),
    *("kinds-of-models", "mask-places", "causal-mask", "padding-mask", "batch-norm"),
)


def test_they_are_those_of_the_four_files() -> None:
    every = {each.name for module in (attention, masks, norms, positions) for each in module.EXPERIMENTS}
    assert set(OF_MODEL) <= every


@cache
def verdict_here(name: str, kind: Kind) -> Verdict:
    """Verdict on the CPU."""
    return judged(name, tiny(kind)).verdict


@pytest.mark.parametrize("name", OF_MODEL)
def test_a_model_elsewhere_is_judged_alike(name: str, pretended: torch.device) -> None:
    for kind in KINDS:
        assert judged(name, elsewhere(tiny(kind))).verdict is verdict_here(name, kind)
