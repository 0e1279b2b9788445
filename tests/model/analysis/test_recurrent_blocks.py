"""The blocks of a recurrent network have all its weights, and the operations of its costs."""

from __future__ import annotations

import torch

from model.analysis.blocks import blocks, elsewhere, total_flops
from model.analysis.checks import checks
from model.capture.trace import record
from model.network.costs import costs
from tests.model.examples import SOURCE, TARGET, recurrent


def test_its_blocks_count_every_weight_and_every_operation() -> None:
    network = recurrent()
    with torch.no_grad(), record(network) as trace:
        network(SOURCE, TARGET)
    found = blocks(trace)
    assert elsewhere(network, found) == 0
    assert total_flops(trace, found) == costs(network.config, 1, SOURCE.shape[1], TARGET.shape[1]).forward_flops
    assert [block.path for block in found][-1] == "output"


def test_its_checks_pass_and_see_a_row_that_does_not_sum_to_one() -> None:
    network = recurrent()
    with torch.no_grad(), record(network) as trace:
        network(SOURCE, TARGET)
    named = {check.name: check for check in checks(trace)}
    assert named["rows"].passed
    assert named["rows"].cells == TARGET.shape[1]
    assert all(check.possible for check in named.values())
    trace._tensors["decoder.layers.0.cross_attention.weights"][0, 0, 1] *= 1.5
    assert not {check.name: check for check in checks(trace)}["rows"].passed
