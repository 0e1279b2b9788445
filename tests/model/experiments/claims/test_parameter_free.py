"""softmax(X Xᵀ) X against torch's own attention, and the verdict where it must flip."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
import torch

from model.checkpoints.load import open_checkpoint
from model.experiments.claims.parameter_free import parameter_free
from model.experiments.index import experiments
from model.experiments.rule import Verdict

BUNDLED = Path(__file__).resolve().parents[4] / "checkpoints" / "eng-cmn"


def test_it_is_attention_whose_queries_keys_and_values_are_the_inputs() -> None:
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores, weights, outputs = parameter_free(x)
    expected = torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], scale=1.0)[0]
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close(scores, torch.einsum("ic,jc->ij", x, x))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(5, dtype=torch.float64))


@pytest.mark.parametrize(("factor", "expected"), [(1.0, Verdict.IN_PART), (1e-3, Verdict.HOLDS), (1e3, Verdict.WRONG)])
def test_the_verdict_follows_the_size_of_the_rows(factor: float, expected: Verdict) -> None:
    model = open_checkpoint(BUNDLED)
    model.network = deepcopy(model.network)
    with torch.no_grad():
        model.network.embeddings()[0].weight.mul_(factor)
    experiment = experiments()["parameter-free"]
    (report,) = experiment.run(experiment.request(model, "She bought a red car", {}))
    assert report.result.verdict is expected


def test_the_figure_has_every_step_of_as_many_tokens_as_are_asked_for() -> None:
    model, experiment = open_checkpoint(BUNDLED), experiments()["parameter-free"]
    (report,) = experiment.run(experiment.request(model, "She bought a red car yesterday.", {"tokens": 4}))
    bare, _scaled = report.result.figures
    inputs, scores, weights, outputs = (torch.tensor(grid.values) for grid in bare.grids)
    rows = model.network.embeddings()[0].weight[model.source_tokens("She bought a red car yesterday.").ids[:4]].detach()
    torch.testing.assert_close(inputs, rows[:, :6])
    torch.testing.assert_close(scores, torch.cdist(rows, rows).square().mul(-0.5) + _halves(rows))
    torch.testing.assert_close(weights, scores.exp() / scores.exp().sum(dim=1, keepdim=True))
    torch.testing.assert_close(outputs, torch.einsum("ij,jc->ic", weights, rows)[:, :6])


def _halves(rows: torch.Tensor) -> torch.Tensor:
    """Of ‖x‖² and ‖y‖², for all pairs: a dot product is these less half the squared distance."""
    norms = rows.square().sum(dim=-1) / 2
    return norms[:, None] + norms[None]


def test_a_model_whose_embedding_is_not_known_says_so() -> None:
    model, experiment = open_checkpoint(BUNDLED), experiments()["parameter-free"]
    model.network = deepcopy(model.network)
    model.network.embeddings = list  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="embedding are not known"):
        next(experiment.run(experiment.request(model, "She bought a red car", {})))
