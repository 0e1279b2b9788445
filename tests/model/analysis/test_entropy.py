"""Entropy against torch's own function, in float64."""

import math

import pytest
import torch

from model.analysis.head_metrics import entropies, entropy_terms


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_terms_are_those_of_torch(dtype):
    drawn = torch.randn(4, 300).mul(6).softmax(dim=-1)
    p = torch.cat([drawn, torch.eye(3, 300), torch.full((1, 300), 1e-7)]).to(dtype)
    found = entropy_terms(p)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(found.double(), torch.special.entr(p.double()), rtol=2e-6, atol=1e-10)


def test_nothing_surprises_where_one_is_sure_and_most_where_all_are_equal():
    p = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.25] * 4, [0.5, 0.5, 0.0, 0.0], [math.nan, 0.5, 0.5, 0.0]])
    assert entropies(p)[:3].tolist() == pytest.approx([0.0, math.log(4), math.log(2)])
    assert entropies(p)[3].isnan()


def test_the_probabilities_stay_as_they_are():
    p = torch.tensor([0.5, 0.5, 0.0])
    entropy_terms(p)
    assert p.tolist() == [0.5, 0.5, 0.0]
