"""What the map says of a traced model: its stacks, each of its blocks, its predictions, and itself in a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from model.analysis.blocks import Block, elsewhere, rows, total_flops
from model.analysis.experts import load
from model.capture.trace import ATTENTION_PATHS
from model.network.config import TWO_STACKS
from viz.i18n.catalogue import _
from viz.i18n.format import attention_name, no_predictions, page_name, scale_name, significant, tokens
from viz.pages.map.pictures import Pictures
from viz.pages.map.text import block_name, flops_text, lines, place_name, short_name, title
from viz.state.session import Key

if TYPE_CHECKING:
    from model.analysis.comparison import Comparison
    from model.analysis.pieces import Pieces
    from model.capture.trace import Trace
    from model.inference.text_model import TextModel

PAGES = {
    "embedding": "positions",
    "norm": "residual",
    "self-attention": "attention",
    "cross-attention": "attention",
    "feed-forward": "feed_forward",
    "residual": "residual",
    "recurrence": "attention",
    "readout": "predictions",
    "output": "predictions",
}
PARTS = {"embedding": {"part": "tokens"}, "norm": {"residual_view": "norms"}, "residual": {"residual_view": "stream"}}
GUESSES = 5
LOADED = 8  # experts whose load is told
NOTHING: dict[str, Any] = {"title": "", "labels": [], "probabilities": [], "pinned": None, "side": "", "position": -1}
Said = list[tuple[str, str]]


def stacks(trace: Trace, found: list[Block], merged: Mapping[str, Pieces] = {}) -> list[dict[str, Any]]:
    """The stacks in the order in which they compute, each with its tokens and its rows of blocks."""
    made = []
    for name in dict.fromkeys(block.stack for block in found):
        side = "target" if name == "decoder" and trace.target_tokens else "source"
        labels = merged[side].labels if side in merged else tokens(trace, side)
        special = [label in trace.special_labels for label in labels]
        own = [row for row in rows(found) if found[row[0]].stack == name]
        made.append({"name": attention_name(name), "side": side, "labels": labels, "special": special, "rows": own})
    return made


def choices_at(block: Block, two: bool) -> dict[str, str]:
    """What is chosen on a block's page, by the parameters of the address bar. two: whether there are two stacks."""
    made = dict(PARTS.get(block.kind, {}))
    if block.kind == "norm":
        made["norm"] = block.path
    for kind, pattern in ATTENTION_PATHS.items():
        if block.path == pattern.format(block.layer):
            made[Key.KIND] = kind
    if two and block.kind in ("norm", "residual", "feed-forward"):
        made["stack"] = block.stack
    if two and block.kind == "embedding":
        made["side"] = "source" if block.stack == "encoder" else "target"
    return made


def describe(block: Block, model: TextModel, pictures: Pictures, changes: Said) -> dict[str, Any]:
    """What is said of a block and how thick its arrow is; changes: since the pin."""
    flow = math.nan if block.kind == "output" else pictures.flow(block)
    said = lines(block, model.config)
    if math.isnan(flow) and block.kind != "output" and not pictures.differing:
        said.append((_("mean norm of what it gives"), _("not a number")))
    if not math.isnan(flow):
        name = _("mean norm of the change") if pictures.differing else _("mean norm of what it gives")
        said.append((name, significant(flow)))
    note = activity(pictures, block) if block.kind == "feed-forward" else ""
    if pictures.has_experts(block):
        said.append((_("load"), loads(pictures, block)))
    elif note:
        said.append((_("activations"), note))
    return {
        "kind": block.kind,
        "name": place_name(block),
        "title": title(block, pictures.trace, model.config),
        "short": short_name(block.kind),
        "layer": block.layer,
        "note": note,
        "flow": None if math.isnan(flow) else flow,
        "lines": said + changes,
        "open": _("Open: {page}").format(page=page_name(PAGES[block.kind])),
    }


def activity(pictures: Pictures, block: Block) -> str:
    """How many of a feed-forward network's activations are zero; where none is, the unit that is the most active; of a
    mixture of experts the one that most tokens go through; "" where its units are not known.
    """
    if pictures.has_experts(block):
        shares = load(pictures.trace[f"{block.path}.gates"])
        expert = int(shares.argmax())
        return _("most loaded: expert {expert}, {share}").format(
            expert=expert + 1, share=f"{float(shares[expert]):.0%}"
        )
    if pictures.units_name(block) == block.output:
        return ""  # what it gives is shown, for its units are not known
    units = pictures.units(block)
    if not units.numel():
        return ""
    zeros = float((units == 0).float().mean())
    if zeros > 0:
        return _("{share} zero").format(share=f"{zeros:.0%}")
    largest = units.abs().mean(dim=0)
    if not bool(largest.isfinite().all()):
        return _("not a number")
    unit = int(largest.argmax())
    return _("most active: unit {unit}").format(unit=unit + 1)


def loads(pictures: Pictures, block: Block) -> str:
    """The share of the tokens that go through each expert, the most loaded first."""
    shares = load(pictures.trace[f"{block.path}.gates"])
    order = shares.argsort(descending=True, stable=True).tolist()
    told = [f"{expert + 1}: {float(shares[expert]):.0%}" for expert in order[:LOADED]]
    return ", ".join(told) + (" …" if len(order) > LOADED else "")


def changes(comparison: Comparison | None, found: list[Block]) -> list[Said]:
    """For each block where it changed most since the pin: at which token, in which head."""
    if comparison is None:
        return [[] for _block in found]
    table = comparison.changes
    heads = table[table["kind"] == "head"].drop_duplicates("name").set_index("name")
    made = []
    for block in found:
        said = [_largest_change(comparison, block)]
        if block.path in heads.index:
            row = heads.loc[block.path]
            change = _("head {head}: {change} of its weight moved")
            text = change.format(head=int(row["head"]) + 1, change=f"{row['change']:.1%}")
            said.append((_("head that changed most"), text))
        made.append([(name, text) for name, text in said if text])
    return made


