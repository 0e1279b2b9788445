"""Which of our quantities the modules of a bridged stack compute: only what the numbers of a probe prove."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.checkpoints.bridge.hooks import Entering, Side, SumOfTwo
from model.checkpoints.bridge.missing import Reason
from model.checkpoints.bridge.modules import (
    MirrorActivation,
    MirrorAttention,
    MirrorBlock,
    MirrorDecoderLayer,
    MirrorFeedForward,
    MirrorGatedFeedForward,
    MirrorLayer,
    MirrorLinear,
    MirrorNorm,
    held,
)
from model.checkpoints.bridge.probe import Event, close, first, same
from model.network.attention import for_each_head
from model.network.layers import ACTIVATIONS
from model.runtime.device import exact

Tells = list[tuple[Event, Side, nn.Module]]


@dataclass
class LayerMatch:
    """A layer of ours for a bridged one: its parts by name, whose modules tell them, and what is missing and why."""

    layer: Event
    parts: dict[str, nn.Module] = field(default_factory=dict)
    tells: Tells = field(default_factory=list)
    missing: dict[str, Reason] = field(default_factory=dict)
    placement: str = ""
    parallel: bool = False

    def block(self, sublayer: str) -> nn.Module:
        return self.parts.setdefault(f"{sublayer}_block", MirrorBlock())

    def keep(self, sublayer: str, name: str, event: Event, side: Side, shadow: nn.Module) -> None:
        """A part of the block around a sublayer."""
        self.block(sublayer).add_module(name, shadow)
        self.tells.append((event, side, shadow))

    def built(self) -> nn.Module:
        kind = MirrorDecoderLayer if "cross_attention" in self.parts else MirrorLayer
        return kind(self.parts)


def match_layer(events: list[Event], layer: Event, attentions: list[Event]) -> LayerMatch:
    """The parts of one layer. attentions: its self-attention, and cross-attention where it has one."""
    found = LayerMatch(layer)
    inside = [event for event in events if layer in event.within]
    sublayers = [
        _match_attention(found, inside, event, name)
        for event, name in zip(attentions, ("self_attention", "cross_attention"), strict=False)
    ]
    closed = [event for event in inside if event.within[-1] is layer and _holds(event, attentions)]
    closed += _chosen(inside, layer)
    free = [event for event in inside if not any(each is event or each in event.within for each in closed)]
    network, told, output = match_feed_forward(free, layer.x)
    adds = [output] if output is not None else []
    adds += [each for each in free if each.within[-1] is layer and each.y.shape == layer.x.shape]
    sublayers.append(Sublayer("feed_forward", adds))
    if network is not None:
        found.parts["feed_forward"] = network
        found.tells += told
    else:
        found.missing |= {f"feed_forward.{name}": Reason.UNITS for name in ("hidden", "activation", "output")}
    _match_stream(found, inside, sublayers)
    return found


def _chosen(inside: list[Event], layer: Event) -> list[Event]:
    """The calls of experts, which other tokens may not reach: members of a list that was not called whole."""
    called = {event.module for event in (*inside, layer)}
    holders = {each for module in called for each in (module, *module.children())}
    lists = [set(each.children()) for each in holders if isinstance(each, nn.ModuleList | nn.ModuleDict)]
    return [event for event in inside if any(event.module in members and members - called for members in lists)]


def _holds(event: Event, attentions: list[Event]) -> bool:
    return any(each is event or event in each.within for each in attentions)


def _match_attention(found: LayerMatch, inside: list[Event], event: Event, name: str) -> Sublayer:
    seen = event.attention
    assert seen is not None
    outer = [each for each in (*event.within, event) if found.layer in each.within and each.outputs]
    adds = [each for each in outer if each.y.shape == found.layer.x.shape]
    if seen.call is None:
        heads, cross = seen.weights.shape[1], name == "cross_attention"
        shadow = MirrorAttention(heads, heads, 1.0, own=False, outside=True, cross=cross, place=seen.place)
        found.tells.append((event, "weights", shadow))
        absent = ("query", "key", "value", "scores", "scaled", "masked", "heads", "output")
        found.missing |= {f"{name}.{part}": Reason.OUTSIDE for part in absent}
        whole = [each for each in inside if is_linear(each) and any(one in each.within for one in outer)]
        adds = [*reversed([each for each in whole if each.y.shape == found.layer.x.shape]), *adds]
    else:
        call, joined = seen.call, seen.heads
        assert joined is not None
        written = first(inside, lambda each: is_linear(each) and same(each.x, joined.flatten(2)[0]))
        output = as_linear(written) if written else None
        shadow = MirrorAttention(
            call.query.shape[1],
            call.key.shape[1],
            call.factor,
            cap=call.cap,
            biased=call.bias is not None,
            own=call.known,
            output=output,
            recombines=close((seen.weights @ for_each_head(call.value, call.query.shape[1])).transpose(1, 2), joined),
        )
        found.tells.append((event, "attention", shadow))
        if written and output is not None:
            found.tells.append((written, "both", output))
            adds.insert(0, written)
        else:
            found.missing[f"{name}.output"] = Reason.FLOW
        if not call.known:
            found.missing |= {f"{name}.{part}": Reason.STEPS for part in ("scores", "scaled", "masked")}
    found.parts[name] = shadow
    return Sublayer(name, adds, seen.call is None)


def _match_stream(found: LayerMatch, inside: list[Event], sublayers: list[Sublayer]) -> None:
    """Where norms stand and what is added to what, if the sums are exactly those of a placement that we know."""
    layer, norms = found.layer, [event for event in inside if as_norm(event) is not None]
    for placement in ("pre", "post"):
        trial = Trial(layer, inside, norms, placement)
        if trial.follow(sublayers):
            _keep_outputs(found, sublayers, trial.written)
            for sublayer, name, event, side in trial.kept:
                found.keep(sublayer, name, event, side, _shadow(event, side))
            normed = {sublayer for sublayer, name, *_rest in trial.kept if name == "norm"}
            absent = [each.name for each in sublayers if each.name not in normed]
            found.missing |= {f"{name}_block.norm.output": Reason.FLOW for name in absent}
            found.placement = "sandwich" if any(name == "output_norm" for _s, name, *_ in trial.kept) else placement
            return
    pair = parallel(layer, sublayers)
    found.placement, found.parallel = "pre", pair is not None
    if pair is not None:
        _keep_outputs(found, [sublayers[0], sublayers[-1]], list(pair))
        _keep_sum(found, pair[0])
    reason = Reason.FLOW
    read = next((event.x for event, _side, shadow in found.tells if _is_first(shadow, found)), None)
    entering = first(norms, lambda event: same(event.x, layer.x))
    reading = first(norms, lambda event: same(event.y, read))
    for block, norm in ((sublayers[0], entering), (sublayers[-1], reading)):
        if norm is not None:
            found.keep(block.name, "norm", norm, "both", _shadow(norm, "both"))
    seen = {sublayers[0].name: entering, sublayers[-1].name: reading}
    found.missing |= {f"{each.name}_block.norm.output": reason for each in sublayers if seen.get(each.name) is None}
    if pair is None:
        found.missing |= {f"{each.name}_block.residual": reason for each in sublayers[:-1]}
    found.keep("feed_forward", "residual", layer, "out", nn.Identity())


def _keep_outputs(found: LayerMatch, sublayers: list[Sublayer], written: list[Event]) -> None:
    """What blocks add to the stream, where it is not known otherwise: the product of a matrix for an attention seen
    from outside, which is its W^O, or what a feed-forward network of another form gave.
    """
    for sublayer, event in zip(sublayers, written, strict=True):
        if sublayer.name not in found.parts:
            block = found.parts[sublayer.name] = MirrorBlock()
            block.add_module("output", nn.Identity())
            found.tells.append((event, "out", block.get_submodule("output")))
            found.missing.pop(f"{sublayer.name}.output")
        elif sublayer.outside and is_linear(event) and (output := as_linear(event)) is not None:
            found.parts[sublayer.name].add_module("output", output)
            found.tells.append((event, "both", output))
            found.missing.pop(f"{sublayer.name}.output")


def _keep_sum(found: LayerMatch, attention: Event) -> None:
    """What a parallel layer's attention leaves, which the model adds up only together with the rest."""
    entering, shadow = Entering(), nn.Identity()
    found.block("self_attention").add_module("residual", shadow)
    found.tells += [(found.layer, "in", entering), (attention, "out", SumOfTwo(entering, shadow))]


