"""A stack of ours for a bridged one, from the numbers that flowed through it in a probe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from model.checkpoints.bridge.config import BridgedConfig, setting
from model.checkpoints.bridge.hooks import MirrorPositions, attach_mirror
from model.checkpoints.bridge.match import LayerMatch, Links, as_norm, match_layer
from model.checkpoints.bridge.missing import Reason
from model.checkpoints.bridge.modules import (
    GATES,
    MirrorActivation,
    MirrorAttention,
    MirrorFeedForward,
    MirrorNorm,
    MirrorStack,
    MirrorTokens,
    activation_name,
    frozen,
    module_tensor,
)
from model.checkpoints.bridge.operations import products
from model.checkpoints.bridge.probe import Event, close, first, same
from model.checkpoints.bridge.runner import Runner
from model.checkpoints.rotary_length import longest_text
from model.network.config import NormPlacement, StackShape, Units
from model.runtime.device import exact


@dataclass
class BridgedStack:
    """A stack of ours and its place in a bridged one.

    stack: ours. layers: match of each layer. missing: reasons, by path of the quantity. position: option `position`;
    "": unknown. factor: of the token embedding. other: number of layers that do not attend.
    """

    name: str
    stack: MirrorStack
    layers: list[LayerMatch]
    links: Links
    missing: dict[str, Reason]
    position: str
    factor: float
    embedding_norm: bool
    other: int = 0
    norms: list[MirrorNorm] = field(default_factory=list)

    @property
    def attention(self) -> MirrorAttention:
        """Self-attention of the first layer."""
        attention = self.layers[0].parts["self_attention"]
        assert isinstance(attention, MirrorAttention)
        return attention

    def attach(self) -> None:
        """Lead the calls of the bridged modules through ours from now on."""
        for event, side, mirror in self.links:
            attach_mirror(event.module, self.name, event.number, event.calls, side, mirror)


def build_stack(name: str, events: list[Event], ids: Tensor, last: Tensor) -> BridgedStack | None:
    """Stack of ours; None: a layer's attention was not seen.

    events: of a probe of the stack. ids: its tokens, (1, position). last: states that the stack ends in, (position,
    d_model).
    """
    attending = [event for event in events if event.attention is not None and not event.attention.cross]
    crossing = [event for event in events if event.attention is not None and event.attention.cross]
    outer = [layer for event in attending if (layer := _layer_of(events, event, attending)) is not None]
    if not attending or len(outer) < len(attending):
        return None
    layers = []
    for event, layer in zip(attending, (_unwrapped(events, layer) for layer in outer), strict=True):
        layers.append(match_layer(events, layer, [event, *(cross for cross in crossing if layer in cross.within)]))
    missing = {
        f"{name}.layers.{number}.{quantity}": reason
        for number, layer in enumerate(layers)
        for quantity, reason in layer.missing.items()
    }
    _settle_placement(layers)
    embedding = _Embedding(name, events, ids, layers[0].layer)
    norm, norm_links = _last_norm(events, layers[-1].layer.y, last)
    if norm is None:
        missing[f"{name}.norm.output"] = Reason.FLOW
    stack = MirrorStack(embedding.module, [layer.mirror() for layer in layers], norm)
    return BridgedStack(
        name,
        stack,
        layers,
        [*embedding.links, *(link for layer in layers for link in layer.links), *norm_links],
        missing | embedding.missing,
        embedding.position,
        embedding.factor,
        embedding.normed,
        _beside(events, {event.module for event in outer}),
        [module for module in stack.modules() if isinstance(module, MirrorNorm)],
    )


def _settle_placement(matches: Sequence[LayerMatch]) -> None:
    """Give all layers of a stack one placement; layers of different ones are taken as "pre"."""
    placements = {match.placement for match in matches}
    if len(placements) > 1:
        for match in matches:
            match.placement = "pre"


def _layer_of(events: list[Event], attention: Event, attentions: list[Event]) -> Event | None:
    """Outermost call of a module in a list that has this self-attention in it and no other; None: there is none."""
    members = {child for event in events for child in _listed(event.module)}
    for outer in attention.within:
        alone = sum(outer in other.within for other in attentions) == 1
        if outer.module in members and alone and outer.inputs and outer.outputs:
            return outer
    return None


def _beside(events: list[Event], attending: set[nn.Module]) -> int:
    """Number of modules that were called and do not attend, in lists with layers that do."""
    called = {event.module for event in events}
    lists = [child for module in called for child in module.children() if isinstance(child, nn.ModuleList)]
    mixed = [modules for modules in lists if any(member in attending for member in modules)]
    return sum(member in called and member not in attending for modules in mixed for member in modules)


def _unwrapped(events: list[Event], layer: Event) -> Event:
    """Call of the layer inside modules that only hold it, as ALBERT's groups do."""
    inside = [event for event in events if event.within and event.within[-1] is layer]
    if len(inside) == 1 and same(inside[0].y, layer.y) and not inside[0].leaf:
        return _unwrapped(events, inside[0])
    return layer


