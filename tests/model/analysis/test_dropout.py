"""Dropout over many masks against what the distribution says."""

import pytest
import torch

from model.analysis.dropout import expected_error, over_masks, sites
from tests.model.examples import config


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_mean_stays_and_the_variance_is_the_formulas(rate):
    x = torch.randn(400)
    found = over_masks(x, rate, 2000, "seed")
    assert found.share == pytest.approx(1 - rate, abs=0.003)
    assert float((found.mean * x).sum() / x.square().sum()) == pytest.approx(1, abs=0.02)
    assert float(found.variance.sum() / x.square().sum()) == pytest.approx(rate / (1 - rate), rel=0.05)
    assert found.counts[:4] == [1, 2, 5, 10]
    assert found.counts[-1] == 2000
    assert found.errors[-1] == pytest.approx(float((found.mean - x).norm() / x.norm()), rel=1e-6)
    for count, error in zip(found.counts, found.errors, strict=True):
        assert error == pytest.approx(expected_error(rate, count), rel=0.5)


def test_one_mask_keeps_an_entry_divided_or_drops_it_by_a_seed_that_disturbs_no_one():
    x = torch.rand(50) + 1
    before = torch.random.get_rng_state()
    first, second, other = (over_masks(x, 0.5, 1, seed) for seed in "aab")
    assert {round(value, 3) for value in (first.mean / x).tolist()} == {0.0, 2.0}
    assert not first.variance.any()
    assert torch.equal(first.mean, second.mean)
    assert not torch.equal(first.mean, other.mean)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(("rate", "masks"), [(0.0, 5), (1.0, 5), (0.5, 0)])
def test_what_makes_no_sense_is_refused(rate, masks):
    with pytest.raises(ValueError, match=r"rate|masks"):
        over_masks(torch.ones(3), rate, masks, "seed")


def test_sites_have_the_configs_rates():
    found = sites(config(dropout=0.1, attention_dropout=0.2, activation_dropout=0.3))
    assert found == {"embedding": 0.1, "weights": 0.2, "block": 0.1, "units": 0.3}
