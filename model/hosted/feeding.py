"""The feed-forward network of a hosted layer, recognised by what flowed through it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from model.hosted.norming import as_linear, is_linear
from model.hosted.parts import HostedActivation, HostedFeedForward, HostedGatedFeedForward, HostedLinear
from model.hosted.passes import Side
from model.hosted.probe import Event, close, same
from model.network.layers import ACTIVATIONS

Matched = tuple[HostedFeedForward | None, list[tuple[Event, Side, nn.Module]], Event | None]


def match_feed_forward(free: list[Event], x: Tensor) -> Matched:
    """The network, whose modules tell it, and the call of W₂. free: the calls of a layer outside its attentions."""
    linears = [event for event in free if is_linear(event)]
    last = [event for event in linears if event.y.shape == x.shape]
    if not last or (output := as_linear(last[-1])) is None:
        return None, [], None
    written, units = last[-1], last[-1].x
    others = [event for event in linears if event is not written and event.y.shape == units.shape]
    for event in others:
        for made, activated in _activations(free, event):
            if same(made, units):
                return _plain(event, activated, written, output)
            for beside in others:
                if beside is not event and same(made * beside.y, units):
                    return _gated(event, activated, beside, written, output)
    for event in linears:
        if event.y.shape[-1] == 2 * units.shape[-1] and (halves := _halves(free, event, units)) is not None:
            return _gated_halves(event, halves, written, output)
    return None, [], written


def _halves(free: list[Event], event: Event, units: Tensor) -> tuple[bool, Activated] | None:
    """Whether the first half of a matrix's output is the gate of the second, or the other way; None: neither."""
    parts = event.y.chunk(2, dim=-1)
    for turned in (False, True):
        gate, other = reversed(parts) if turned else parts
        seen = [each for each in free if each.leaf and not is_linear(each) and same(each.x, gate)]
        for each in seen:
            if same(each.y * other, units):
                return turned, (each, each.module)
    return None


def _gated_halves(event: Event, found: tuple[bool, Activated], written: Event, output: nn.Module) -> Matched:
    whole, (turned, (activated, function)) = as_linear(event), found
    if whole is None or activated is None:
        return None, [], written
    weights = whole.weight.chunk(2)
    biases = (None, None) if whole.bias is None else whole.bias.chunk(2)
    halves = [HostedLinear(weight, bias) for weight, bias in zip(weights, biases, strict=True)]
    hidden, linear = reversed(halves) if turned else halves
    activation = HostedActivation(function)
    network = HostedGatedFeedForward(hidden, activation, output, linear)  # type: ignore[arg-type]
    tells: list[tuple[Event, Side, nn.Module]] = [
        *((event, "both", Halved(halves)), (activated, "both", activation)),
        *((written, "both", output), (written, "in", network.gated)),
    ]
    return network, tells, written


class Halved(nn.Module):
    """Tells two shadows the halves of what one matrix gave."""

    def __init__(self, halves: list[HostedLinear]) -> None:
        super().__init__()
        self.halves = nn.ModuleList(halves)

    def forward(self, x: Tensor, given: Tensor) -> Tensor:
        parts = zip(self.halves, given.chunk(2, dim=-1), strict=True)
        return torch.cat([shadow(x, part) for shadow, part in parts], dim=-1)


Activated = tuple[Event | None, Callable[[Tensor], Tensor]]  # the call that computed it, if a module did


def _activations(free: list[Event], event: Event) -> list[tuple[Tensor, Activated]]:
    """What may have been made of a matrix's output: by a module that read it, or by a function that we know."""
    found: list[tuple[Tensor, Activated]] = [
        (each.y, (each, each.module))
        for each in free
        if each.leaf
        and each.outputs
        and not is_linear(each)
        and each.y.shape == event.y.shape
        and same(each.x, event.y)
    ]
    for make in ACTIVATIONS.values():
        function = make()
        found.append((function(event.y), (None, function)))
    return found


def _plain(event: Event, activated: Activated, written: Event, output: nn.Module) -> Matched:
    hidden = as_linear(event)
    if hidden is None:
        return None, [], written
    activation = HostedActivation(activated[1])
    network = HostedFeedForward(hidden, activation, output)  # type: ignore[arg-type]
    tells: list[tuple[Event, Side, nn.Module]] = [(event, "both", hidden), (written, "both", output)]
    tells.append(_tell_activation(activated, activation, written))
    return network, tells, written


def _gated(event: Event, activated: Activated, beside: Event, written: Event, output: nn.Module) -> Matched:
    hidden, linear = as_linear(event), as_linear(beside)
    if hidden is None or linear is None or activated[0] is None:
        return None, [], written
    activation = HostedActivation(activated[1])
    network = HostedGatedFeedForward(hidden, activation, output, linear)  # type: ignore[arg-type]
    tells: list[tuple[Event, Side, nn.Module]] = [
        *((event, "both", hidden), (beside, "both", linear), (written, "both", output)),
        *(_tell_activation(activated, activation, written), (written, "in", network.gated)),
    ]
    return network, tells, written


def _tell_activation(activated: Activated, shadow: nn.Module, written: Event) -> tuple[Event, Side, nn.Module]:
    event, _function = activated
    return (written, "in", OfInput(shadow)) if event is None else (event, "both", shadow)


class OfInput(nn.Module):
    """Tells a shadow what reached the next module: its own function stands in no module."""

    def __init__(self, shadow: nn.Module) -> None:
        super().__init__()
        self.shadow = shadow

    def forward(self, given: Tensor) -> Tensor:
        made: Tensor = self.shadow(given, given)
        return made


def activation_name(function: Callable[[Tensor], Tensor], x: Tensor) -> str:
    """The option that names this function, "" if none does. A module that accelerate moves gives it elsewhere."""
    made = function(x).to(x.device)
    for name, make in ACTIVATIONS.items():
        if name not in ("swiglu", "geglu", "geglu-tanh") and close(made, make()(x)):
            return name
    return ""
