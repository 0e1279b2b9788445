"""A few tokens through a bridged stack, and what flowed between its modules: from that its parts are recognised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from model.checkpoints.bridge.hooks import Call, Pass, current
from model.runtime.device import exact
from model.runtime.errors import CheckpointError


@dataclass(eq=False)
class Event:
    """One call of a bridged module: what went in and came out, as (position, channel) where it was of one text.

    number: which call of this module it is, of `calls` in the pass. within: the calls it was part of, outermost first.
    begin, end: when.
    """

    module: nn.Module
    number: int
    within: tuple[Event, ...]
    begin: int
    end: int = 0
    calls: int = 1
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    attention: Attended | None = None

    @property
    def leaf(self) -> bool:
        return not any(self.module.children())

    @property
    def x(self) -> Tensor:
        """What went in; empty where no tensor did."""
        return self.inputs[0] if self.inputs else torch.empty(0)

    @property
    def y(self) -> Tensor:
        """What came out; empty where no tensor did."""
        return self.outputs[0] if self.outputs else torch.empty(0)


@dataclass
class Attended:
    """An attention that a module computed. call: None where it did so without our function.

    place: of the weights in what the module returned.
    """

    call: Call | None
    heads: Tensor | None
    weights: Tensor
    place: int = 0

    @property
    def cross(self) -> bool:
        return self.weights.shape[-1] != self.weights.shape[-2]


@contextmanager
def probing(model: nn.Module, stack: str) -> Iterator[list[Event]]:
    """A block in which every call of a module of `model` is noted, with the attentions that it computes."""
    events: list[Event] = []
    running: list[Event] = []
    counts: dict[nn.Module, int] = {}
    clock = 0

    def begin(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        nonlocal clock
        clock += 1
        counts[module] = counts.get(module, -1) + 1
        given = [*inputs, *([named["hidden_states"]] if "hidden_states" in named else [])]
        event = Event(module, counts[module], tuple(running), clock)
        event.inputs = [flat(each).clone() for each in given if isinstance(each, Tensor)]
        running.append(event)

    def finish(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        nonlocal clock
        clock += 1
        event = running.pop()
        event.end = clock
        several = output.values() if isinstance(output, dict) else output
        made: list[Any] = [output] if isinstance(output, Tensor) or output is None else list(several)
        # Copies: a model may go on adding to its tensors in place.
        event.outputs = [flat(each).clone() for each in made if isinstance(each, Tensor)]
        if event.attention is None and (place := _place_of_weights(made)) is not None:
            inner = any(each.attention for each in events if event in each.within)
            event.attention = None if inner else Attended(None, None, made[place], place)
        events.append(event)

    def attended(call: Call, heads: Tensor, weights: Tensor) -> None:
        owner = next(event for event in reversed(running) if event.module is call.module)
        if owner.attention is not None:
            raise CheckpointError(
                f"{type(call.module).__name__} attends twice in one step, and what it takes from both are weights of "
                "neither: this model cannot be looked into"
            )
        owner.attention = Attended(call, heads, weights)

    hooks = []
    for module in model.modules():
        hooks.append(module.register_forward_pre_hook(begin, with_kwargs=True, prepend=True))
        hooks.append(module.register_forward_hook(finish, with_kwargs=True))
    token = current.set(Pass(stack, 1, probe=attended))
    try:
        yield events
    finally:
        current.reset(token)
        for hook in hooks:
            hook.remove()
        events.sort(key=lambda event: event.begin)
        for event in events:
            event.calls = counts[event.module] + 1


def _place_of_weights(made: list[Any]) -> int | None:
    """Where attention weights are in what a module returned: rows that add up to 1, of every head."""
    for place, each in enumerate(made[1:], start=1):
        if isinstance(each, Tensor) and each.dim() == 4 and each.is_floating_point() and bool((each >= 0).all()):
            sums = each.float().sum(-1)
            if torch.allclose(sums, torch.ones_like(sums), atol=0.02):
                return place
    return None


def flat(x: Tensor) -> Tensor:
    """Without the batch dimension of a single text."""
    return x[0] if x.dim() == 3 and len(x) == 1 else x


def first(events: list[Event], wanted: Callable[[Event], bool]) -> Event | None:
    return next((event for event in events if wanted(event)), None)


def same(x: Tensor | None, y: Tensor | None) -> bool:
    """Exactly equal: the same additions in the same order."""
    return x is not None and y is not None and x.shape == y.shape and bool(torch.equal(x, y))


def close(x: Tensor, y: Tensor) -> bool:
    """Equal up to rounding."""
    if x.shape != y.shape:
        return False
    tolerance = 2e-5 if x.dtype == torch.float32 else 1e-9 if x.dtype == torch.float64 else 0.02
    size = max(1e-3, float(y.abs().max()))
    return float((exact(x) - exact(y)).abs().max()) <= tolerance * size
