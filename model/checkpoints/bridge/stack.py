"""A stack of ours for a bridged one, from what flowed through it in a probe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from model.checkpoints.bridge.hooks import OfPositions, mirror
from model.checkpoints.bridge.match import LayerMatch, Tells, activation_name, as_norm, match_layer
from model.checkpoints.bridge.missing import Reason
from model.checkpoints.bridge.modules import (
    BridgedConfig,
    MirrorActivation,
    MirrorAttention,
    MirrorFeedForward,
    MirrorNorm,
    MirrorStack,
    MirrorTokens,
    frozen,
    held,
)
from model.checkpoints.bridge.probe import Event, close, first, same
from model.checkpoints.bridge.runner import Runner
from model.network.config import NormPlacement
from model.runtime.device import exact


@dataclass
class BridgedStack:
    """stack: ours. layers: what was found of each. position: how tokens get positions, "" unknown. missing: by path.
    other: how many layers beside these do not attend.
    """

    name: str
    stack: MirrorStack
    layers: list[LayerMatch]
    tells: Tells
    missing: dict[str, Reason]
    position: str
    factor: float
    embedding_norm: bool
    other: int = 0
    norms: list[MirrorNorm] = field(default_factory=list)

    @property
    def attention(self) -> MirrorAttention:
        made = self.layers[0].parts["self_attention"]
        assert isinstance(made, MirrorAttention)
        return made

    def attach(self) -> None:
        """From now on the bridged modules tell ours."""
        for event, side, shadow in self.tells:
            mirror(event.module, self.name, event.number, event.calls, side, shadow)


def build_stack(name: str, events: list[Event], ids: Tensor, last: Tensor) -> BridgedStack | None:
    """The stack, or None where no attention was seen. last: the states that it ends in, (position, d_model)."""
    attentions = [event for event in events if event.attention is not None]
    own = [event for event in attentions if event.attention is not None and not event.attention.cross]
    crossing = [event for event in attentions if event not in own]
    outer = [layer for event in own if (layer := _layer_of(events, event, own)) is not None]
    if not own or len(outer) < len(own):
        return None
    found = []
    for event, layer in zip(own, (_unwrapped(events, each) for each in outer), strict=True):
        found.append(match_layer(events, layer, [event, *(each for each in crossing if layer in each.within)]))
    tells = [each for one in found for each in one.tells]
    missing = {
        f"{name}.layers.{number}.{quantity}": reason
        for number, one in enumerate(found)
        for quantity, reason in one.missing.items()
    }
    _settle_placement(found)
    embedding = _Embedding(name, events, ids, found[0].layer)
    norm, told = _last_norm(events, found[-1].layer.y, last)
    if norm is None:
        missing[f"{name}.norm.output"] = Reason.FLOW
    stack = MirrorStack(embedding.made, [each.built() for each in found], norm)
    made = [module for module in stack.modules() if isinstance(module, MirrorNorm)]
    parts = [*embedding.tells, *tells, *told]
    return BridgedStack(
        name,
        stack,
        found,
        parts,
        missing | embedding.missing,
        embedding.position,
        embedding.factor,
        embedding.normed,
        _beside(events, {each.module for each in outer}),
        made,
    )


def _settle_placement(found: Sequence[LayerMatch]) -> None:
    """One placement for the stack; layers of several have only the states between them in common."""
    placements = {each.placement for each in found}
    if len(placements) > 1:
        for each in found:
            each.placement = "pre"


def _layer_of(events: list[Event], attention: Event, own: list[Event]) -> Event | None:
    """The outermost call of a module in a list that has this self-attention in it and no other."""
    members = {child for event in events for module in (event.module,) for child in _listed(module)}
    for outer in attention.within:
        alone = sum(outer in each.within for each in own) == 1
        if outer.module in members and alone and outer.inputs and outer.outputs:
            return outer
    return None


def _beside(events: list[Event], attending: set[nn.Module]) -> int:
    """How many modules were called that stand in one list with layers that attend, and do not."""
    called = {event.module for event in events}
    lists = [each for module in called for each in module.children() if isinstance(each, nn.ModuleList)]
    mixed = [each for each in lists if any(member in attending for member in each)]
    return sum(member in called and member not in attending for each in mixed for member in each)


def _unwrapped(events: list[Event], layer: Event) -> Event:
    """The layer inside what only holds it, as ALBERT's groups do."""
    inside = [event for event in events if event.within and event.within[-1] is layer]
    if len(inside) == 1 and same(inside[0].y, layer.y) and not inside[0].leaf:
        return _unwrapped(events, inside[0])
    return layer


