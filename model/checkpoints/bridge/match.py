"""Modules of a bridged stack matched with our quantities, where the numbers of a probe prove that they compute them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.checkpoints.bridge.experts import ExpertsMatch, MirrorExperts, OutputCopy, experts_call, match_experts
from model.checkpoints.bridge.hooks import LayerInput, MirrorSum, Side
from model.checkpoints.bridge.latents import latent_of
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
    module_tensor,
)
from model.checkpoints.bridge.operations import Products, products
from model.checkpoints.bridge.probe import Event, close, first, is_linear, same
from model.network.attention import for_each_head
from model.network.config import Latent
from model.network.layers import ACTIVATIONS
from model.runtime.device import exact

Links = list[tuple[Event, Side, nn.Module]]  # a call in the probe, a side of it, and the module of ours that mirrors it


@dataclass
class LayerMatch:
    """A layer of ours for a bridged one.

    layer: its call in the probe. parts: our modules by name. links: of these modules. missing: reasons, by quantity.
    operations: of its blocks by name, None where they are unknown. feed_forward: calls beside the attentions. experts:
    of its feed-forward network, None where it has none that are known. latent: of its self-attention, if it has one.
    placement: of the norms; "sandwich": before and after a block. parallel: whether the layer adds its attention's and
    its feed-forward network's outputs at once.
    """

    layer: Event
    parts: dict[str, nn.Module] = field(default_factory=dict)
    links: Links = field(default_factory=list)
    missing: dict[str, Reason] = field(default_factory=dict)
    placement: str = ""
    parallel: bool = False
    operations: dict[str, Products | None] = field(default_factory=dict)
    feed_forward: list[Event] = field(default_factory=list)
    experts: ExpertsMatch | None = None
    latent: Latent | None = None

    def block(self, sublayer: str) -> nn.Module:
        """Block around a sublayer."""
        return self.parts.setdefault(f"{sublayer}_block", MirrorBlock())

    def keep(self, sublayer: str, name: str, event: Event, side: Side, mirror: nn.Module) -> None:
        """Add a part to the block around a sublayer, and link it to a call."""
        self.block(sublayer).add_module(name, mirror)
        self.links.append((event, side, mirror))

    def mirror(self) -> MirrorLayer:
        """Our layer of the parts."""
        for name, operations in self.operations.items():
            if name in self.parts:
                self.parts[name].products = operations  # type: ignore[assignment]
        kind = MirrorDecoderLayer if "cross_attention" in self.parts else MirrorLayer
        mirror = kind(self.parts)
        mirror.beside = [operations for name, operations in self.operations.items() if name not in self.parts]
        return mirror


def match_layer(events: list[Event], layer: Event, attentions: list[Event]) -> LayerMatch:
    """Match of one layer. events: of the probe. attentions: its self-attention, and its cross-attention if any."""
    match = LayerMatch(layer)
    inside = [event for event in events if layer in event.within]
    sublayers = [
        _match_attention(match, inside, event, name)
        for event, name in zip(attentions, ("self_attention", "cross_attention"), strict=False)
    ]
    closed = [event for event in inside if event.within[-1] is layer and _holds(event, attentions)]
    mixture = next((call for event in inside if (call := experts_call(event, inside)) is not None), None)
    experts = _chosen(inside, layer) + ([] if mixture is None else [mixture.event])
    closed += experts
    free = [event for event in inside if not any(call is event or call in event.within for call in closed)]
    _count_operations(match, inside, attentions)
    network, feed_forward_links, output = match_feed_forward(free, layer.x)
    # Beside experts, a network that every token goes through is a part of the block only.
    adds = [output] if output is not None and not experts else []
    around = (
        [] if mixture is None else [call for call in (*mixture.event.within, mixture.event) if layer in call.within]
    )
    adds += [call for call in (*around, *free) if call.within[-1] is layer or call in around]
    adds = [call for call in adds if call.y.shape == layer.x.shape]
    sublayers.append(Sublayer("feed_forward", adds))
    absent = Reason.EXPERTS if experts else Reason.UNITS
    if mixture is not None:
        match.experts = match_experts(match.feed_forward, mixture, network, layer.x.shape[-1])
        match.parts["feed_forward"] = match.experts.experts
        match.links += match.experts.links
        for event, side, mirror in feed_forward_links:
            is_output = network is not None and mirror is network.output
            match.links.append((event, side, OutputCopy(mirror) if is_output else mirror))
    elif network is not None and not experts:
        match.parts["feed_forward"] = network
        match.links += feed_forward_links
    if network is None or experts:
        match.missing |= {f"feed_forward.{name}": absent for name in ("hidden", "activation")}
        match.missing["feed_forward.output"] = Reason.FLOW if experts else Reason.UNITS
    _match_stream(match, inside, sublayers)
    if mixture is not None and not hasattr(match.parts["feed_forward"], "output"):
        outer = next((call for call in around if call.y.shape == layer.x.shape), mixture.event)
        _sum_outputs(match, outer, None if output is None or outer in output.within else output)
    return match


def _sum_outputs(match: LayerMatch, experts: Event, shared: Event | None) -> None:
    """Match what experts, and shared ones beside them, give, where no module gives their sum as the layer adds it."""
    mirror: nn.Module = nn.Identity()
    match.parts["feed_forward"].add_module("output", mirror)
    match.missing.pop("feed_forward.output")
    if shared is not None:
        first_input = LayerInput()
        first_call, experts = sorted((experts, shared), key=lambda call: call.end)
        match.links.append((first_call, "out", first_input))
        mirror = MirrorSum(first_input, mirror)
    match.links.append((experts, "out", mirror))


def _count_operations(match: LayerMatch, inside: list[Event], attentions: list[Event]) -> None:
    """Note what each block multiplies by: an attention all that is in the part of the layer that it stands in, the
    feed-forward network the rest.
    """
    tokens, rest = len(match.layer.x), list(inside)
    for event, name in zip(attentions, ("self_attention", "cross_attention"), strict=False):
        around = [call for call in (*event.within, event) if match.layer in call.within]
        own = [call for call in rest if call is around[0] or around[0] in call.within] if around else []
        rest = [call for call in rest if call not in own]
        keys = event.attention.weights.shape[-1] if event.attention and event.attention.cross else None
        width = _width(event, own)
        match.operations[name] = None if width is None else products(own, tokens, keys, width)
        match.latent = match.latent or latent_of(event, own, match.layer.x.shape[-1])
    match.operations["feed_forward"] = products(rest, tokens, partly=True)
    match.feed_forward = rest


def _width(event: Event, own: list[Event]) -> int | None:
    """Channels of a query and a value together in all heads of an attention; None: unknown.

    Of one whose weights alone are seen, they are those of the matrices that it multiplies by, where all are as wide.
    """
    attention = event.attention
    assert attention is not None
    if attention.call is not None:
        return attention.call.query.shape[1] * (attention.call.query.shape[-1] + attention.call.value.shape[-1])
    written = [call for call in own if is_linear(call)]
    return 2 * written[-1].x.shape[-1] if written else None


def _chosen(inside: list[Event], layer: Event) -> list[Event]:
    """Calls of experts, which other tokens may not reach: members of a list of modules that were not all called."""
    called = {event.module for event in (*inside, layer)}
    holders = {holder for module in called for holder in (module, *module.children())}
    lists = [set(holder.children()) for holder in holders if isinstance(holder, nn.ModuleList | nn.ModuleDict)]
    return [event for event in inside if any(event.module in members and members - called for members in lists)]


def _holds(event: Event, attentions: list[Event]) -> bool:
    return any(attention is event or event in attention.within for attention in attentions)


def _match_attention(match: LayerMatch, inside: list[Event], event: Event, name: str) -> Sublayer:
    attention = event.attention
    assert attention is not None
    outer = [call for call in (*event.within, event) if match.layer in call.within and call.outputs]
    adds = [call for call in outer if call.y.shape == match.layer.x.shape]
    if attention.call is None:
        n_heads, cross = attention.weights.shape[1], name == "cross_attention"
        mirror = MirrorAttention(
            n_heads, n_heads, 1.0, computes=False, outside=True, cross=cross, place=attention.place
        )
        match.links.append((event, "weights", mirror))
        absent = ("query", "key", "value", "scores", "scaled", "masked", "heads", "output")
        match.missing |= {f"{name}.{part}": Reason.OUTSIDE for part in absent}
        whole = [call for call in inside if is_linear(call) and any(around in call.within for around in outer)]
        adds = [*reversed([call for call in whole if call.y.shape == match.layer.x.shape]), *adds]
    else:
        arguments, heads, n_heads = attention.call, attention.heads, attention.call.query.shape[1]
        assert heads is not None
        recombined = (attention.weights @ for_each_head(arguments.value, n_heads)).transpose(1, 2)
        written = first(inside, lambda call: is_linear(call) and same(call.x, heads.flatten(2)[0]))
        output = as_linear(written) if written else None
        mirror = MirrorAttention(
            n_heads,
            arguments.key.shape[1],
            arguments.factor,
            cap=arguments.cap,
            biased=arguments.bias is not None,
            computes=arguments.known,
            output=output,
            recombines=close(recombined, heads),
            sinks=arguments.sinks is not None and not arguments.known,
        )
        match.links.append((event, "attention", mirror))
        if written and output is not None:
            match.links.append((written, "both", output))
            adds.insert(0, written)
        else:
            match.missing[f"{name}.output"] = Reason.FLOW
        if not arguments.known:
            why = Reason.SINK if arguments.unknown == ["s_aux"] else Reason.STEPS
            match.missing |= {f"{name}.{part}": why for part in ("scores", "scaled", "masked")}
    match.parts[name] = mirror
    return Sublayer(name, adds, attention.call is None)


def _match_stream(match: LayerMatch, inside: list[Event], sublayers: list[Sublayer]) -> None:
    """Match norms and sums, where the sums are exactly those of a known placement of norms."""
    layer, norms = match.layer, [event for event in inside if as_norm(event) is not None]
    for placement in ("pre", "post"):
        trial = Trial(layer, inside, norms, placement)
        if trial.follow(sublayers):
            _keep_outputs(match, sublayers, trial.written)
            for block, name, event, side in trial.captures:
                match.keep(block, name, event, side, _mirror(event, side))
            normed = {block for block, name, *_rest in trial.captures if name == "norm"}
            absent = [sublayer.name for sublayer in sublayers if sublayer.name not in normed]
            match.missing |= {f"{name}_block.norm.output": Reason.FLOW for name in absent}
            match.placement = "sandwich" if any(name == "output_norm" for _s, name, *_ in trial.captures) else placement
            return
    pair = parallel(layer, sublayers)
    match.placement, match.parallel = "pre", pair is not None
    if pair is not None:
        _keep_outputs(match, [sublayers[0], sublayers[-1]], list(pair))
        _keep_sum(match, pair[0])
    read = next((event.x for event, _side, mirror in match.links if _is_first(mirror, match)), None)
    entering = first(norms, lambda event: same(event.x, layer.x))
    reading = first(norms, lambda event: same(event.y, read))
    norm_of = {sublayers[0].name: entering, sublayers[-1].name: reading}
    for sublayer in sublayers:
        if (norm := norm_of.get(sublayer.name)) is not None:
            match.keep(sublayer.name, "norm", norm, "both", _mirror(norm, "both"))
        else:
            match.missing[f"{sublayer.name}_block.norm.output"] = Reason.FLOW
    if pair is None:
        match.missing |= {f"{sublayer.name}_block.residual": Reason.FLOW for sublayer in sublayers[:-1]}
    match.keep("feed_forward", "residual", layer, "out", nn.Identity())


def _keep_outputs(match: LayerMatch, sublayers: list[Sublayer], written: list[Event]) -> None:
    """Match the outputs that blocks add to the stream, where they are not matched yet: the product by W^O of an
    attention of which only weights are seen, and the output of a feed-forward network of another form.
    """
    for sublayer, event in zip(sublayers, written, strict=True):
        part = match.parts.setdefault(sublayer.name, MirrorBlock())
        if isinstance(part, MirrorBlock | MirrorExperts):
            part.add_module("output", nn.Identity())
            match.links.append((event, "out", part.get_submodule("output")))
            match.missing.pop(f"{sublayer.name}.output")
        elif sublayer.outside and is_linear(event) and (output := as_linear(event)) is not None:
            match.parts[sublayer.name].add_module("output", output)
            match.links.append((event, "both", output))
            match.missing.pop(f"{sublayer.name}.output")


def _keep_sum(match: LayerMatch, attention: Event) -> None:
    """Match the stream after a parallel layer's attention, a sum that the model itself does not form."""
    layer_input, mirror = LayerInput(), nn.Identity()
    match.block("self_attention").add_module("residual", mirror)
    match.links += [(match.layer, "in", layer_input), (attention, "out", MirrorSum(layer_input, mirror))]


