"""Likeness and projections of tokens against torch's and hand-computed values."""

import pytest
import torch
from torch.testing import assert_close

from model.analysis.embeddings import in_groups, nearest, principal_plane


def test_nearest_tokens_are_those_of_the_largest_cosine():
    matrix = torch.randn(20, 6)
    ids, cosines = nearest(matrix, 4, 5)
    expected = torch.nn.functional.cosine_similarity(matrix, matrix[4], dim=-1)
    assert ids.tolist() == [token for token in expected.argsort(descending=True).tolist() if token != 4][:5]
    assert_close(cosines, expected[ids])


def test_a_long_vector_is_not_nearer_than_an_alike_one():
    matrix = torch.tensor([[1.0, 0.0], [100.0, 100.0], [0.5, 0.1], [0.0, 0.0]])
    ids, cosines = nearest(matrix, 0, 9)
    assert ids.tolist() == [2, 1, 3]  # all there are; the dot product would put 1 first
    assert cosines.tolist() == pytest.approx([0.5 / 0.26**0.5, 0.5**0.5, 0.0], abs=1e-6)


def test_the_plane_holds_the_largest_variances():
    x = torch.randn(30, 7, dtype=torch.float64) * torch.tensor([5.0, 0.1, 3.0, 0.1, 0.1, 1.0, 0.1])
    plane = principal_plane(x)
    variances = torch.linalg.eigvalsh(torch.cov(x.T)).flip(0)
    assert plane.shares == pytest.approx((variances[:2] / variances.sum()).tolist())
    points = plane.project(x)
    assert_close(points.var(dim=0), variances[:2])
    assert_close(plane.project(x.mean(dim=0)), torch.zeros(2, dtype=torch.float64), atol=1e-12, rtol=0)
    assert_close(principal_plane(x.flip(0)).project(x), points)  # the same picture in any order


@pytest.mark.parametrize("count", [1, 2, 5])
def test_tokens_that_are_all_the_same_have_no_spread(count):
    plane = principal_plane(torch.full((count, 4), 0.1))
    assert plane.shares == (0.0, 0.0)
    assert plane.project(torch.full((count, 4), 0.1)).abs().max() < 1e-9


def test_two_tokens_lie_on_one_line():
    plane = principal_plane(torch.tensor([[0.0, 0.0, 0.0], [3.0, 4.0, 0.0]]))
    assert plane.shares == pytest.approx((1.0, 0.0))
    assert plane.project(torch.tensor([[3.0, 4.0, 0.0]]))[0].tolist() == pytest.approx([2.5, 0.0])


def test_channels_are_averaged_in_groups_and_none_is_lost():
    x = torch.arange(14.0).view(2, 7)
    groups, size = in_groups(x, 3)
    assert size == 3
    assert groups.tolist() == [[1.0, 4.0, 6.0], [8.0, 11.0, 13.0]]
    same, one = in_groups(x, 7)
    assert one == 1
    assert torch.equal(same, x)
