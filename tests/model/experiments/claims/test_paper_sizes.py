"""The paper's sizes: parameters by hand and by building, counted operations, memory; the verdict where it flips."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch

from model.experiments.claims import paper_sizes
from model.experiments.claims.paper_sizes import (
    PUBLISHED,
    RUNS,
    STEP,
    Size,
    explicit,
    fused,
    grown,
    measure,
    outcome,
    size_of,
)
from model.experiments.engines.attention_cost import Sizes
from model.experiments.index import experiments
from model.experiments.rule import Verdict
from model.network.config import TransformerConfig
from model.network.costs import costs
from model.network.transformer import skeleton
from model.runtime.memory import SPARE

PLENTY = 1 << 40
SIZES = Sizes(batch=1, heads=4, width=4, device=torch.device("cpu"), dtype=torch.float32)
TINY = {"source_vocabulary": 50, "target_vocabulary": 50, "d_model": 16, "n_heads": 2, "d_ff": 32}


def tiny() -> Size:
    config = TransformerConfig.preset("paper-base", **(TINY | {"n_encoder_layers": 2, "n_decoder_layers": 2}))
    return Size("paper-base", config, costs(config, 2, 5, 5))


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_parameters_are_those_of_the_network_and_about_the_papers(name: str) -> None:
    size = size_of(name, 1, 8)
    assert size.predicted.parameter_count == skeleton(size.config).parameter_count()
    assert size.predicted.parameter_count == pytest.approx(PUBLISHED[name], rel=0.04)


def test_what_is_measured_is_what_was_predicted() -> None:
    *_before, last = measure(tiny(), 2, 5, PLENTY)
    found, predicted = last.measured, last.predicted
    assert last.refusal is None
    assert found.parameters == predicted.parameter_count
    assert found.flops == predicted.forward_flops
    assert found.training is not None
    assert predicted.training_memory < found.training < 1.6 * predicted.training_memory + 4 * 2 * 512 * 16
    assert found.forward is not None
    assert found.step is not None


def test_a_training_step_asks_for_the_gradients_of_a_shared_matrix_too() -> None:
    *_before, last = measure(tiny(), 2, 5, int(SPARE * paper_sizes.training_memory(tiny())) + 1)
    assert last.measured.forward is not None
    assert last.measured.training is None
    assert "GB are free" in str(last.refusal)


@pytest.mark.parametrize(("share", "forward"), [(0.01, False), (0.6, True)])
def test_what_does_not_fit_is_not_built_and_said(share: float, forward: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    size = size_of("paper-base", 2, 5, 50)
    size = Size(size.name, tiny().config, tiny().predicted)
    free = int(share * (size.predicted.training_memory + paper_sizes.table_memory(size.config)))
    if not forward:
        monkeypatch.setattr(paper_sizes, "build", lambda _config: pytest.fail("it was built"))
    *_before, last = measure(size, 2, 5, free)
    assert last.refusal is not None
    assert "GB are free" in str(last.refusal)
    assert (last.measured.forward is not None) == forward
    assert last.measured.step is None


@pytest.mark.parametrize(
    ("ways", "expected"),
    [
        ({"explicit": explicit, "fused": fused}, Verdict.IN_PART),
        ({"explicit": explicit, "fused": explicit}, Verdict.HOLDS),
        ({"explicit": fused, "fused": fused}, Verdict.WRONG),
    ],
)
def test_the_verdict_follows_the_growth_of_memory(
    ways: dict[str, Callable[..., torch.Tensor]], expected: Verdict
) -> None:
    *_before, memory = grown(SIZES, 1024, ways)
    assert outcome([tiny()], memory).verdict is expected
    assert memory.maps[-1] == 4 * 4 * 1024 * 1024
    assert memory.peaks["explicit"][-1] >= memory.maps[-1] or ways["explicit"] is fused


def test_few_lengths_leave_it_open() -> None:
    *_before, memory = grown(SIZES, 32, {"explicit": explicit, "fused": fused})
    assert outcome([tiny()], memory).verdict is Verdict.OPEN


def test_it_runs_to_its_end_without_room_for_either_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_sizes, "available", lambda _device: 10**8)
    experiment = experiments()["paper-sizes"]
    first, *_between, last = experiment.run(experiment.request(None, "", {"longest": 256}))  # type: ignore[arg-type]
    assert (first.share, last.share) == (0, 1)  # before anything is measured nobody knows how long it takes
    (table, _curves) = last.result.figures
    assert sum("GB are free" in str(cell) for cell in table.rows[-1]) == 2


def test_a_training_step_is_a_larger_part_of_the_time_than_a_forward_pass() -> None:
    shares = [paper_sizes.passes_done(count) for count in range(2 * RUNS + 1)]
    parts = [after - before for before, after in pairwise(shares)]
    assert min(parts[RUNS:]) == pytest.approx(STEP * max(parts[:RUNS]))
    assert shares[-1] == 1
