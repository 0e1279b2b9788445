"""LayerNorm, BatchNorm, pre-norm and dropout: the verdicts as they are, and flipped by what is planted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model.analysis.norms import batch_of, forms
from model.experiments.claims import norms
from model.experiments.rule import Verdict
from tests.model.experiments.claims.judging import judged, planted, tiny

HOLDS, WRONG, OPEN = Verdict.HOLDS, Verdict.WRONG, Verdict.OPEN


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (norms.tutorial_norm, WRONG),
        (lambda x, eps: forms(x, eps)["textbook"], WRONG),
        (lambda x, eps: F.layer_norm(x, x.shape[-1:], eps=eps), HOLDS),
        (lambda x, eps: forms(x, eps)["layer"], HOLDS),
    ],
)
def test_a_form_of_layer_norm_is_held_to_torch(form: Any, expected: Verdict) -> None:
    assert planted(norms.find_layer_norm, "layer-norm", values={"d_model": 32}, form=form) is expected


def test_the_tutorial_has_its_own_form() -> None:
    assert judged("layer-norm").verdict is WRONG


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only", "encoder-only"])
def test_batch_norm_sees_what_stands_beside_a_text(kind: Any) -> None:
    assert judged("batch-norm", tiny(kind)).verdict is HOLDS


def test_it_would_be_wrong_beside_the_same_text() -> None:
    def twice(model: Any, texts: Any) -> Any:
        source, target = texts
        return batch_of(model, source, target, [{"source": source, "target": target}])

    assert planted(norms.find_batch_norm, "batch-norm", make=twice) is WRONG


def test_a_model_without_norms_and_an_empty_text_are_left_open() -> None:
    assert judged("batch-norm", tiny("encoder-decoder", norm="none")).verdict is OPEN
    assert judged("batch-norm", text="").verdict is OPEN


@pytest.mark.parametrize(("block", "expected"), [(norms.tutorial_pre_norm, WRONG), (norms.pre_norm, HOLDS)])
def test_a_formula_of_pre_norm_is_held_to_torch(block: Any, expected: Verdict) -> None:
    assert planted(norms.find_pre_norm, "pre-norm-formula", values={"quarter": 4}, block=block) is expected


def test_the_tutorial_has_its_own_pre_norm() -> None:
    assert judged("pre-norm-formula").verdict is WRONG


def undivided(x: Tensor, rate: float, training: bool) -> Tensor:
    return F.dropout(x, rate, training) * (1 - rate)


def kept_less(x: Tensor, rate: float, training: bool) -> Tensor:
    return F.dropout(x, 2 * rate, training)


@pytest.mark.parametrize(
    ("drop", "masks", "expected"),
    [(F.dropout, 2000, HOLDS), (undivided, 2000, WRONG), (kept_less, 2000, WRONG), (F.dropout, 10, OPEN)],
)
def test_dropout_is_judged_by_what_it_keeps_and_by_its_mean(drop: Any, masks: int, expected: Verdict) -> None:
    torch.manual_seed(0)
    assert planted(norms.find_dropout, "dropout", values={"masks": masks}, drop=drop) is expected


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_network_drops_as_it_is_said(rate: float) -> None:
    assert judged("dropout", rate=rate, masks=2000).verdict is HOLDS