def _is_first(shadow: nn.Module, found: LayerMatch) -> bool:
    """Whether this is what reads a layer's feed-forward input."""
    network = found.parts.get("feed_forward")
    return isinstance(network, MirrorFeedForward) and (shadow is network.hidden or isinstance(shadow, Halved))


def _shadow(event: Event, side: Side) -> nn.Module:
    made = as_norm(event) if side == "both" else nn.Identity()
    assert made is not None
    return made


# The feed-forward network of a bridged layer, recognised by what flowed through it.

Matched = tuple[MirrorFeedForward | None, Tells, Event | None]


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
                return _network(event, activated, None, written, output)
            for beside in others:
                if beside is not event and same(made * beside.y, units):
                    return _network(event, activated, beside, written, output)
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
    halves = [MirrorLinear(weight, bias) for weight, bias in zip(weights, biases, strict=True)]
    hidden, linear = reversed(halves) if turned else halves
    activation = MirrorActivation(function)
    network = MirrorGatedFeedForward(hidden, activation, output, linear)  # type: ignore[arg-type]
    tells: Tells = [
        *((event, "both", Halved(halves)), (activated, "both", activation)),
        *((written, "both", output), (written, "in", network.gated)),
    ]
    return network, tells, written


class Halved(nn.Module):
    """Tells two shadows the halves of what one matrix gave."""

    def __init__(self, halves: list[MirrorLinear]) -> None:
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