def _listed(module: nn.Module) -> list[nn.Module]:
    lists = [child for child in module.children() if isinstance(child, nn.ModuleList)]
    return [each for one in lists for each in one]


def _last_norm(events: list[Event], left: Tensor, last: Tensor) -> tuple[nn.Module | None, Tells]:
    """What stands between the last layer and the stack's states: nothing, or a norm; None where it is neither."""
    if same(left, last):
        return nn.Identity(), []
    event = first(events, lambda each: bool(each.outputs) and same(each.y, last) and same(each.x, left))
    made = as_norm(event) if event is not None else None
    return (made, [(event, "both", made)]) if event is not None and made is not None else (None, [])


class _Embedding:
    """What enters the first layer: tokens, with positions added to them and a norm on the sum where that is so."""

    def __init__(self, name: str, events: list[Event], ids: Tensor, layer: Event) -> None:
        self.made, entering = nn.Module(), nn.Identity()
        self.made.add_module("output", entering)
        self.tells: Tells = [(layer, "in", entering)]
        self.missing: dict[str, Reason] = {}
        self.position, self.factor, self.normed = "", 1.0, False
        before = [event for event in events if event.end < layer.begin and event.outputs]
        x = layer.x
        normed = first(before, lambda each: same(each.y, x) and as_norm(each) is not None and not same(each.x, x))
        for entered, norm in ((x, None), *([(normed.x, normed)] if normed else [])):
            if self._match(before, ids, entered):
                if norm is not None and (shadow := as_norm(norm)) is not None:
                    self.made.get_submodule("output").add_module("norm", shadow)
                    self.tells.append((norm, "both", shadow))
                    self.normed = True
                return
        reason = Reason.EMBEDDING
        self.missing = {f"{name}.embedding.{part}": reason for part in ("tokens", "positions")}

    def _match(self, before: list[Event], ids: Tensor, entered: Tensor) -> bool:
        looked = first(before, lambda each: isinstance(each.module, nn.Embedding) and same(each.x, ids))
        if looked is None or looked.y.shape != entered.shape:
            return False
        weight = held(looked.module)
        assert weight is not None
        for factor in (1.0, weight.shape[1] ** 0.5):
            tokens = looked.y * torch.tensor(factor, dtype=looked.y.dtype)
            if close(tokens, entered):
                self._keep(looked, factor, ids, None)
                return True
            for event in before:
                alike = event is not looked and event.leaf and event.y.shape == entered.shape
                if alike and close(tokens + event.y, entered):
                    self._keep(looked, factor, ids, event)
                    return True
        return False

    def _keep(self, looked: Event, outer: float, ids: Tensor, positions: Event | None) -> None:
        weight = held(looked.module)
        assert weight is not None
        rows = weight[ids[0].to(weight.device)]
        inner = float(exact(looked.y).norm() / exact(rows).norm())
        self.factor = outer * (1.0 if abs(inner - 1) < 1e-3 else inner)
        shadow = MirrorTokens(weight, self.factor)
        self.made.add_module("tokens", shadow)
        self.tells.append((looked, "both", Times(shadow, outer)))
        if positions is None:
            encoded = OfPositions(None)
            self.made.add_module("positions", encoded)
            self.tells.append((looked, "out", Nothing(encoded)))
        else:
            table = _table(positions)
            self.position = "sinusoidal" if table is None or not _trained(positions) else "learned"
            encoded = OfPositions(table if self.position == "learned" else None)
            self.made.add_module("positions", encoded)
            self.tells.append((positions, "out", encoded))


class Nothing(nn.Module):
    """Tells a shadow that zeros are added to the tokens."""

    def __init__(self, shadow: nn.Module) -> None:
        super().__init__()
        self.shadow = shadow

    def forward(self, x: Tensor) -> Tensor:
        self.shadow(torch.zeros_like(x[:1]))
        return x


class Times(nn.Module):
    """Tells a shadow a quantity times the factor by which the model multiplies it afterwards."""

    def __init__(self, shadow: nn.Module, factor: float) -> None:
        super().__init__()
        self.shadow, self.factor = shadow, factor

    def forward(self, x: Tensor, given: Tensor) -> Tensor:
        made: Tensor = self.shadow(x, given * self.factor)
        return given if self.factor != 1 else made