def _is_first(mirror: nn.Module, match: LayerMatch) -> bool:
    """True if a mirror reads the input of a layer's feed-forward network."""
    network = match.parts.get("feed_forward")
    return isinstance(network, MirrorFeedForward) and (mirror is network.hidden or isinstance(mirror, MirrorHalves))


def _mirror(event: Event, side: Side) -> nn.Module:
    mirror = as_norm(event) if side == "both" else nn.Identity()
    assert mirror is not None
    return mirror


# The feed-forward network of a bridged layer, recognised by the numbers that flowed through it.

FeedForwardMatch = tuple[MirrorFeedForward | None, Links, Event | None]


def match_feed_forward(free: list[Event], x: Tensor) -> FeedForwardMatch:
    """Feed-forward network, its links, and the call of W₂; None and no links where it is of another form.

    free: calls of a layer outside its attentions and experts. x: input of the layer, (position, d_model).
    """
    linears = [event for event in free if is_linear(event)]
    last = [event for event in linears if event.y.shape == x.shape]
    if not last or (output := as_linear(last[-1])) is None:
        return None, [], None
    written, units = last[-1], last[-1].x
    others = [event for event in linears if event is not written and event.y.shape == units.shape]
    for event in others:
        for activation, activated in _activations(free, event):
            if same(activation, units):
                return _network(event, activated, None, written, output)
            for gated in others:
                if gated is not event and same(activation * gated.y, units):
                    return _network(event, activated, gated, written, output)
    for event in linears:
        if event.y.shape[-1] == 2 * units.shape[-1] and (halves := _halves(free, event, units)) is not None:
            return _gated_halves(event, halves, written, output)
    return None, [], written


