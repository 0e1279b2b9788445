"""What attention costs: operations by hand and by torch's own counter, tiny sizes measured, memory forecast."""

import pytest
import torch
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from model.experiments.engines import attention_cost
from model.experiments.engines.attention_cost import STEPS, Sizes
from model.experiments.engines.head_cost import by_heads, counted, head_counts, narrow_and_wide, ways, with_heads
from model.experiments.engines.timing import peak_memory
from model.network.masks import Mask
from tests.pretended_device import NAME

CPU = torch.device("cpu")
TINY = Sizes(batch=2, heads=2, width=3, device=CPU, dtype=torch.float32)


def test_operations_by_hand() -> None:
    # n = 5, d = 6, 2 heads of 3, 2 texts; 2 operations a multiply-add.
    assert attention_cost.operations(TINY, 5) == {
        "projections": 2 * 4 * 2 * 5 * 6 * 6,
        "scores": 2 * 2 * 2 * 5 * 5 * 3,
        "softmax": 2 * 2 * 5 * (4 + 5 + 5 + 4 + 5),  # maximum, differences, exponentials, sum, quotients
        "values": 2 * 2 * 2 * 5 * 5 * 3,
        "fused": 2 * 2 * 2 * 2 * 5 * 5 * 3 + 2 * 2 * 5 * 23,
    }


@pytest.mark.parametrize("sizes", [TINY, *narrow_and_wide(TINY).values()])
def test_products_are_those_that_torch_counts_step_by_step(sizes) -> None:
    attention, x = (
        attention_cost.new_attention(sizes),
        attention_cost.standard_normal(sizes, sizes.batch, 5, sizes.config.d_model),
    )
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        heads = attention_cost.step_by_step(attention, x)
    assert_close(heads, attention(x, x, Mask()))
    assert counter.get_total_flops() == counted(sizes, 5)["products"]
    assert sum(weight.numel() for weight in attention.parameters()) == sizes.parameters


def test_each_step_is_what_the_attention_computes() -> None:
    with torch.inference_mode():
        attention = attention_cost.new_attention(TINY)
        tasks = attention_cost.steps(attention, TINY, 7)
        heads = tasks["fused"].run(None)
        assert list(tasks) == list(STEPS)
        weights = tasks["softmax"].run(None)
        x = attention_cost.standard_normal(TINY, 2, 7, 6)
        value = attention.value(x)
        assert_close(weights @ value, heads)
        assert peak_memory(tasks["scores"]) == 4 * 2 * 2 * 7 * 7
        assert peak_memory(tasks["fused"]) < peak_memory(tasks["softmax"])


def test_lengths_double_and_are_denser_where_growth_is_read() -> None:
    assert attention_cost.lengths_up_to(512) == [32, 64, 96, 128, 192, 256, 384, 512]
    assert attention_cost.lengths_up_to(100) == [32, 48, 64, 96, 100]
    assert attention_cost.lengths_up_to(16) == [16]


def test_growth_reports_every_length_and_grows() -> None:
    reports = list(attention_cost.growth(TINY, 96, least=2, seconds=0.0))
    assert [report.result.lengths for report in reports] == [[32], [32, 48], [32, 48, 64], [32, 48, 64, 96]]
    assert reports[-1].share == 1.0
    assert all(0 < report.share <= 1 for report in reports)
    found = reports[-1].result
    assert all(seconds > 0 for step in STEPS for seconds in found.seconds(step))
    exponents = {step: attention_cost.upper_fit(found.lengths, found.memory(step)).exponent for step in STEPS}
    assert exponents["scores"] == pytest.approx(2)
    assert exponents["values"] == pytest.approx(1)
    assert found.speed("scores") == pytest.approx(
        attention_cost.operations(TINY, 96)["scores"] / found.seconds("scores")[-1]
    )


def test_the_numbers_of_others_go_on_undisturbed() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    list(attention_cost.growth(TINY, 32, least=1, seconds=0.0))
    assert torch.equal(torch.rand(3), expected)


def test_the_forecast_covers_what_a_step_makes() -> None:
    sizes = Sizes(batch=1, heads=4, width=8, device=CPU, dtype=torch.float32)
    with torch.inference_mode():
        tasks = attention_cost.steps(attention_cost.new_attention(sizes), sizes, 256)
        held = 4 * 4 * 256 * 256  # the map that softmax reads
        assert held + max(peak_memory(task) for task in tasks.values()) <= attention_cost.memory_needed(sizes, 256)


def test_heads_divide_the_width_and_their_products_are_as_many() -> None:
    assert head_counts(12) == [1, 2, 3, 4, 6]
    assert head_counts(7) == [1]
    assert (with_heads(TINY, 3).width, with_heads(TINY, 3).config.d_model) == (2, 6)
    several = [counted(with_heads(TINY, heads), 5) for heads in (1, 2, 3)]
    assert len({each["products"] for each in several}) == 1
    assert [each["softmax"] for each in several] == [230, 460, 690]


def test_every_number_of_heads_is_measured() -> None:
    *_before, last = by_heads(TINY, 5, least=2, seconds=0.0)
    assert last.share == 1.0
    assert list(last.result.sizes) == [1, 2, 3]
    assert len(last.result.times) == 3 * 4
    assert all(times.median > 0 for times in last.result.times.values())


def test_narrow_and_wide_are_measured_forwards_and_backwards() -> None:
    both = narrow_and_wide(TINY)
    assert both["narrow"].parameters == 4 * (6 * 6 + 6)
    assert both["wide"].parameters == 3 * (6 * 12 + 12) + 12 * 6 + 6
    found = list(ways(TINY, 5, least=2, seconds=0.0))[-1].result
    assert set(found.times) == {(way, piece) for way in both for piece in ("forward", "backward")}
    assert found.sizes["wide"].width == 6


def test_all_is_measured_on_another_device_too() -> None:
    there = Sizes(batch=1, heads=2, width=3, device=torch.device(NAME), dtype=torch.float32)
    for reports in (attention_cost.growth(there, 32, 1, 0.0), by_heads(there, 5, 1, 0.0), ways(there, 5, 1, 0.0)):
        found = list(reports)[-1].result
        assert found.machine.device == NAME
        assert not found.machine.cpu_time
