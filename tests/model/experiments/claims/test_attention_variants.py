"""Errors of the variants on a model's own queries and keys, and the verdict where it must flip."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from model.experiments.claims.attention_variants import HeadInputs, compare, judge, loaded
from model.experiments.experiment import Grid
from model.experiments.index import experiments
from model.experiments.rule import Verdict
from model.experiments.runner import explained
from model.experiments.variants.index import variants
from model.experiments.variants.variant import Sizes, Variant
from model.runtime.errors import MissingQuantityError
from tests.model.checkpoints.bridge.models import bridged, traced
from tests.model.elsewhere import model_of, trace_of
from tests.model.experiments.claims.judging import verdict_of


def given(length: int = 9) -> HeadInputs:
    draw = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, length, 8, generator=draw, dtype=torch.float64) for _ in range(3))
    visible = torch.ones(length, length, dtype=torch.bool)
    return HeadInputs(query, key, value, visible, None, [str(at) for at in range(length)])


def planted(variant: Variant, error: float) -> Variant:
    """Full attention in its place, off by a relative error."""

    def attend(query, key, value, visible):
        attended = variants(Sizes())[0].attend(query, key, value, visible)
        return attended._replace(heads=attended.heads * (1 + error))

    return replace(variant, attend=attend)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [((0.01, 0.01), Verdict.HOLDS), ((0.5, 0.01), Verdict.IN_PART), ((0.5, 0.5), Verdict.WRONG)],
)
def test_the_verdict_follows_the_errors(errors: tuple[float, float], expected: Verdict) -> None:
    full, *others = variants(Sizes())
    chosen = {each.key: each for each in others}
    odd = [planted(chosen[name], errors[number % 2]) for number, name in enumerate(("window", "linear", "latent"))]
    drawn = [full, *odd, planted(chosen["additive"], 0.9)]  # which is no cheaper
    outcome = compare(given(), 2, [drawn] * 3)
    assert outcome.verdict is expected
    assert compare(given(), 2, [drawn] * 2).verdict is Verdict.OPEN
    measured = [quantity.values[0] / 100 for quantity in outcome.quantities]
    assert measured == pytest.approx([errors[0], errors[1], errors[0], 0.9])


def test_variants_whose_draws_differ_are_judged_by_their_spread() -> None:
    (window,) = [each for each in variants(Sizes()) if each.key == "window"]
    near, far, unsure = ({"window": errors} for errors in ((0.05, 0.06, 0.05), (0.2, 0.3, 0.25), (0.02, 0.09, 0.12)))
    cheaper = [window, window]
    found = [verdict_of(judge(cheaper, errors)[0]) for errors in (near, far, unsure)]
    assert found == [Verdict.HOLDS, Verdict.WRONG, Verdict.OPEN]


def test_random_features_and_hashes_are_drawn_anew_with_a_seed() -> None:
    errors = {}
    for seed in (1, 2):
        for each in variants(Sizes(features=8, seed=seed)):
            heads = each.attend(given().query, given().key, given().value, given().visible).heads
            errors.setdefault(each.key, []).append(heads)
    differing = {key for key, (one, other) in errors.items() if not torch.equal(one, other)}
    assert differing == {"performer", "lsh"}


@pytest.mark.parametrize(
    ("kind", "stack", "options"),
    [
        ("encoder-decoder", "encoder", {}),
        ("encoder-decoder", "decoder", {}),
        ("decoder-only", "encoder", {"scale_attention": False}),
        ("encoder-only", "decoder", {"position": "rotary", "n_key_value_heads": 1}),
    ],
)
def test_full_attention_on_what_is_loaded_is_the_models_own(kind, stack, options) -> None:
    model = model_of(kind, **options)
    found = loaded(trace_of(model), stack, 1, 64)
    heads = F.scaled_dot_product_attention(found.query, found.key, found.value, attn_mask=found.visible)
    assert found.own is not None
    torch.testing.assert_close(heads, found.own, rtol=1e-4, atol=1e-5)
    assert len(found.labels) == found.query.shape[1]
    assert loaded(trace_of(model), stack, 1, 2).own is None


def test_every_pattern_is_drawn_and_wrong_places_are_refused() -> None:
    model = model_of("encoder-decoder")
    experiment = experiments()["attention-variants"]
    (report,) = experiment.run(experiment.request(model, "The cat sees a dog.", {"features": 8}))
    grids = [figure for figure in report.result.figures if isinstance(figure, Grid)]
    assert len(grids) == len(variants(Sizes()))
    for values, wrong in (({"layer": 99}, "layer is 99"), ({"head": 99}, "head is 99")):
        with pytest.raises(ValueError, match=wrong):
            list(experiment.run(experiment.request(model, "The cat sees a dog.", values)))


def test_a_model_that_hides_its_queries_says_so() -> None:
    with pytest.raises(MissingQuantityError) as raised:
        loaded(traced(bridged("deberta-v2")), "encoder", 1, 64)
    assert explained(raised.value) == raised.value.reason
    assert raised.value.reason.startswith("this model")


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_full_attention_is_that_of_a_bridged_model(name: str) -> None:
    found = loaded(traced(bridged(name)), "encoder", 2, 64)
    heads = F.scaled_dot_product_attention(found.query, found.key, found.value, attn_mask=found.visible)
    assert found.own is not None
    torch.testing.assert_close(heads, found.own, rtol=1e-4, atol=1e-5)