def _listed(module: nn.Module) -> list[nn.Module]:
    return [member for child in module.children() if isinstance(child, nn.ModuleList) for member in child]


def _last_norm(events: list[Event], before: Tensor, last: Tensor) -> tuple[nn.Module | None, Links]:
    """Identity or norm between the last layer's output and the stack's states, and its links; None: it is neither."""
    if same(before, last):
        return nn.Identity(), []
    event = first(events, lambda event: bool(event.outputs) and same(event.y, last) and same(event.x, before))
    norm = as_norm(event) if event is not None else None
    return (norm, [(event, "both", norm)]) if event is not None and norm is not None else (None, [])


class _Embedding:
    """Embedding of a stack: tokens, with positions added and a norm on the sum where the model has them.

    events: of a probe. layer: the first one's call. module: ours.
    """

    def __init__(self, name: str, events: list[Event], ids: Tensor, layer: Event) -> None:
        self.module, output = nn.Module(), nn.Identity()
        self.module.add_module("output", output)
        self.links: Links = [(layer, "in", output)]
        self.missing: dict[str, Reason] = {}
        self.position, self.factor, self.normed = "", 1.0, False
        before = [event for event in events if event.end < layer.begin and event.outputs]
        self.module.products = products(before, len(layer.x), partly=True)  # type: ignore[assignment]
        x = layer.x
        norm = first(before, lambda event: same(event.y, x) and as_norm(event) is not None and not same(event.x, x))
        if self._match(before, ids, x):
            return
        if norm is not None and (mirror := as_norm(norm)) is not None and self._match(before, ids, norm.x):
            output.add_module("norm", mirror)
            self.links.append((norm, "both", mirror))
            self.normed = True
            return
        self.missing = {f"{name}.embedding.{part}": Reason.EMBEDDING for part in ("tokens", "positions")}

    def _match(self, before: list[Event], ids: Tensor, total: Tensor) -> bool:
        """True if `total` (position, d_model) is a sum of tokens and positions, which then become parts of ours."""
        lookup = first(before, lambda event: isinstance(event.module, nn.Embedding) and same(event.x, ids))
        weight = None if lookup is None else module_tensor(lookup.module)
        if lookup is None or weight is None or lookup.y.shape != total.shape:
            return False
        for factor in (1.0, weight.shape[1] ** 0.5):
            tokens = lookup.y * torch.tensor(factor, dtype=lookup.y.dtype)
            if close(tokens, total):
                self._keep(lookup, weight, factor, ids, None)
                return True
            for event in before:
                alike = event is not lookup and event.leaf and event.y.shape == total.shape
                if alike and close(tokens + event.y, total):
                    self._keep(lookup, weight, factor, ids, event)
                    return True
        return False

    def _keep(self, lookup: Event, weight: Tensor, outer: float, ids: Tensor, positions: Event | None) -> None:
        """outer: the factor by which the model multiplies the output of its embedding."""
        rows = weight[ids[0].to(weight.device)]
        inner = float(exact(lookup.y).norm() / exact(rows).norm())
        self.factor = outer * (1.0 if abs(inner - 1) < 1e-3 else inner)
        mirror = MirrorTokens(weight, self.factor)
        self.module.add_module("tokens", mirror)
        self.links.append((lookup, "both", ScaledMirror(mirror, outer)))
        table = None if positions is None else _table(positions)
        if positions is not None:
            self.position = "sinusoidal" if table is None or not _trained(positions) else "learned"
        encoded = MirrorPositions(table if self.position == "learned" else None)
        self.module.add_module("positions", encoded)
        self.links.append((lookup, "out", NoPositions(encoded)) if positions is None else (positions, "out", encoded))