def _network(event: Event, activated: Activated, beside: Event | None, written: Event, output: nn.Module) -> Matched:
    """beside: the call of the matrix whose output is gated, None in a network without gates."""
    hidden, linear = as_linear(event), None if beside is None else as_linear(beside)
    applied, function = activated
    if hidden is None or (beside is not None and (linear is None or applied is None)):
        return None, [], written
    activation = MirrorActivation(function)
    tells: Tells = [(event, "both", hidden), (written, "both", output)]
    tells.append((written, "in", OfInput(activation)) if applied is None else (applied, "both", activation))
    if beside is None or linear is None:
        return MirrorFeedForward(hidden, activation, output), tells, written  # type: ignore[arg-type]
    network = MirrorGatedFeedForward(hidden, activation, output, linear)  # type: ignore[arg-type]
    return network, [*tells, (beside, "both", linear), (written, "in", network.gated)], written


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


# Norms and matrices of a bridged model, recognised by what they computed.

EPSILONS = ("eps", "variance_epsilon", "epsilon")
USUAL = (1e-5, 1e-6, 1e-12, 1e-8)


def as_norm(event: Event) -> MirrorNorm | None:
    """The norm over the channels that this call computed, None if it was none that we know."""
    module = event.module
    if "norm" not in type(module).__name__.lower() or not event.inputs or not event.outputs:
        return None
    x, y = event.x, event.y
    if x.dim() != 2 or x.shape != y.shape:
        return None
    found = held(module), held(module, "bias")
    weight, bias = (None if each is None else each.to(x.device) for each in found)
    if any(each is not None and (each.is_meta or each.shape != x.shape[-1:]) for each in (weight, bias)):
        return None
    own = [getattr(module, name) for name in EPSILONS if isinstance(getattr(module, name, None), float)]
    for eps in (*own, *USUAL):
        for centred in (True, False):
            for scale in (weight, None if weight is None else 1 + weight):
                if close(_normed(x, scale, bias, eps, centred), y):
                    return MirrorNorm(scale, bias, eps, centred, x.shape[-1])
    return None