def _halves(free: list[Event], event: Event, units: Tensor) -> tuple[bool, Activated] | None:
    """True if the second half of a matrix's output is the gate of the first, and the gate's activation; None: neither
    half is the other's gate.
    """
    parts = event.y.chunk(2, dim=-1)
    for turned in (False, True):
        gate, other = reversed(parts) if turned else parts
        calls = [call for call in free if call.leaf and not is_linear(call) and same(call.x, gate)]
        for call in calls:
            if same(call.y * other, units):
                return turned, (call, call.module)
    return None


def _gated_halves(event: Event, halves: tuple[bool, Activated], written: Event, output: nn.Module) -> FeedForwardMatch:
    whole, (turned, (activated, function)) = as_linear(event), halves
    if whole is None or activated is None:
        return None, [], written
    weights = whole.weight.chunk(2)
    biases = (None, None) if whole.bias is None else whole.bias.chunk(2)
    matrices = [MirrorLinear(weight, bias) for weight, bias in zip(weights, biases, strict=True)]
    hidden, linear = reversed(matrices) if turned else matrices
    activation = MirrorActivation(function)
    network = MirrorGatedFeedForward(hidden, activation, output, linear)  # type: ignore[arg-type]
    links: Links = [
        *((event, "both", MirrorHalves(matrices)), (activated, "both", activation)),
        *((written, "both", output), (written, "in", network.gated)),
    ]
    return network, links, written


