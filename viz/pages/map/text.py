"""Names of a model's blocks, and facts about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from model.message import Message
from viz.i18n.messages import joined, labelled
from viz.i18n.names import attention_title

if TYPE_CHECKING:
    from model.analysis.blocks import Block, Shape
    from model.capture.trace import Trace
    from model.network.config import Latent, TransformerConfig, Units

UNITS = {"GFLOP": 1e9, "MFLOP": 1e6, "kFLOP": 1e3, "FLOP": 1.0}
LISTED = 6  # names of weights of one shape
POSITIONS_ADDED = ("sinusoidal", "sinusoidal-halves", "learned")


BLOCK_NAMES = {
    "embedding": Message("embedding"),
    "norm": Message("norm"),
    "self-attention": Message("self-attention"),
    "cross-attention": Message("cross-attention"),
    "feed-forward": Message("feed-forward"),
    "residual": Message("residual"),
    "recurrence": Message("recurrent unit (GRU)"),
    "readout": Message("readout (maxout)"),
    "output": Message("output"),
}


def short_name(kind: str) -> str:
    """Short name of a block that has a picture."""
    return {
        "self-attention": Message("self-att."),
        "cross-attention": Message("cross-att."),
        "feed-forward": Message("FFN"),
    }.get(kind, "")


def place_name(block: Block) -> str:
    """Name and place of a block, for a heading."""
    stack, name = attention_title(block.stack), BLOCK_NAMES[block.kind]
    if block.sublayer and block.kind in ("norm", "residual"):
        name = Message("{name} of {sublayer}", name=name, sublayer=BLOCK_NAMES[block.sublayer.replace("_", "-")])
    if block.layer is None:
        return joined(" · ", stack, name)
    return Message("{stack} · layer {layer} · {name}", stack=stack, layer=block.layer + 1, name=name)


def title(block: Block, trace: Trace, config: TransformerConfig) -> str:
    """The line over a block on the map."""
    if block.kind == "embedding":
        times = f" × √{config.shape_of(block.stack).width}" if config.scale_embedding else ""
        sign = "+" if config.position in POSITIONS_ADDED else "·"
        return joined("", BLOCK_NAMES["embedding"], f"{times} {sign} ", position_name(config))
    if block.kind == "output":
        sizes = f"{config.d_model} → {config.vocabulary:,}"
        return joined(" · ", joined(" ", Message("linear"), sizes), Message("tied") if block.tied else "")
    name = BLOCK_NAMES[block.kind]
    if block.kind == "recurrence":
        side = {"forwards": Message("from the left"), "backwards": Message("from the right")}.get(
            block.sublayer or "", ""
        )
        return joined(" · ", name, side, Message("{count} channels", count=block.shape[-1]))
    if config.kind == "recurrent" and block.kind == "cross-attention":
        return joined(" · ", name, "vᵀ tanh(W s + U h)")
    if block.kind == "feed-forward":
        return joined(" · ", name, units_text(config.units_of(block.stack, block.layer or 0)))
    if block.kind not in ("self-attention", "cross-attention"):
        return name
    heads = Message("{count} head", plural="{count} heads", count=config.shape_of(block.stack).heads)
    mask = trace.mask(block.path)
    seen = [Message("causal")] if mask.causal else []
    seen += [Message("window {count}", count=mask.window)] if mask.window else []
    return joined(" · ", name, heads, *seen)


def units_text(units: Units) -> str:
    """Parts of a feed-forward network."""
    if units.width is None and not units.experts:
        return Message("of a form that is unknown")
    unknown = Message("unknown")
    width = unknown if units.width is None else f"{units.width:,}"
    each = joined(" × ", width, units.activation or unknown)
    if not units.experts:
        return each
    experts = Message("{chosen} of {count} experts", chosen=units.chosen, count=units.experts)
    shared = Message("and {count} units for all", count=units.shared) if units.shared else ""
    return joined(" · ", experts, each, shared)


def position_name(config: TransformerConfig) -> str:
    return {
        "sinusoidal": Message("sinusoidal positions"),
        "sinusoidal-halves": Message("sinusoidal positions, sines first"),
        "learned": Message("learned positions"),
        "rotary": Message("queries and keys are turned (rotary)"),
        "alibi": Message("scores fall with distance (ALiBi)"),
        "relative": Message("scores have a distance bias (T5)"),
        "none": Message("no positions"),
        "other": Message("positions in a way of its own"),
    }[config.position]


def lines(block: Block, config: TransformerConfig) -> list[tuple[str, str]]:
    """Shapes, weights and costs of a block."""
    memory = (
        Message("keys, values from the encoder")
        if block.kind == "cross-attention"
        else Message("input of keys, values")
    )
    memory = Message("annotations from the encoder") if config.kind == "recurrent" else memory
    names = {
        "ids": Message("token ids"),
        "stream": Message("input"),
        "written": Message("what the block writes"),
        "queries": Message("input of queries")
        if block.kind == "self-attention"
        else Message("queries from the decoder"),
        "memory": memory,
    }
    facts: list[tuple[str, str]] = [(names[role], shape_text(shape)) for role, shape in block.inputs.items()]
    if "attention" in block.kind:
        _width, count, shared, channels = config.shape_of(block.stack)
        heads: str = f"{count} × {block.shape[0]} × {channels}"
        if shared < count:
            heads = joined("", heads, Message(", keys and values of {count}", count=shared))
        latent = config.latent_of(block.layer or 0) if block.kind == "self-attention" else None
        if latent and latent.value != channels:
            heads = joined("", heads, Message(", values of {width} channels", width=latent.value))
        facts.append((Message("heads"), heads))
        if latent:
            facts.append((Message("latent"), latent_text(latent)))
        if block.kind == "self-attention" and block.stack == "decoder":
            facts.append((Message("cache"), cache_text(config, block.layer or 0)))
    if block.kind == "feed-forward":
        units = config.units_of(block.stack, block.layer or 0)
        facts.append((Message("units"), units_text(units)))
    facts.append((Message("gives"), shape_text(block.shape)))
    facts += [(Message("weights"), weights_text(block.weights))] if block.weights else []
    if block.weights:
        tied = Message(", {count} tied", count=f"{block.tied:,}") if block.tied else ""
        facts.append((Message("parameters"), joined("", f"{block.parameters:,}", tied)))
    facts.append((Message("matrix products"), Message("none") if block.flops == 0 else flops_text(block.flops)))
    return facts


def latent_text(latent: Latent) -> str:
    """Latent vectors that keys, values and queries are computed from."""
    return joined(
        "; ",
        Message(
            "keys and values of {width} channels, and {turned} that rotary positions turn, for all heads",
            width=latent.width,
            turned=latent.turned,
        ),
        "" if latent.query is None else Message("queries of {width}", width=latent.query),
    )


def cache_text(config: TransformerConfig, layer: int) -> str:
    """Size of the cache for each token when the model writes, as it is run here."""
    count, latent = config.cached_of(layer), config.latent_of(layer)
    if count is None:
        return Message("unknown")
    size = Message("{count} numbers for each token", count=f"{count:,}")
    if latent is None:
        return size
    whole = config.n_heads * (config.d_head + latent.value)
    return joined("", size, Message("; keys and values of all heads would be {count}", count=f"{whole:,}"))


def weights_text(weights: dict[str, Shape]) -> str:
    """Weights of one shape together, in the words of their module."""
    groups: dict[Shape, list[str]] = {}
    for name, shape in weights.items():
        groups.setdefault(shape, []).append(name.removesuffix(".weight"))
    return joined("\n", *(labelled(_few(names), shape_text(shape)) for shape, names in groups.items()))


def _few(names: Sequence[str]) -> str:
    """Names in a row; of many the first ones, and how many there are."""
    if len(names) <= LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:LISTED])} … ({len(names)})"


def shape_text(shape: Sequence[int]) -> str:
    return " × ".join(f"{size:,}" for size in shape)


def flops_text(flops: int | None) -> str:
    """Three significant digits, with a unit."""
    if flops is None:
        return Message("unknown")
    for unit, size in UNITS.items():
        if flops >= size or size == 1:
            value = flops / size
            number = f"{value:,.0f}" if value >= 99.95 or size == 1 else f"{value:#.3g}"
            return f"{number}\N{NO-BREAK SPACE}{unit}"
    raise AssertionError