def _normed(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool) -> Tensor:
    width = x.shape[-1:]
    scale, shift = (None if each is None else exact(each) for each in (weight, bias))
    if bias is not None and not centred:
        return torch.full_like(x, torch.nan)
    y = F.layer_norm(exact(x), width, scale, shift, eps) if centred else F.rms_norm(exact(x), width, scale, eps)
    return y.to(x.dtype).to(x.device)


def is_linear(event: Event) -> bool:
    """Whether this call multiplied by a matrix: nn.Linear, or GPT-2's Conv1D."""
    weight = getattr(event.module, "weight", None)
    known = isinstance(event.module, nn.Linear) or type(event.module).__name__ == "Conv1D"
    return known and event.leaf and bool(event.inputs) and isinstance(weight, Tensor) and weight.dim() == 2


def as_linear(event: Event) -> MirrorLinear | None:
    """The matrix of this call as rows of the output; None if it is not what was multiplied by, as if quantized."""
    weight = held(event.module)
    assert weight is not None
    if not isinstance(event.module, nn.Linear):
        weight = weight.T
    if not weight.is_floating_point() or weight.is_meta:
        return None
    made = MirrorLinear(weight, held(event.module, "bias"))
    return made if close(made(event.x), event.y) else None


# How the blocks of a bridged layer add to the stream, and where its norms stand: found by sums that are exact.


@dataclass
class Sublayer:
    """A block of a layer. adds: the calls that may have given what it writes to the stream, likeliest first.

    outside: of an attention whose W^O is known only by being among them.
    """

    name: str
    adds: list[Event]
    outside: bool = False


def parallel(layer: Event, sublayers: list[Sublayer]) -> tuple[Event, Event] | None:
    """The calls whose outputs are both added to what the layer read, and nothing else."""
    x = layer.x
    for attention in sublayers[0].adds:
        for network in sublayers[-1].adds:
            a, f = attention.y, network.y
            if any(same(total, layer.y) for total in (a + f + x, x + a + f, x + f + a)):
                return attention, network
    return None


class Trial:
    """One placement of the norms, followed through a layer.

    kept: sublayer, part, event, and which side of it. written: what gave each block's addend.
    """

    def __init__(self, layer: Event, inside: list[Event], norms: list[Event], placement: str) -> None:
        self.layer, self.inside, self.norms, self.placement = layer, inside, norms, placement
        self.kept: list[tuple[str, str, Event, Side]] = []
        self.written: list[Event] = []

    def follow(self, sublayers: list[Sublayer]) -> bool:
        state = self.layer.x
        for sublayer in sublayers:
            after = self._block(sublayer, state)
            if after is None:
                return False
            state = after
        return same(state, self.layer.y)

    def _block(self, sublayer: Sublayer, state: Tensor) -> Tensor | None:
        """The stream after a block, None where its sum is nowhere in the layer."""
        before = first(self.norms, lambda event: same(event.x, state)) if self.placement == "pre" else None
        for event in sublayer.adds:
            added = event.y
            normed = first(self.norms, lambda event, y=added: same(event.x, y))  # type: ignore[misc]
            for y, output_norm in ((normed.y, normed), (added, None)) if normed else ((added, None),):
                total = state + y
                where = self._where(total)
                if where is None:
                    continue
                self.written.append(event)
                if before is not None:
                    self.kept.append((sublayer.name, "norm", before, "both"))
                if output_norm is not None:
                    self.kept.append((sublayer.name, "output_norm", output_norm, "both"))
                self.kept.append((sublayer.name, "residual", *where))
                if self.placement == "pre":
                    return total
                after = first(self.norms, lambda event: same(event.x, total))  # noqa: B023
                if after is None:
                    return None
                self.kept.append((sublayer.name, "norm", after, "both"))
                return after.y
        return None

    def _where(self, total: Tensor) -> tuple[Event, Side] | None:
        for event in (*self.inside, self.layer):
            if event is not self.layer and event.inputs and same(event.x, total):
                return event, "in"
            if event.outputs and same(event.y, total):
                return event, "out"
        return None
