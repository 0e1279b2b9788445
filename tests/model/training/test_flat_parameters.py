"""Tensors side by side, and a network whose weights and gradients stand so."""

import pytest
import torch
from torch import nn

from model.training.flat_parameters import ALIGNED, FlatParameters, weights_in_a_row
from model.training.gradients import Gradients, norm_of
from tests.model.examples import network, one_stack


def test_norms_of_long_rows_are_exact():
    row = torch.randn(6_000_000)
    assert float(norm_of(row)) == pytest.approx(float(row.double().norm()), rel=5e-6)  # one sum: 1e-4


SIZES = [(3, 5), (1,), (), (65, 16)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_parts_are_the_row_and_begin_where_kernels_like_it(dtype):
    tensors = [torch.randn(size, dtype=dtype) for size in SIZES]
    row = FlatParameters(tensors)
    assert not row.whole.any()
    for part, tensor in zip(row.parts, tensors, strict=True):
        part.copy_(tensor)
    assert all(torch.equal(*both) for both in zip(row.parts, tensors, strict=True))
    assert {(part.data_ptr() - row.whole.data_ptr()) % ALIGNED for part in row.parts} == {0}
    assert row.whole.count_nonzero() == sum(tensor.count_nonzero() for tensor in tensors)
    row.whole *= 2
    assert torch.equal(row.parts[-1], 2 * tensors[-1])


def test_weights_of_several_types_are_refused():
    sentence = r"^the weights are of several types or on several devices \(.*float64.*\): make"
    with pytest.raises(ValueError, match=sentence):
        weights_in_a_row([nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2, dtype=torch.float64))])


@pytest.mark.parametrize(
    "make", [network, lambda: network(tied_embeddings="output"), lambda: one_stack("decoder-only", position="relative")]
)
def test_a_network_computes_and_learns_the_same_in_a_row(make):
    model, plain = make(), make()
    gradients, ids = Gradients(model), torch.tensor([[1, 4, 5, 6], [1, 6, 4, 9]])
    given = (ids, ids[:, :3]) if model.kind == "encoder-decoder" else (ids,)
    for _ in range(2):  # the second is not added to the first
        gradients.clear()
        plain.zero_grad()
        for each in (model, plain):
            each(*given).square().mean().backward()
        assert all(
            torch.equal(mine, other) and torch.equal(mine.grad, other.grad)
            for mine, other in zip(model.parameters(), plain.parameters(), strict=True)
        )
    norms, total = gradients.norms(), nn.utils.get_total_norm
    expected = float(total([each.grad for each in plain.parameters()]))
    assert float(torch.tensor(list(norms.values())).norm()) == pytest.approx(expected, rel=1e-6)
    assert gradients.parameter_norm() == pytest.approx(float(total(list(plain.parameters()))), rel=1e-6)
    assert {name.split(".")[0] for name in norms} <= {"encoder", "decoder", "output"}
    before = gradients.weights.whole.clone()
    with torch.no_grad():
        for each in model.parameters():
            each *= 1.01
    after = torch.stack([gradients.weights.whole, before])
    small, none = gradients.update_ratios(after - before, after)
    assert list(small.values()) == pytest.approx([0.01 / 1.01] * len(norms), rel=1e-3)
    assert list(none.values()) == [0] * len(norms)
