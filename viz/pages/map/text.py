"""What a block of a model is called, and what there is to say about it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from viz.i18n.catalogue import _, language
from viz.i18n.format import attention_name, significant

if TYPE_CHECKING:
    from model.analysis.blocks import Block, Shape
    from model.capture.trace import Trace
    from model.network.config import Latent, TransformerConfig, Units

UNITS = {"GFLOP": 1e9, "MFLOP": 1e6, "kFLOP": 1e3, "FLOP": 1.0}
LISTED = 6  # names of weights of one shape
POSITIONS_ADDED = ("sinusoidal", "sinusoidal-halves", "learned")


def block_name(kind: str) -> str:
    """What a kind of block is called; asked for hundreds of times at a keystroke."""
    return _block_names(language())[kind]


@cache
def _block_names(_language: str) -> dict[str, str]:
    return {
        "embedding": _("embedding"),
        "norm": _("norm"),
        "self-attention": _("self-attention"),
        "cross-attention": _("cross-attention"),
        "feed-forward": _("feed-forward"),
        "residual": _("residual"),
        "recurrence": _("recurrent unit (GRU)"),
        "readout": _("readout (maxout)"),
        "output": _("output"),
    }


def short_name(kind: str) -> str:
    """Of a block that has a picture, where there is little room."""
    return {
        "self-attention": _("self-att."),
        "cross-attention": _("cross-att."),
        "feed-forward": _("FFN"),
    }.get(kind, "")


def place_name(block: Block) -> str:
    """Which block this is, for a heading."""
    stack, name = attention_name(block.stack), block_name(block.kind)
    if block.sublayer and block.kind in ("norm", "residual"):
        name = _("{name} of {sublayer}").format(name=name, sublayer=block_name(block.sublayer.replace("_", "-")))
    if block.layer is None:
        return f"{stack} · {name}"
    return _("{stack} · layer {layer} · {name}").format(stack=stack, layer=block.layer + 1, name=name)


def title(block: Block, trace: Trace, config: TransformerConfig) -> str:
    """The line over a block on the map."""
    if block.kind == "embedding":
        times = f" × √{config.shape_of(block.stack).width}" if config.scale_embedding else ""
        sign = "+" if config.position in POSITIONS_ADDED else "·"
        return f"{_('embedding')}{times} {sign} {position_name(config)}"
    if block.kind == "output":
        sizes = f"{config.d_model} → {config.vocabulary:,}"
        tied = f" · {_('tied')}" if block.tied else ""
        return f"{_('linear')} {sizes}{tied}"
    name = block_name(block.kind)
    if block.kind == "recurrence":
        side = {"forwards": _("from the left"), "backwards": _("from the right")}.get(block.sublayer or "")
        return " · ".join([name, *([side] if side else []), _("{count} channels").format(count=block.shape[-1])])
    if config.kind == "recurrent" and block.kind == "cross-attention":
        return f"{name} · vᵀ tanh(W s + U h)"
    if block.kind == "feed-forward":
        return f"{name} · {units_text(config.units_of(block.stack, block.layer or 0))}"
    if block.kind not in ("self-attention", "cross-attention"):
        return name
    heads = _("{count} heads").format(count=config.shape_of(block.stack).heads)
    mask = trace.mask(block.path)
    seen = [_("causal")] if mask.causal else []
    seen += [_("window {count}").format(count=mask.window)] if mask.window else []
    return " · ".join([name, heads, *seen])


def units_text(units: Units) -> str:
    """What a feed-forward network consists of."""
    if units.width is None and not units.experts:
        return _("of a form that is unknown")
    width = _("unknown") if units.width is None else f"{units.width:,}"
    each = f"{width} × {units.activation or _('unknown')}"
    if not units.experts:
        return each
    parts = [_("{chosen} of {count} experts").format(chosen=units.chosen, count=units.experts), each]
    return " · ".join([*parts, *([_("and {count} units for all").format(count=units.shared)] if units.shared else [])])


def position_name(config: TransformerConfig) -> str:
    return {
        "sinusoidal": _("sinusoidal positions"),
        "sinusoidal-halves": _("sinusoidal positions, sines first"),
        "learned": _("learned positions"),
        "rotary": _("queries and keys are turned (rotary)"),
        "alibi": _("scores fall with distance (ALiBi)"),
        "relative": _("scores have a distance bias (T5)"),
        "none": _("no positions"),
        "other": _("positions in a way of its own"),
    }[config.position]


def lines(block: Block, config: TransformerConfig) -> list[tuple[str, str]]:
    """Shapes, weights and costs of a block."""
    memory = _("keys, values from the encoder") if block.kind == "cross-attention" else _("keys, values from")
    memory = _("annotations from the encoder") if config.kind == "recurrent" else memory
    names = {
        "ids": _("token ids"),
        "stream": _("input"),
        "written": _("what the block writes"),
        "queries": _("queries from") if block.kind == "self-attention" else _("queries from the decoder"),
        "memory": memory,
    }
    found = [(names[role], shape_text(shape)) for role, shape in block.inputs.items()]
    if "attention" in block.kind:
        _width, count, shared, channels = config.shape_of(block.stack)
        heads = f"{count} × {block.shape[0]} × {channels}"
        if shared < count:
            heads += _(", keys and values of {count}").format(count=shared)
        latent = config.latent_of(block.layer or 0) if block.kind == "self-attention" else None
        if latent and latent.value != channels:
            heads += _(", values of {width} channels").format(width=latent.value)
        found.append((_("heads"), heads))
        if latent:
            found.append((_("latent"), latent_text(latent)))
        if block.kind == "self-attention" and block.stack == "decoder":
            found.append((_("cache"), cache_text(config, block.layer or 0)))
    if block.kind == "feed-forward":
        units = config.units_of(block.stack, block.layer or 0)
        found.append((_("units"), units_text(units)))
    found.append((_("gives"), shape_text(block.shape)))
    found += [(_("weights"), weights_text(block.weights))] if block.weights else []
    if block.weights:
        tied = _(", {count} tied").format(count=f"{block.tied:,}") if block.tied else ""
        found.append((_("parameters"), f"{block.parameters:,}{tied}"))
    found.append((_("matrix products"), _("none") if block.flops == 0 else flops_text(block.flops)))
    return found


def latent_text(latent: Latent) -> str:
    """What keys, values and queries are made of."""
    text = _("keys and values of {width} channels, and {turned} that rotary positions turn, for all heads")
    said = text.format(width=latent.width, turned=latent.turned)
    if latent.query is None:
        return said
    return said + "; " + _("queries of {width}").format(width=latent.query)


def cache_text(config: TransformerConfig, layer: int) -> str:
    """What is kept of each token when the model writes, as it is run here."""
    kept, latent = config.cached_of(layer), config.latent_of(layer)
    if kept is None:
        return _("unknown")
    said = _("{count} numbers for each token").format(count=f"{kept:,}")
    if latent is None:
        return said
    whole = config.n_heads * (config.d_head + latent.value)
    return said + _("; keys and values of all heads would be {count}").format(count=f"{whole:,}")


def weights_text(weights: dict[str, Shape]) -> str:
    """Weights of one shape together, in the words of their module."""
    groups: dict[Shape, list[str]] = {}
    for name, shape in weights.items():
        groups.setdefault(shape, []).append(name.removesuffix(".weight"))
    return "\n".join(f"{_few(names)}: {shape_text(shape)}" for shape, names in groups.items())


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
        return _("unknown")
    for unit, size in UNITS.items():
        if flops >= size or size == 1:
            value = flops / size
            return f"{value:.0f} {unit}" if value >= 99.95 else f"{significant(value)} {unit}"
    raise AssertionError
