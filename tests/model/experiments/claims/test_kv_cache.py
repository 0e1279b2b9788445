"""The KV cache's formula beside what is kept, and the verdict where it must flip."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.analysis.kv_cache import measure
from model.experiments.claims.kv_cache import EXPERIMENTS, SHOWN, cache_bytes, run
from model.experiments.experiment import Curves, Table
from model.experiments.rule import Verdict
from tests.model.elsewhere import model_of

(EXPERIMENT,) = EXPERIMENTS
TEXT = "The cat sees a dog."


def last(model, **planted):
    request = EXPERIMENT.request(model, TEXT, {"length": 20, "width": 4, "rank": 3})
    *_before, newest = run(request, **planted)
    assert newest.share == pytest.approx(1)
    return newest.result


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only"])
def test_the_formula_holds_for_ours_exactly(kind) -> None:
    model = model_of(kind, n_key_value_heads=1)
    outcome = last(model)
    assert outcome.verdict is Verdict.HOLDS
    tables = [figure for figure in outcome.figures if isinstance(figure, Table)]
    assert [len(table.rows) for table in tables] == [len(SHOWN)]
    assert sum(isinstance(figure, Curves) for figure in outcome.figures) == 2
    config = model.config
    measured = {str(quantity.name): quantity.values[0] for quantity in outcome.quantities}
    each = 4 * 2 * config.n_decoder_layers * config.d_head
    assert measured["bytes for each token, measured"] == each


def test_other_bytes_than_the_formulas_are_wrong() -> None:
    def doubled(*given):
        return [replace(size, own=2 * size.own) for size in measure(*given)]

    assert last(model_of("decoder-only"), measured=doubled).verdict is Verdict.WRONG
    odd = last(model_of("decoder-only"), variant_size=lambda variant, shape: cache_bytes(variant, shape) + 1)
    assert odd.verdict is Verdict.WRONG
    unknown = last(
        model_of("decoder-only"), measured=lambda *given: [replace(size, formula=None) for size in measure(*given)]
    )
    assert unknown.verdict is Verdict.OPEN


def test_a_model_that_does_not_write_still_shows_the_variants() -> None:
    outcome = last(model_of("encoder-only"))
    assert outcome.verdict is Verdict.HOLDS
    assert "does not write" in str(outcome.reason)