def _largest_change(comparison: Comparison, block: Block) -> tuple[str, str]:
    name = _("largest change since the pin")
    difference = comparison.difference(block.output)
    if difference is None:
        return name, _("none to be had: the pinned model gives nothing of this shape here")
    sizes = difference.float().norm(dim=-1)
    if bool(sizes.isnan().all()):
        return name, _("none to be had: no token is in both texts")
    place = int(sizes.nan_to_num(-1.0).argmax())
    label = comparison.trace.tokens_of(block.path)[place]
    text = _("norm {size} at {token}, position {position}")
    return name, text.format(size=significant(float(sizes[place])), token=label, position=place)


def last_prediction(trace: Trace, model: TextModel) -> int:
    """The position whose prediction is shown unless another is chosen: the first hidden token, else the last."""
    guesses = model.guesses(trace, 1)
    return guesses[0].place if guesses else len(trace["output.logits"]) - 1


def predictions(trace: Trace, comparison: Comparison | None, model: TextModel, place: int) -> dict[str, Any]:
    """The most probable tokens at a position, and how probable they were in the pinned trace."""
    logits = trace["output.logits"][place].float()
    if bool(logits.isnan().any()):
        return NOTHING | {"title": _("not a number")}
    best = logits.softmax(dim=-1).topk(min(GUESSES, len(logits)))
    numbers = best.indices.tolist()
    before = comparison.counterpart("output.logits") if comparison else None
    pinned = None if before is None else before[place].float().softmax(dim=-1)[best.indices].tolist()
    side = "target" if trace.target_tokens else "source"
    name = _("softmax in the place of {token}") if model.kind == "encoder-only" else _("softmax after {token}")
    return {
        "title": name.format(token=tokens(trace, side)[place]),
        "labels": [model.target_tokenizer.label(number) for number in numbers],
        "probabilities": best.values.tolist(),
        "pinned": pinned if pinned and not math.isnan(pinned[0]) else None,
        "side": side,
        "position": place,
    }


def _sum(flops: Sequence[int | None]) -> int | None:
    return None if None in flops else sum(each for each in flops if each is not None)


def summary(trace: Trace, model: TextModel, found: list[Block]) -> Said:
    """The whole model in lines."""
    config = model.config
    by_kind: dict[str, list[int | None]] = {}
    for block in found:
        by_kind.setdefault(block.kind, []).append(block.flops)
    placement = {
        "pre": _("before each block (pre-norm)"),
        "post": _("after each block (post-norm)"),
        "sandwich": _("before and after each block (sandwich)"),
    }[config.norm_placement]
    said = [
        (_("parameters"), f"{model.network.parameter_count():,}"),
        *([(_("in its file"), _in_file(int(model.training["in_file"])))] if "in_file" in model.training else []),
        *([(_("in no block"), f"{rest:,}")] if (rest := elsewhere(model.network, found)) else []),
        (_("matrix products"), flops_text(total_flops(trace, found))),
        *((f"· {block_name(kind)}", flops_text(_sum(flops))) for kind, flops in by_kind.items() if _sum(flops) != 0),
        (_("norms"), _("none: this model has no norms") if config.norm == "none" else placement),
    ]
    if not model.predicts:
        said.append((_("output"), no_predictions()))
    if config.parallel:
        said.append((_("blocks"), _("parallel: all blocks of a layer read what enters it")))
    if not config.residual and config.kind != "recurrent":
        said.append((_("residual"), _("no short cut: each block's output replaces the stream")))
    if model.kind == "recurrent":
        said.append((_("output"), _("only the decoder ends in a softmax; the encoder gives annotations")))
    elif model.kind in TWO_STACKS:
        said.append((_("output"), _("only the decoder ends in a softmax; the encoder gives keys and values")))
    said.append((_("arrows"), _("as thick as the mean norm of what flows")))
    return said


def _in_file(count: int) -> str:
    sentence = _("{count}: here rows of its positions and token types are added up, and unused ones left out")
    return sentence.format(count=f"{count:,}")


def alternative(model: TextModel, guess: dict[str, Any], note: str) -> str:
    """The picture in words."""
    config = model.config
    layers = ", ".join(
        _("{stack} of {count} layers").format(stack=attention_name(name), count=count)
        for name in config.stacks
        if (count := config.depth(name))
    )
    heads = "+".join(dict.fromkeys(str(config.shape_of(name).heads) for name in config.stacks))
    if not guess["labels"]:
        text = _("Map of the model: {layers}, {heads} heads each. {note}.")
        return f"{text.format(layers=layers, heads=heads, note=note)} {no_predictions()}"
    text = _(
        "Map of the model: {layers}, {heads} heads each. {note}. "
        "At the top the {place}: most probable is {token}, {probability}."
    )
    return text.format(
        layers=layers,
        heads=heads,
        note=note,
        place=guess["title"],
        token=guess["labels"][0],
        probability=significant(guess["probabilities"][0]),
    )


def words(differing: bool) -> dict[str, Any]:
    """Words of the component."""
    return {
        "odd": _("not a number, or infinite"),
        "layer": _("layer {number}"),
        "head": _("head"),
        "more": _("{count} more"),
        "largest": _("largest of the head"),
        "scale": _("weight difference") if differing else _("attention weight"),
        "scales": {name: scale_name(name) for name in ("one", "largest")},
        "pooled": _("largest of several cells"),
        "whole": _("The whole model"),
        "pointed": _("Point at a block to see its shapes; click to open its page."),
    }