class MirrorHalves(nn.Module):
    """Mirror of a matrix whose output's halves are the outputs of two matrices of ours."""

    def __init__(self, halves: list[MirrorLinear]) -> None:
        super().__init__()
        self.halves = nn.ModuleList(halves)

    def forward(self, x: Tensor, observed: Tensor) -> Tensor:
        parts = zip(self.halves, observed.chunk(2, dim=-1), strict=True)
        return torch.cat([mirror(x, part) for mirror, part in parts], dim=-1)


Activated = tuple[Event | None, Callable[[Tensor], Tensor]]  # an activation: its call, if a module computed it


def _activations(free: list[Event], event: Event) -> list[tuple[Tensor, Activated]]:
    """Possible activations of a matrix's output, with their values: modules that read it, and our own functions."""
    activations: list[tuple[Tensor, Activated]] = [
        (call.y, (call, call.module))
        for call in free
        if call.leaf
        and call.outputs
        and len(call.inputs) == 1
        and not is_linear(call)
        and call.y.shape == event.y.shape
        and same(call.x, event.y)
    ]
    for make in ACTIVATIONS.values():
        function = make()
        activations.append((function(event.y), (None, function)))
    return activations


def _network(
    event: Event, activated: Activated, gated: Event | None, written: Event, output: nn.Module
) -> FeedForwardMatch:
    """Match of a network. gated: call of the matrix whose output is gated, None in a network without gates."""
    hidden, linear = as_linear(event), None if gated is None else as_linear(gated)
    applied, function = activated
    if hidden is None or (gated is not None and (linear is None or applied is None)):
        return None, [], written
    activation = MirrorActivation(function)
    links: Links = [(event, "both", hidden), (written, "both", output)]
    links.append((written, "in", MirrorInput(activation)) if applied is None else (applied, "both", activation))
    if gated is None or linear is None:
        return MirrorFeedForward(hidden, activation, output), links, written  # type: ignore[arg-type]
    network = MirrorGatedFeedForward(hidden, activation, output, linear)  # type: ignore[arg-type]
    return network, [*links, (gated, "both", linear), (written, "in", network.gated)], written


