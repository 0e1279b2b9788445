"""A computation that is given up: where and when, and that it leaves the model as it was."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

from model.capture.interventions import Causal, intervening
from model.capture.trace import Trace
from model.inference.decoding import Sampling
from model.inference.text_model import TextModel
from model.runtime.cancellation import SupersededError, check, watch
from tests.event_loop import run
from tests.viz.small import small_model

TEXT = "The cat sees."
COMPUTATIONS: dict[str, Callable[[TextModel], Any]] = {
    "trace": lambda model: model.trace_tokens(model.source_tokens(TEXT), model.target_tokens("一七丞")),
    "trace of what is written": lambda model: model.trace(TEXT),
    "greedy": lambda model: model.generate(TEXT, length=8),
    "beam": lambda model: model.generate(TEXT, length=8, beam=3),
    "sampling": lambda model: model.generate(TEXT, length=8, sampling=Sampling(seed=1)),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> TextModel:
    return small_model(tmp_path_factory.mktemp("checkpoints") / "small")


@contextmanager
def counting(network: nn.Module, at: Callable[[int], None] = lambda call: None) -> Iterator[list[nn.Module]]:
    """A block in which the layers that have been computed are listed; `at` is told the number of each."""
    calls: list[nn.Module] = []

    def called(module: nn.Module, *_given: Any) -> None:
        calls.append(module)
        at(len(calls))

    layers = [*network.encoder.layers, *network.decoder.layers]  # type: ignore[union-attr, misc]
    hooks = [layer.register_forward_hook(called) for layer in layers]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Trace):
        return one.names() == other.names() and all(torch.equal(one[name], other[name]) for name in one.names())
    return bool(one == other)


def test_outside_of_a_watch_nothing_is_given_up():
    stale = threading.Event()
    stale.set()
    check()
    with watch(stale):
        pass
    check()


def test_inside_it_is_given_up_once_the_event_is_set_and_the_innermost_counts():
    stale, other = threading.Event(), threading.Event()
    with watch(stale):
        check()
        stale.set()
        with watch(other):
            check()
        with pytest.raises(SupersededError):
            check()
    with pytest.raises(SupersededError), watch(stale):
        check()
    check()  # a block that was given up is over too


def test_other_threads_and_tasks_are_not_given_up():
    stale, done = threading.Event(), []
    stale.set()

    def other(name: str) -> None:
        check()
        done.append(name)

    async def given_up() -> None:
        with watch(stale):
            await asyncio.sleep(0)
            with pytest.raises(SupersededError):
                check()

    async def not_given_up() -> None:
        await asyncio.sleep(0)
        other("task")

    async def both() -> None:
        await asyncio.gather(given_up(), not_given_up())

    with watch(stale):
        thread = threading.Thread(target=other, args=("thread",))
        thread.start()
        thread.join()
    run(both())
    assert done == ["thread", "task"]


@pytest.mark.parametrize("compute", COMPUTATIONS.values(), ids=COMPUTATIONS)
def test_a_computation_is_given_up_at_its_next_layer_or_step_and_leaves_no_trace(model, compute):
    with counting(model.network) as calls:
        expected = compute(model)
    stale, steps = threading.Event(), len(model.network.decoder.layers)  # type: ignore[union-attr, arg-type]
    middle = len(calls) // 2
    with (
        counting(model.network, lambda call: stale.set() if call == middle else None) as until,
        pytest.raises(SupersededError),
        watch(stale),
    ):
        compute(model)
    assert middle <= len(until) < min(middle + steps, len(calls))  # of a step that is begun, the layers are computed
    with counting(model.network):  # by the modules again, to the bit
        assert same(compute(model), expected)
    stale.clear()
    with watch(stale), counting(model.network):
        assert same(compute(model), expected)


def test_what_is_given_up_with_changes_leaves_the_model_unchanged(model):
    expected, stale = COMPUTATIONS["trace"](model), threading.Event()
    with (
        pytest.raises(SupersededError),
        counting(model.network, lambda call: stale.set() if call == 3 else None) as until,
        watch(stale),
        intervening(model.network, [Causal("decoder", False)]),
    ):
        COMPUTATIONS["trace"](model)
    assert len(until) == 3
    assert same(COMPUTATIONS["trace"](model), expected)
