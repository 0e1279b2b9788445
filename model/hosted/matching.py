"""Which of our quantities the modules of a hosted stack compute: only what the numbers of a probe prove."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from model.hosted.attention import HostedAttention
from model.hosted.feeding import Halved, match_feed_forward
from model.hosted.norming import as_linear, as_norm, is_linear
from model.hosted.parts import HostedBlock, HostedDecoderLayer, HostedFeedForward, HostedLayer
from model.hosted.passes import Entering, Side, SumOfTwo
from model.hosted.probe import Event, close, first, same
from model.hosted.reasons import Reason
from model.hosted.streams import Sublayer, Trial, parallel
from model.network.attention import for_each_head

Tells = list[tuple[Event, Side, nn.Module]]


@dataclass
class Found:
    """A layer of ours for a hosted one: its parts by name, whose modules tell them, and what is missing and why."""

    layer: Event
    parts: dict[str, nn.Module] = field(default_factory=dict)
    tells: Tells = field(default_factory=list)
    missing: dict[str, Reason] = field(default_factory=dict)
    placement: str = ""
    parallel: bool = False

    def block(self, sublayer: str) -> nn.Module:
        return self.parts.setdefault(f"{sublayer}_block", HostedBlock())

    def keep(self, sublayer: str, name: str, event: Event, side: Side, shadow: nn.Module) -> None:
        """A part of the block around a sublayer."""
        self.block(sublayer).add_module(name, shadow)
        self.tells.append((event, side, shadow))

    def built(self) -> nn.Module:
        kind = HostedDecoderLayer if "cross_attention" in self.parts else HostedLayer
        return kind(self.parts)


def match_layer(events: list[Event], layer: Event, attentions: list[Event]) -> Found:
    """The parts of one layer. attentions: its self-attention, and cross-attention where it has one."""
    found = Found(layer)
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


def _match_attention(found: Found, inside: list[Event], event: Event, name: str) -> Sublayer:
    seen = event.attention
    assert seen is not None
    outer = [each for each in (*event.within, event) if found.layer in each.within and each.outputs]
    adds = [each for each in outer if each.y.shape == found.layer.x.shape]
    if seen.call is None:
        heads, cross = seen.weights.shape[1], name == "cross_attention"
        shadow = HostedAttention(heads, heads, 1.0, own=False, outside=True, cross=cross, place=seen.place)
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
        shadow = HostedAttention(
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


def _match_stream(found: Found, inside: list[Event], sublayers: list[Sublayer]) -> None:
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


def _keep_outputs(found: Found, sublayers: list[Sublayer], written: list[Event]) -> None:
    """What blocks add to the stream, where it is not known otherwise: the product of a matrix for an attention seen
    from outside, which is its W^O, or what a feed-forward network of another form gave.
    """
    for sublayer, event in zip(sublayers, written, strict=True):
        if sublayer.name not in found.parts:
            block = found.parts[sublayer.name] = HostedBlock()
            block.add_module("output", nn.Identity())
            found.tells.append((event, "out", block.get_submodule("output")))
            found.missing.pop(f"{sublayer.name}.output")
        elif sublayer.outside and is_linear(event) and (output := as_linear(event)) is not None:
            found.parts[sublayer.name].add_module("output", output)
            found.tells.append((event, "both", output))
            found.missing.pop(f"{sublayer.name}.output")


def _keep_sum(found: Found, attention: Event) -> None:
    """What a parallel layer's attention leaves, which the model adds up only together with the rest."""
    entering, shadow = Entering(), nn.Identity()
    found.block("self_attention").add_module("residual", shadow)
    found.tells += [(found.layer, "in", entering), (attention, "out", SumOfTwo(entering, shadow))]


def _is_first(shadow: nn.Module, found: Found) -> bool:
    """Whether this is what reads a layer's feed-forward input."""
    network = found.parts.get("feed_forward")
    return isinstance(network, HostedFeedForward) and (shadow is network.hidden or isinstance(shadow, Halved))


def _shadow(event: Event, side: Side) -> nn.Module:
    made = as_norm(event) if side == "both" else nn.Identity()
    assert made is not None
    return made