class MirrorInput(nn.Module):
    """Calls a mirror with the input of the next module, which is the output of a function that stands in no module."""

    def __init__(self, mirror: nn.Module) -> None:
        super().__init__()
        self.mirror = mirror

    def forward(self, observed: Tensor) -> Tensor:
        result: Tensor = self.mirror(observed, observed)
        return result


# Norms and matrices of a bridged model, recognised by the numbers that they computed.

EPSILONS = ("eps", "variance_epsilon", "epsilon")
USUAL = (1e-5, 1e-6, 1e-12, 1e-8)


def as_norm(event: Event) -> MirrorNorm | None:
    """Norm over the channels that a call computed; None: it is none of ours."""
    module = event.module
    if "norm" not in type(module).__name__.lower() or not event.inputs or not event.outputs:
        return None
    x, y = event.x, event.y
    if x.dim() != 2 or x.shape != y.shape:
        return None
    tensors = module_tensor(module), module_tensor(module, "bias")
    weight, bias = (None if tensor is None else tensor.to(x.device) for tensor in tensors)
    if any(tensor is not None and (tensor.is_meta or tensor.shape != x.shape[-1:]) for tensor in (weight, bias)):
        return None
    epsilons = [getattr(module, name) for name in EPSILONS if isinstance(getattr(module, name, None), float)]
    for eps in (*epsilons, *USUAL):
        for centred in (True, False):
            for scale in (weight, None if weight is None else 1 + weight):
                if close(_normed(x, scale, bias, eps, centred), y):
                    return MirrorNorm(scale, bias, eps, centred, x.shape[-1])
    return None


