"""A probe: a few tokens through a bridged stack, and all tensors between its modules, by which these are recognised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from model.checkpoints.bridge.hooks import Call, Pass, current, given_tensors
from model.runtime.device import exact
from model.runtime.errors import CheckpointError


@dataclass(eq=False)
class Event:
    """One call of a bridged module, with the tensors of one text that went in and came out, mostly (position, channel).

    number: of this call among the `calls` of the module in the pass. within: the calls around it, outermost first.
    begin, end: times, as numbers of hooks called.
    """

    module: nn.Module
    number: int
    within: tuple[Event, ...]
    begin: int
    end: int = 0
    calls: int = 1
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    attention: ObservedAttention | None = None

    @property
    def leaf(self) -> bool:
        """True if the module has no modules inside."""
        return not any(self.module.children())

    @property
    def x(self) -> Tensor:
        """First input, mostly (position, channel); empty where there is no tensor."""
        return self.inputs[0] if self.inputs else torch.empty(0)

    @property
    def y(self) -> Tensor:
        """First output, mostly (position, channel); empty where there is no tensor."""
        return self.outputs[0] if self.outputs else torch.empty(0)


@dataclass
class ObservedAttention:
    """An attention that a module computed, with its weights (batch, head, query, key).

    call, heads: arguments and result (batch, query, head, channel) of our function; None where it was not called.
    place: index of the weights in what the module returned.
    """

    call: Call | None
    heads: Tensor | None
    weights: Tensor
    place: int = 0

    @property
    def cross(self) -> bool:
        """True if it is cross-attention: queries and keys of a probe differ in number."""
        return self.weights.shape[-1] != self.weights.shape[-2]


@contextmanager
def probing(model: nn.Module, stack: str) -> Iterator[list[Event]]:
    """Block in which the calls of all modules of `model` are recorded, with the attentions that they compute.

    Raises:
        CheckpointError: a module attends twice in one call.
    """
    events: list[Event] = []
    running: list[Event] = []
    counts: dict[nn.Module, int] = {}
    clock = 0

    def begin(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        nonlocal clock
        clock += 1
        counts[module] = counts.get(module, -1) + 1
        event = Event(module, counts[module], tuple(running), clock)
        event.inputs = [flat(value).clone() for value in given_tensors(inputs, named)]
        running.append(event)

    def finish(_module: nn.Module, _inputs: tuple[Any, ...], _named: dict[str, Any], output: Any) -> None:
        nonlocal clock
        clock += 1
        event = running.pop()
        event.end = clock
        several = output.values() if isinstance(output, dict) else output
        values: list[Any] = [output] if isinstance(output, Tensor) or output is None else list(several)
        # Copies: a model may go on adding to its tensors in place.
        event.outputs = [flat(value).clone() for value in values if isinstance(value, Tensor)]
        if event.attention is None and (place := _place_of_weights(values)) is not None:
            inner = any(call.attention for call in events if event in call.within)
            event.attention = None if inner else ObservedAttention(None, None, values[place], place)
        events.append(event)

    def attended(call: Call, heads: Tensor, weights: Tensor) -> None:
        owner = next(event for event in reversed(running) if event.module is call.module)
        if owner.attention is not None:
            raise CheckpointError(
                "{kind} attends twice in one step, and what it takes from both are weights of neither: this "
                "model cannot be looked into",
                kind=type(call.module).__name__,
            )
        owner.attention = ObservedAttention(call, heads, weights)

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


def _place_of_weights(values: list[Any]) -> int | None:
    """Index of attention weights (batch, head, query, key) in what a module returned, by rows whose sum is 1."""
    for place, value in enumerate(values[1:], start=1):
        if isinstance(value, Tensor) and value.dim() == 4 and value.is_floating_point() and bool((value >= 0).all()):
            sums = value.float().sum(-1)
            if torch.allclose(sums, torch.ones_like(sums), atol=0.02):
                return place
    return None


def flat(x: Tensor) -> Tensor:
    """Tensor (position, channel) of a single text (1, position, channel); others as they are."""
    return x[0] if x.dim() == 3 and len(x) == 1 else x


def is_linear(event: Event) -> bool:
    """True if a call multiplied by a matrix: of nn.Linear, or GPT-2's Conv1D."""
    weight = getattr(event.module, "weight", None)
    multiplies = isinstance(event.module, nn.Linear) or type(event.module).__name__ == "Conv1D"
    return multiplies and event.leaf and bool(event.inputs) and isinstance(weight, Tensor) and weight.dim() == 2


def first(events: list[Event], wanted: Callable[[Event], bool]) -> Event | None:
    """First call that is wanted; None: none is."""
    return next((event for event in events if wanted(event)), None)


def same(x: Tensor | None, y: Tensor | None) -> bool:
    """True if two tensors of any shapes are exactly equal, as by the same additions in the same order."""
    return x is not None and y is not None and x.shape == y.shape and bool(torch.equal(x, y))


def close(x: Tensor, y: Tensor) -> bool:
    """True if two tensors of any shapes are equal up to rounding."""
    if x.shape != y.shape:
        return False
    tolerance = 2e-5 if x.dtype == torch.float32 else 1e-9 if x.dtype == torch.float64 else 0.02
    size = max(1e-3, float(y.abs().max()))
    return float((exact(x) - exact(y)).abs().max()) <= tolerance * size