def _table(event: Event) -> nn.Parameter | None:
    """The rows of a table of positions from the first one that a text gets."""
    weight = held(event.module)
    if weight is None or weight.dim() != 2:
        return None
    count = len(event.y)
    for offset in range(4):
        if same(weight[offset : offset + count].to(event.y.device), event.y):
            return frozen(weight[offset:])
    return None


def _trained(event: Event) -> bool:
    return "Sinusoidal" not in type(event.module).__name__


# The options of a bridged model in ours.

LONGEST = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length")
UNBOUNDED = 2048  # tokens at most, where the model names no length
UNITS = ("intermediate_size", "ffn_dim", "decoder_ffn_dim", "encoder_ffn_dim", "d_ff", "n_inner", "ffn_hidden_size")
GATES = {"silu": "swiglu", "gelu": "geglu", "gelu-tanh": "geglu-tanh"}


def bridged_config(model: Any, runner: Runner, stacks: list[BridgedStack]) -> BridgedConfig:
    """The model in our options, from what was found in it, and from its config only where that says nothing."""
    text = model.config.get_text_config()
    last = stacks[-1]
    own = {each.name: each for each in stacks}
    layer = last.layers[-1]
    attention = last.attention
    network = layer.parts.get("feed_forward")
    norms = [norm for each in stacks for norm in each.norms]
    width = layer.layer.x.shape[-1]
    heads, shared = attention.counts
    return BridgedConfig(
        source_vocabulary=_vocabulary(runner.encoder, text) if "encoder" in own else 0,
        target_vocabulary=_vocabulary(runner.decoder, text) if "decoder" in own else 0,
        d_model=width,
        n_heads=heads,
        n_key_value_heads=None if shared == heads else shared,
        head_width=_head_width(layer.parts["self_attention"], layer, text),
        n_encoder_layers=len(own["encoder"].layers) if "encoder" in own else 0,
        n_decoder_layers=len(own["decoder"].layers) if "decoder" in own else 0,
        d_ff=_units(network, text, width),
        dropout=0.0,
        max_length=_count(text, LONGEST, UNBOUNDED),
        position=_position(text, last),
        embedding_norm=last.embedding_norm,
        norm="none" if not norms else "layer" if norms[0].centred else "rms",
        norm_placement=cast(NormPlacement, layer.placement),
        parallel=layer.parallel,
        norm_epsilon=norms[0].eps if norms else 1e-5,
        scale_embedding=last.factor != 1,
        activation=_activation(network, text),
        output_head="none" if runner.bare else "linear",
        tied_embeddings="output" if getattr(model.config, "tie_word_embeddings", False) else "none",
    )


def _vocabulary(stack: Any, text: Any) -> int:
    """Of one stack: those of an EncoderDecoderModel have a config each."""
    size = getattr(getattr(stack, "config", None), "vocab_size", None)
    return size if isinstance(size, int) else int(text.vocab_size)


def _head_width(attention: Any, layer: Any, text: Any) -> int | None:
    seen = next((event.attention for event, _s, shadow in layer.tells if shadow is attention), None)
    if seen is not None and seen.call is not None:
        return int(seen.call.query.shape[-1])
    width = getattr(text, "head_dim", None)
    return width if isinstance(width, int) else None


def _units(network: Any, text: Any, width: int) -> int:
    return network.hidden.out_features if isinstance(network, MirrorFeedForward) else _count(text, UNITS, 4 * width)


def _count(text: Any, names: Sequence[str], otherwise: int) -> int:
    """The first of these settings that is a whole number above 0."""
    values = (getattr(text, name, None) for name in names)
    return next((value for value in values if isinstance(value, int) and value > 0), otherwise)


def _position(text: Any, built: BridgedStack) -> Any:
    """How tokens get positions: by what was added to them, else by what the config speaks of."""
    if built.position:
        return built.position
    if not built.attention.outside and "biased" in built.attention.maps:
        return "relative"
    if getattr(text, "alibi", False):
        return "alibi"
    turned = ("rope_parameters", "rope_theta", "rotary_dim", "rotary_emb_base")
    return "rotary" if any(getattr(text, name, None) is not None for name in turned) else "other"


def _activation(network: Any, text: Any) -> Any:
    if not isinstance(network, MirrorFeedForward):
        return "relu"
    grid = torch.linspace(-4, 4, 33)
    function = cast(MirrorActivation, network.activation).function
    name = activation_name(function, grid)
    return GATES.get(name, "swiglu") if hasattr(network, "gated") else name or "gelu"
