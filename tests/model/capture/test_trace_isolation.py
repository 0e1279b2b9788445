"""What a trace must not hold: other passes, other models, other threads, other examples of a batch."""

import copy
import threading

import pytest
import torch
from torch.testing import assert_close

from model.capture.trace import Trace, record
from tests.model.examples import network, traced

INPUTS = [
    (torch.tensor([[5, 6, 7, 3, 9]]), torch.tensor([[1, 4, 12]])),
    (torch.tensor([[9, 3, 3]]), torch.tensor([[1, 11, 2, 8, 5, 7]])),
]
PASSES = 1000


def assert_same(trace: Trace, reference: Trace, names=None) -> None:
    assert trace.names() == reference.names()
    for name in names or trace.names():
        assert torch.equal(trace[name], reference[name]), name


def run_inside(model, steps) -> None:
    with record(model):
        for step in steps:
            step(model)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([], r"left no encoder\.embedding\.tokens \(\d+ such\): run the whole model"),
        ([lambda model: model.encode(INPUTS[0][0])], r"left no decoder\.embedding\.tokens"),
        ([lambda model: model(*INPUTS[0])] * 2, r"encoder\.embedding\.tokens was computed twice inside one record\(\)"),
        ([lambda model: 1 / 0], "division"),
        ([lambda model: model(*INPUTS[0]), lambda model: 1 / 0], "division"),
    ],
    ids=["no pass", "half a pass", "two passes", "an exception", "an exception after a pass"],
)
def test_an_error_is_named_and_not_masked_and_the_next_recording_is_whole(steps, message):
    model = network()
    error = ZeroDivisionError if message == "division" else RuntimeError
    with pytest.raises(error, match=message):
        run_inside(model, steps)
    assert_same(traced(model, ids=INPUTS[1]), traced(network(), ids=INPUTS[1]))


def test_an_ordinary_forward_leaves_a_trace_as_it_was():
    model = network()
    trace, reference = traced(model, ids=INPUTS[0]), traced(network(), ids=INPUTS[0])
    for ids in INPUTS:
        model(*ids)
    assert_same(trace, reference)


def test_modules_are_observed_once_and_stay_what_they_were():
    model = network()
    before = [(type(module).__name__, type(module)) for module in model.modules()]
    lines = []
    for _ in range(3):
        traced(model, ids=INPUTS[0])
        lines.append([type(module).__mro__ for module in model.modules()])
    assert lines[0] == lines[1] == lines[2]
    assert any(len(line) > len(kind.__mro__) for line, (_, kind) in zip(lines[0], before, strict=True))
    for module, (name, kind) in zip(model.modules(), before, strict=True):
        assert isinstance(module, kind)
        assert type(module).__name__ == name


def test_a_deep_copy_of_an_observed_model_is_a_model_of_its_own():
    model = network()
    reference = traced(model, ids=INPUTS[0])
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.mul_(1.1)
    assert_same(traced(model, ids=INPUTS[0]), reference)
    other = traced(twin, ids=INPUTS[0])
    assert other.names() == reference.names()
    assert not torch.equal(other["output.logits"], reference["output.logits"])
    with torch.inference_mode():
        assert torch.equal(other["output.logits"][None], twin(*INPUTS[0]))


def test_nested_recordings_of_two_models_keep_apart():
    first, second = network(1), network(2, norm_placement="pre")
    with torch.inference_mode(), record(first) as outer:
        with record(second) as inner:
            second(*INPUTS[1])
        first(*INPUTS[0])
    assert_same(outer, traced(network(1), ids=INPUTS[0]))
    assert_same(inner, traced(network(2, norm_placement="pre"), ids=INPUTS[1]))


def test_maps_of_a_first_trace_may_be_asked_for_while_a_second_is_recorded():
    model = network()
    first = traced(model, ids=INPUTS[0])
    with torch.inference_mode(), record(model) as second:
        weights = first.attention("cross")
        model(*INPUTS[1])
    assert_same(second, traced(network(), ids=INPUTS[1]))
    assert_close(weights, traced(network(), ids=INPUTS[0]).attention("cross"), rtol=0, atol=0)


def test_maps_hold_for_their_own_block_only():
    model, name = network(), "encoder.layers.0.self_attention.weights"
    assert [name in traced(model, maps=maps)._tensors for maps in (True, False)] == [True, False]


@pytest.mark.parametrize("maps", [False, True])
def test_each_example_of_a_padded_batch_is_its_own_trace(maps):
    model = network().double()
    sources = [[5, 6, 7, 3, 9], [9, 3, 3], [4, 1, 1, 2]]
    targets = [[1, 4, 12], [1, 11, 2, 8, 5, 7], [1, 3]]
    padded = [[ids + [0] * (max(map(len, rows)) - len(ids)) for ids in rows] for rows in (sources, targets)]
    source, target = (torch.tensor(rows) for rows in padded)
    batch = traced(model, ids=(source, target, source != 0, target != 0), maps=maps)
    for index, (own_source, own_target) in enumerate(zip(sources, targets, strict=True)):
        trace, alone = batch.example(index), traced(model, ids=(torch.tensor([own_source]), torch.tensor([own_target])))
        n, m = len(own_source), len(own_target)
        for path, rows, columns in (
            ("encoder.layers.1.self_attention", n, n),
            ("decoder.layers.1.self_attention", m, m),
            ("decoder.layers.1.cross_attention", m, n),
        ):
            weights = trace[f"{path}.weights"]
            assert_close(weights[:, :rows, :columns], alone[f"{path}.weights"], rtol=0, atol=1e-12)
            assert not weights[:, :, columns:].any()
            assert not trace[f"{path}.visible"][:, columns:].any()
        assert_close(trace["output.logits"][:m], alone["output.logits"], rtol=0, atol=1e-12)
        assert_close(trace["encoder.embedding.positions"][:n], alone["encoder.embedding.positions"])
    assert_close(batch["output.logits"], batch.example(0)["output.logits"], rtol=0, atol=0)
    with pytest.raises(IndexError):
        batch.example(3)["output.logits"]


@pytest.mark.unchecked
@pytest.mark.slow
def test_threads_that_share_a_model_get_their_own_tensors():
    model = network(n_encoder_layers=1, n_decoder_layers=1)
    references = [traced(network(n_encoder_layers=1, n_decoder_layers=1), ids=ids) for ids in INPUTS]
    kept = list(references[0]._tensors)
    weights = [name for name in references[0].names() if name.endswith(".weights")]
    together, done, failures = threading.Barrier(2), [0, 0], []

    def look(index: int) -> None:
        try:
            together.wait()  # both attach the hooks
            for turn in range(PASSES):
                trace = traced(model, ids=INPUTS[index])
                assert_same(trace, references[index], kept + weights if turn % 10 == 0 else kept)
                done[index] += 1
        except BaseException as error:  # noqa: BLE001 - the test's thread raises it
            failures.append(error)

    threads = [threading.Thread(target=look, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    assert done == [PASSES, PASSES]