class NoPositions(nn.Module):
    """Calls a mirror of positions with zeros (1, position, d_model), where a model adds none."""

    def __init__(self, mirror: nn.Module) -> None:
        super().__init__()
        self.mirror = mirror

    def forward(self, x: Tensor) -> Tensor:
        self.mirror(torch.zeros_like(x[:1]))
        return x


class ScaledMirror(nn.Module):
    """Calls a mirror with an output times the factor by which the model multiplies it afterwards."""

    def __init__(self, mirror: nn.Module, factor: float) -> None:
        super().__init__()
        self.mirror, self.factor = mirror, factor

    def forward(self, x: Tensor, observed: Tensor) -> Tensor:
        result: Tensor = self.mirror(x, observed * self.factor)
        return observed if self.factor != 1 else result


def _table(event: Event) -> nn.Parameter | None:
    """Rows (position, d_model) of a table of positions from the first that a text gets; None: it is no table."""
    weight = module_tensor(event.module)
    if weight is None or weight.dim() != 2:
        return None
    count = len(event.y)
    for offset in range(4):
        if same(weight[offset : offset + count].to(event.y.device), event.y):
            return frozen(weight[offset:])
    return None


def _trained(event: Event) -> bool:
    return "Sinusoidal" not in type(event.module).__name__


# The options of a bridged model.

LONGEST = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length")
UNBOUNDED = 2048  # tokens at most, where the model's config has no length
WINDOWS, TYPES = ("sliding_window", "window_size"), ("layer_types", "attention_layers")


def bridged_config(model: Any, runner: Runner, stacks: list[BridgedStack]) -> BridgedConfig:
    """Options of a model by its matches, and by its config where they tell nothing."""
    text = model.config.get_text_config()
    last = stacks[-1]
    by_name = {stack.name: stack for stack in stacks}
    layer = last.layers[-1]
    units = {stack.name: tuple(units_of_layer(each) for each in stack.layers) for stack in stacks}
    windows = windows_of(last, text)
    norms = [norm for stack in stacks for norm in stack.norms]
    width, heads, shared, channels = _shape(last, text)
    return BridgedConfig(
        source_vocabulary=_vocabulary(runner.encoder, text) if "encoder" in by_name else 0,
        target_vocabulary=_vocabulary(runner.decoder, text) if "decoder" in by_name else 0,
        d_model=width,
        n_heads=heads,
        n_key_value_heads=None if shared == heads else shared,
        head_width=channels,
        n_encoder_layers=len(by_name["encoder"].layers) if "encoder" in by_name else 0,
        n_decoder_layers=len(by_name["decoder"].layers) if "decoder" in by_name else 0,
        d_ff=units[last.name][-1].width or 0,
        dropout=0.0,
        max_length=longest_text(_count(text, LONGEST, UNBOUNDED), setting(text, "rope_parameters")),
        position=_position(text, last),
        embedding_norm=last.embedding_norm,
        norm="none" if not norms else "layer" if norms[0].centred else "rms",
        norm_placement=cast(NormPlacement, layer.placement),
        parallel=layer.parallel,
        norm_epsilon=norms[0].eps if norms else 1e-5,
        scale_embedding=last.factor != 1,
        activation=cast(Any, units[last.name][-1].activation or "unknown"),
        gates=_is_gated(layer),
        window=windows[0] if len(set(windows)) == 1 else None,
        windows=windows,
        units=units,
        latents=tuple(each.latent for each in last.layers),
        shapes={stack.name: _shape(stack, text) for stack in stacks},
        output_head="none" if runner.bare else "linear",
        tied_embeddings="output" if getattr(model.config, "tie_word_embeddings", False) else "none",
    )


