"""Attention, heads, feed-forward networks and kinds of models: the verdicts as they are, and flipped by a plant."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model.analysis.masking import without_causal_mask
from model.experiments.claims import attention
from model.experiments.rule import Verdict
from model.inference.text_model import TextModel
from model.network.layers import FeedForward
from tests.model.experiments.claims.judging import TEXT, judged, planted, tiny

HOLDS, IN_PART, WRONG, OPEN = Verdict.HOLDS, Verdict.IN_PART, Verdict.WRONG, Verdict.OPEN
KINDS = ["encoder-decoder", "decoder-only", "encoder-only"]


def copied(model: TextModel) -> TextModel:
    other = copy.copy(model)
    other.network = copy.deepcopy(model.network)
    return other


def without_factor(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> Tensor:
    return attention.attention(query * query.shape[-1] ** 0.5, key, value, visible)


def test_the_formula_is_torch_own() -> None:
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(5, 4, generator=generator, dtype=torch.float64) for _each in range(3))
    visible = torch.ones(5, 5).tril().bool()
    expected = F.scaled_dot_product_attention(query[None], key[None], value[None], visible[None])[0]
    torch.testing.assert_close(attention.attention(query, key, value, visible), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, HOLDS),
        ({"position": "rotary", "n_key_value_heads": 1}, HOLDS),
        ({"position": "alibi"}, IN_PART),
        ({"scale_attention": False}, IN_PART),
    ],
)
def test_the_formula_is_what_a_model_computes(kind: Any, options: dict[str, Any], expected: Verdict) -> None:
    assert judged("attention-formula", tiny(kind, **options)).verdict is expected


def test_another_formula_is_wrong() -> None:
    assert planted(attention.find_attention, "attention-formula", formula=without_factor) is WRONG


def test_a_head_that_is_not_there_is_left_open() -> None:
    assert judged("attention-formula", head=3).verdict is OPEN
    assert judged("cross-attention", layer=9).verdict is OPEN


def test_cross_attention_joins_two_texts_and_self_attention_does_not() -> None:
    outcome = judged("cross-attention")
    assert outcome.verdict is HOLDS
    queries, keys = (quantity.values[0] for quantity in outcome.quantities)
    model = tiny("encoder-decoder")
    trace, target, _generation = model.trace_generated(model.source_tokens(TEXT))
    assert (queries, keys) == (len(target), len(trace.source_tokens))
    assert planted(attention.find_cross, "cross-attention", kind="decoder") is WRONG


@pytest.mark.parametrize("kind", ["decoder-only", "encoder-only"])
def test_a_model_of_one_stack_has_no_cross_attention(kind: Any) -> None:
    assert judged("cross-attention", tiny(kind)).verdict is OPEN


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("least", "expected"), [(0.0, HOLDS), (10.0, IN_PART)])
def test_heads_are_counted_by_what_a_prediction_needs(kind: Any, least: float, expected: Verdict) -> None:
    assert judged("several-heads", tiny(kind), least=least).verdict is expected


def test_heads_that_look_at_the_same_are_no_several_relations() -> None:
    model = copied(tiny("encoder-decoder"))
    with torch.no_grad():
        for path, module in model.network.named_modules():
            if path.endswith("attention"):
                for part in (module.query, module.key):
                    for values in (part.weight, part.bias):
                        half = values.unflatten(0, (2, -1))
                        half[1] = half[0]
    assert judged("several-heads", model, least=0.0).verdict is WRONG


@pytest.mark.parametrize("kind", KINDS)
def test_a_feed_forward_network_takes_each_position_alone(kind: Any) -> None:
    assert judged("feed-forward", tiny(kind)).verdict is HOLDS


def test_a_feed_forward_network_that_mixes_positions_is_found() -> None:
    class Leaking(FeedForward):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + x.cumsum(dim=1)

    model = copied(tiny("encoder-decoder"))
    model.network.encoder.layers[1].feed_forward.__class__ = Leaking
    assert judged("feed-forward", model).verdict is WRONG


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("encoder-decoder", {}, WRONG),
        ("encoder-only", {}, IN_PART),
        ("encoder-only", {"output_head": "none"}, WRONG),
        ("decoder-only", {}, OPEN),
    ],
)
def test_an_encoder_ends_in_states(kind: Any, options: dict[str, Any], expected: Verdict) -> None:
    assert judged("encoder-softmax", tiny(kind, **options)).verdict is expected


def test_an_encoder_that_ended_in_a_softmax_would_be_found() -> None:
    def ending(network: Any, ids: Tensor) -> Tensor:
        return attention.encoder_states(network, ids).softmax(dim=-1)

    assert planted(attention.find_encoder_end, "encoder-softmax", encode=ending) is HOLDS


@pytest.mark.parametrize(("factor", "expected"), [(1.0, WRONG), (100.0, HOLDS)])
def test_rounded_weights_are_right_only_for_large_scores(factor: float, expected: Verdict) -> None:
    assert judged("worked-example", factor=factor).verdict is expected


def test_the_true_output_is_the_one_that_is_told() -> None:
    reason = str(judged("worked-example").reason)
    assert "0.0634, 0.468, 0.468" in reason
    assert "1.94, 6.68, 1.6" in reason


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_differ_by_what_a_token_sees(kind: Any) -> None:
    assert judged("kinds-of-models", tiny(kind)).verdict is HOLDS


def test_a_decoder_without_its_mask_is_none() -> None:
    def unmasked(network: Any) -> list[Any]:
        return without_causal_mask(network) if network.kind == "decoder-only" else []

    assert planted(attention.find_kinds, "kinds-of-models", changes=unmasked) is WRONG


@pytest.mark.parametrize("name", ["cross-attention", "several-heads", "feed-forward", "kinds-of-models"])
def test_an_empty_text_is_left_open(name: str) -> None:
    model = tiny("encoder-only") if name == "kinds-of-models" else tiny("encoder-decoder")
    assert judged(name, model, text="").verdict is OPEN
