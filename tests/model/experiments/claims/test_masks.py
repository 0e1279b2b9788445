"""Masks: the verdicts as they are, and flipped by what is planted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from model.analysis.masking import fills, without_causal_mask, without_padding_masks
from model.capture.interventions import Causal, PaddingSeen
from model.experiments.claims import masks
from model.experiments.engines.trace_inputs import too_short
from model.experiments.rule import Verdict
from model.text.tokenizer import Tokens
from tests.model.experiments.claims.judging import judged, planted, tiny

HOLDS, IN_PART, WRONG, OPEN = Verdict.HOLDS, Verdict.IN_PART, Verdict.WRONG, Verdict.OPEN
KINDS = ["encoder-decoder", "decoder-only", "encoder-only"]


def all_visible(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool)


@pytest.mark.parametrize(("plant", "expected"), [({}, WRONG), ({"hide": all_visible}, HOLDS)])
def test_a_mask_after_softmax_breaks_what_it_hides(plant: dict[str, Any], expected: Verdict) -> None:
    assert planted(masks.find_order, "mask-after-softmax", **plant) is expected


@pytest.mark.parametrize(("fill", "expected"), [(-1e9, IN_PART), (-1e10, IN_PART), (-1e4, IN_PART), (-3.0, WRONG)])
def test_a_number_stands_for_infinity_where_it_is_large_and_the_type_holds_it(fill: float, expected: Verdict) -> None:
    assert judged("mask-number", fill=fill).verdict is expected


def test_a_number_would_do_if_every_type_took_it_and_empty_rows_saw_nothing() -> None:
    def taken(scores: Tensor, visible: Tensor, number: float) -> Any:
        return fills(scores, visible, number).assign(accepted=True, empty_low=0.0, empty_high=0.0)

    assert planted(masks.find_fill, "mask-number", fill=taken) is HOLDS


@pytest.mark.parametrize("kind", KINDS)
def test_masks_are_everywhere(kind: Any) -> None:
    assert judged("mask-places", tiny(kind)).verdict is WRONG


def test_masks_would_be_between_decoder_and_encoder_only_if_self_attention_had_none() -> None:
    changes = [PaddingSeen("encoder"), PaddingSeen("decoder"), Causal("decoder", False)]
    assert planted(masks.find_places, "mask-places", changes=changes) is HOLDS
    assert planted(masks.find_places, "mask-places", changes=[*changes, PaddingSeen("cross")]) is OPEN


@pytest.mark.parametrize("kind", KINDS)
def test_a_causal_mask_hides_the_future(kind: Any) -> None:
    assert judged("causal-mask", tiny(kind)).verdict is HOLDS


@pytest.mark.parametrize("on", [True, False])
def test_a_mask_that_hides_nothing_or_cannot_be_switched_off_is_found(on: bool) -> None:
    assert planted(masks.find_future, "causal-mask", mask=lambda kind, _on: Causal(kind, on)) is WRONG


@pytest.mark.parametrize(
    ("kind", "expected"), [("encoder-decoder", HOLDS), ("encoder-only", HOLDS), ("decoder-only", IN_PART)]
)
def test_a_padding_mask_keeps_padding_out(kind: Any, expected: Verdict) -> None:
    assert judged("padding-mask", tiny(kind)).verdict is expected


@pytest.mark.parametrize("kind", KINDS)
def test_padding_that_comes_through_is_found(kind: Any) -> None:
    model = tiny(kind)
    changes = [*without_padding_masks(model.network), *without_causal_mask(model.network)]
    assert planted(masks.find_padding, "padding-mask", model, changes=changes) is WRONG


@pytest.mark.parametrize("name", ["mask-places", "causal-mask", "padding-mask"])
def test_an_empty_text_is_left_open(name: str) -> None:
    assert judged(name, tiny("decoder-only"), text="").verdict is OPEN


def own_hidden(length: int) -> Tensor:
    """triu from the diagonal on, which hides a token from itself."""
    return torch.ones(length, length).triu(0) == 0


def test_a_type_that_cannot_hold_the_number_is_named_with_its_lowest_one() -> None:
    reason = str(judged("mask-number").reason)
    assert "hides what it must in float32, bfloat16;" in reason
    assert reason.endswith("; float16 cannot hold it, its lowest number is -6.55e+04, and torch refuses to fill it in")
    assert "cannot hold" not in str(judged("mask-number", fill=-1e4).reason)


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        ({}, HOLDS),
        ({"ahead": own_hidden}, WRONG),
        ({"ahead": all_visible}, WRONG),
        ({"pad": lambda ids: (ids != masks.PADDING)[:, None, :, None]}, WRONG),
        ({"pad": lambda ids: (ids == masks.PADDING)[:, None, None, :]}, WRONG),
    ],
)
def test_the_shapes_broadcast_to_the_mask_of_the_network(plant: dict[str, Any], expected: Verdict) -> None:
    assert planted(masks.find_shapes, "mask-shapes", **plant) is expected


@pytest.mark.parametrize(
    ("lengths", "said"), [((2,), "a text of 4 tokens"), ((2, 1), "a text of 4 tokens"), ((6, 1), "the model writes 1")]
)
def test_what_is_too_short_is_said_of_the_text_or_of_what_is_written(lengths: tuple[int, ...], said: str) -> None:
    texts = [Tokens(list(range(length)), ["a"] * length) for length in lengths]
    found = too_short(4, texts)
    assert found.verdict is Verdict.OPEN
    assert said in str(found.reason)