def _shape(stack: BridgedStack, text: Any) -> StackShape:
    layer, (heads, shared) = stack.layers[-1], stack.attention.counts
    width = int(layer.layer.x.shape[-1])
    return StackShape(width, heads, shared or heads, _head_width(layer, text) or width // heads)


def _vocabulary(stack: Any, text: Any) -> int:
    """Size of a stack's vocabulary; the stacks of an EncoderDecoderModel have a config each."""
    size = getattr(getattr(stack, "config", None), "vocab_size", None)
    return size if isinstance(size, int) else int(text.vocab_size)


def _head_width(layer: LayerMatch, text: Any) -> int | None:
    """Channels of a query of the layer; of an attention that shows only its weights, by its W^O or the config."""
    attention = layer.parts["self_attention"]
    seen = next((event.attention for event, _s, mirror in layer.links if mirror is attention), None)
    if seen is not None and seen.call is not None:
        return int(seen.call.query.shape[-1])
    if isinstance(attention, MirrorAttention) and hasattr(attention, "output"):
        return int(attention.output.in_features) // attention.counts[0]
    widths = (setting(text, name) for name in ("head_dim", "d_kv"))
    return next((width for width in widths if isinstance(width, int)), None)


LOCAL = ("sliding_attention", "local")  # types of layers with a window, as configs call them


def windows_of(stack: BridgedStack, text: Any) -> tuple[int | None, ...]:
    """Window of each layer: as the model gives it to its attention, else by its config's types of layers."""
    width = next((each for each in (setting(text, name) for name in WINDOWS) if isinstance(each, int)), None)
    types = next((each for each in (setting(text, name) for name in TYPES) if isinstance(each, list)), [])
    windows: list[int | None] = []
    for number, layer in enumerate(stack.layers):
        attention = layer.parts["self_attention"]
        seen = next((event.attention for event, _s, mirror in layer.links if mirror is attention), None)
        if seen is not None and seen.call is not None and "sliding_window" in seen.call.options:
            windows.append(cast("int | None", seen.call.options["sliding_window"]))
        else:
            windows.append(width if number < len(types) and types[number] in LOCAL else None)
            if isinstance(attention, MirrorAttention):
                attention.window = windows[-1]
    return tuple(windows)


def units_of_layer(layer: LayerMatch) -> Units:
    """Parts of the feed-forward network of a layer, as far as they were seen."""
    network = layer.parts.get("feed_forward")
    if isinstance(network, MirrorFeedForward):
        return Units(int(network.hidden.out_features), _activation(network))
    return Units(None, "") if layer.experts is None else layer.experts.units


def _is_gated(layer: LayerMatch) -> bool:
    network = layer.parts.get("feed_forward")
    if isinstance(network, MirrorFeedForward):
        return hasattr(network, "gated")
    return units_of_layer(layer).activation in GATES.values()


def _count(text: Any, names: Sequence[str], otherwise: int) -> int:
    """Value of the first of these settings that is a whole number above 0."""
    values = (setting(text, name) for name in names)
    return next((value for value in values if isinstance(value, int) and value > 0), otherwise)


def _position(text: Any, stack: BridgedStack) -> Any:
    """Option `position`: by what is added to the tokens or scores, else by the config's settings."""
    if stack.position:
        return stack.position
    if not stack.attention.outside and "biased" in stack.attention.maps:
        return "relative"
    if setting(text, "alibi"):
        return "alibi"
    rotary = ("rope_parameters", "rope_theta", "rotary_dim", "rotary_emb_base")
    return "rotary" if any(setting(text, name) is not None for name in rotary) else "other"


def _activation(network: MirrorFeedForward) -> str:
    """Name of the option of the activation; "": ours have none that gives the same."""
    name = activation_name(cast(MirrorActivation, network.activation).function)
    return GATES.get(name, "") if hasattr(network, "gated") else name