def _normed(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool) -> Tensor:
    width = x.shape[-1:]
    scale, shift = (None if tensor is None else exact(tensor) for tensor in (weight, bias))
    if bias is not None and not centred:
        return torch.full_like(x, torch.nan)
    y = F.layer_norm(exact(x), width, scale, shift, eps) if centred else F.rms_norm(exact(x), width, scale, eps)
    return y.to(x.dtype).to(x.device)


def as_linear(event: Event) -> MirrorLinear | None:
    """Matrix (output, input) of a call that multiplied by one; None: another matrix was used, as if it is quantized."""
    weight = module_tensor(event.module)
    if weight is None or not weight.is_floating_point() or weight.is_meta:
        return None
    if not isinstance(event.module, nn.Linear):
        weight = weight.T
    matrix = MirrorLinear(weight, module_tensor(event.module, "bias"))
    return matrix if close(matrix(event.x), event.y) else None


# Additions of the blocks of a bridged layer to the stream, and places of its norms: found by sums that are exact.


@dataclass
class Sublayer:
    """A block of a layer. adds: calls whose output it may add to the stream, likeliest first.

    outside: whether it is an attention of which only weights are seen, so that W^O is one of these calls.
    """

    name: str
    adds: list[Event]
    outside: bool = False


def parallel(layer: Event, sublayers: list[Sublayer]) -> tuple[Event, Event] | None:
    """Calls of the attention and the feed-forward network whose outputs, added to the layer's input, are its output;
    None: there are no such.
    """
    x = layer.x
    for attention in sublayers[0].adds:
        for network in sublayers[-1].adds:
            a, f = attention.y, network.y
            if a.shape == f.shape == x.shape and any(
                same(total, layer.y) for total in (a + f + x, x + a + f, x + f + a)
            ):
                return attention, network
    return None


class Trial:
    """One placement of the norms, "pre" or "post", tried on a layer.

    captures: name of the sublayer, name of the part, call, and its side. written: the call that gave each block its
    addend.
    """

    def __init__(self, layer: Event, inside: list[Event], norms: list[Event], placement: str) -> None:
        self.layer, self.inside, self.norms, self.placement = layer, inside, norms, placement
        self.captures: list[tuple[str, str, Event, Side]] = []
        self.written: list[Event] = []

    def follow(self, sublayers: list[Sublayer]) -> bool:
        """True if the blocks' sums, one after the other, lead from the layer's input to its output."""
        state = self.layer.x
        for sublayer in sublayers:
            after = self._block(sublayer, state)
            if after is None:
                return False
            state = after
        return same(state, self.layer.y)

    def _block(self, sublayer: Sublayer, state: Tensor) -> Tensor | None:
        """Stream (position, d_model) after a block; None: its sum is nowhere in the layer."""
        before = first(self.norms, lambda event: same(event.x, state)) if self.placement == "pre" else None
        for event in sublayer.adds:
            added = event.y
            if added.shape != state.shape:  # of a layer whose blocks work on a narrower stream
                continue
            normed = first(self.norms, lambda event, y=added: same(event.x, y))  # type: ignore[misc]
            for y, output_norm in ((normed.y, normed), (added, None)) if normed else ((added, None),):
                total = state + y
                where = self._where(total)
                if where is None:
                    continue
                self.written.append(event)
                if before is not None:
                    self.captures.append((sublayer.name, "norm", before, "both"))
                if output_norm is not None:
                    self.captures.append((sublayer.name, "output_norm", output_norm, "both"))
                self.captures.append((sublayer.name, "residual", *where))
                if self.placement == "pre":
                    return total
                after = first(self.norms, lambda event: same(event.x, total))  # noqa: B023
                if after is None:
                    return None
                self.captures.append((sublayer.name, "norm", after, "both"))
                return after.y
        return None

    def _where(self, total: Tensor) -> tuple[Event, Side] | None:
        for event in (*self.inside, self.layer):
            if event is not self.layer and event.inputs and same(event.x, total):
                return event, "in"
            if event.outputs and same(event.y, total):
                return event, "out"
        return None
