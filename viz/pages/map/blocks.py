"""Description of a traced model: its stacks, each of its blocks, its predictions, and itself in a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from model.analysis.blocks import Block, elsewhere, rows, total_flops
from model.analysis.experts import load
from model.capture.trace import ATTENTION_PATHS
from model.message import Message
from model.network.config import TWO_STACKS
from model.network.costs import active_parameters
from viz.i18n.format import percent, significant, tokens
from viz.i18n.messages import joined, labelled
from viz.i18n.names import NO_PREDICTIONS, attention_title, page_title, scale_title
from viz.pages.map.pictures import Pictures
from viz.pages.map.text import BLOCK_NAMES, flops_text, lines, place_name, short_name, title
from viz.state.session import Key
from viz.ui.plots import word
from viz.ui.prediction import expectation, visible

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


def stacks(trace: Trace, block_list: list[Block], merged: Mapping[str, Pieces] = {}) -> list[dict[str, Any]]:
    """The stacks in the order in which they compute, each with its tokens and its rows of blocks."""
    entries = []
    for name in dict.fromkeys(block.stack for block in block_list):
        side = "target" if name == "decoder" and trace.target_tokens else "source"
        labels = merged[side].labels if side in merged else tokens(trace, side)
        special = [label in trace.special_labels for label in labels]
        own = [row for row in rows(block_list) if block_list[row[0]].stack == name]
        entries.append({"name": attention_title(name), "side": side, "labels": labels, "special": special, "rows": own})
    return entries


def choices_at(block: Block, two: bool) -> dict[str, str]:
    """Choices on a block's page, by the parameters of the address bar. two: whether there are two stacks."""
    choices = dict(PARTS.get(block.kind, {}))
    if block.kind == "norm":
        choices["norm"] = block.path
    for kind, pattern in ATTENTION_PATHS.items():
        if block.path == pattern.format(block.layer):
            choices[Key.KIND] = kind
    if two and block.kind in ("norm", "residual", "feed-forward"):
        choices["stack"] = block.stack
    if two and block.kind == "embedding":
        choices["side"] = "source" if block.stack == "encoder" else "target"
    return choices


def describe(block: Block, model: TextModel, pictures: Pictures, changes: Said) -> dict[str, Any]:
    """Lines on a block and the width of its arrow; changes: since the pin."""
    flow = math.nan if block.kind == "output" else pictures.flow(block)
    facts = lines(block, model.config)
    if math.isnan(flow) and block.kind != "output" and not pictures.differing:
        facts.append((Message("mean norm of what it gives"), Message("not a number")))
    if not math.isnan(flow):
        name = Message("mean norm of the change") if pictures.differing else Message("mean norm of what it gives")
        facts.append((name, significant(flow)))
    note = activity(pictures, block) if block.kind == "feed-forward" else ""
    if pictures.has_experts(block):
        facts.append((Message("load"), loads(pictures, block)))
    elif note:
        facts.append((Message("activations"), note))
    return {
        "kind": block.kind,
        "name": place_name(block),
        "title": title(block, pictures.trace, model.config),
        "short": short_name(block.kind),
        "layer": block.layer,
        "note": note,
        "flow": None if math.isnan(flow) else flow,
        "moved": pictures.moved(block),
        "lines": facts + changes,
        "open": Message("Open: {page}", page=page_title(PAGES[block.kind])),
    }


def activity(pictures: Pictures, block: Block) -> str:
    """Share of a feed-forward network's activations that are zero; where none is, the unit that is the most active; of
    a mixture of experts the one that most tokens go through; "" where its units are not known.
    """
    if pictures.has_experts(block):
        shares = load(pictures.trace[f"{block.path}.gates"])
        expert, share = int(shares.argmax()), percent(float(shares.max()), 0)
        return Message("most loaded: expert {expert}, {share}", expert=expert + 1, share=share)
    if pictures.units_name(block) == block.output:
        return ""  # what it gives is shown, for its units are not known
    units = pictures.units(block)
    if not units.numel():
        return ""
    zeros = float((units == 0).float().mean())
    if zeros > 0:
        return Message("{share} zero", share=percent(zeros, 0))
    largest = units.abs().mean(dim=0)
    if not bool(largest.isfinite().all()):
        return Message("not a number")
    unit = int(largest.argmax())
    return Message("most active: unit {unit}", unit=unit + 1)


def loads(pictures: Pictures, block: Block) -> str:
    """The share of the tokens that go through each expert, the most loaded first."""
    shares = load(pictures.trace[f"{block.path}.gates"])
    order = shares.argsort(descending=True, stable=True).tolist()
    parts = [labelled(str(expert + 1), percent(float(shares[expert]), 0)) for expert in order[:LOADED]]
    return joined(" ", joined(", ", *parts), "…" if len(order) > LOADED else "")


def changes(comparison: Comparison | None, block_list: list[Block]) -> list[Said]:
    """Facts on each block: where it changed most since the pin, at which token, in which head."""
    if comparison is None:
        return [[] for _block in block_list]
    table = comparison.changes
    heads = table[table["kind"] == "head"].drop_duplicates("name").set_index("name")
    by_block = []
    for block in block_list:
        facts = [_largest_change(comparison, block)]
        if block.path in heads.index:
            row = heads.loc[block.path]
            head, change = int(row["head"]) + 1, percent(float(row["change"]))
            text = Message("head {head}: {change} of its weight moved", head=head, change=change)
            facts.append((Message("head that changed most"), text))
        by_block.append([(name, text) for name, text in facts if text])
    return by_block


def _largest_change(comparison: Comparison, block: Block) -> tuple[str, str]:
    name = Message("largest change since the pin")
    difference = comparison.difference(block.output)
    if difference is None:
        return name, Message("none to be had: the pinned model gives nothing of this shape here")
    sizes = difference.float().norm(dim=-1)
    if bool(sizes.isnan().all()):
        return name, Message("none to be had: no token is in both texts")
    place = int(sizes.nan_to_num(-1.0).argmax())
    label = comparison.trace.tokens_of(block.path)[place]
    size = significant(float(sizes[place]))
    return name, Message(
        "norm {size} at {token}, position {position}", size=size, token=word(label), position=place + 1
    )


def predicted_place(trace: Trace, model: TextModel, query: int | None = None) -> int:
    """The position whose prediction is shown: the chosen one, else the first hidden token, else the last. Where tokens
    are hidden it is one of these.
    """
    hidden = [guess.place for guess in model.guesses(trace, 1)]
    if model.kind == "encoder-only" and hidden:
        return query if query in hidden else hidden[0]
    last = len(trace["output.logits"]) - 1
    if query is not None:
        return min(query, last)
    return hidden[0] if hidden else last


def predictions(trace: Trace, comparison: Comparison | None, model: TextModel, place: int) -> dict[str, Any]:
    """The most probable tokens at a position, and how probable they were in the pinned trace."""
    logits = trace["output.logits"][place].float()
    if bool(logits.isnan().any()):
        return NOTHING | {"title": Message("not a number")}
    best = logits.softmax(dim=-1).topk(min(GUESSES, len(logits)))
    numbers = best.indices.tolist()
    before = comparison.counterpart("output.logits") if comparison else None
    pinned = None if before is None else before[place].float().softmax(dim=-1)[best.indices].tolist()
    side = "target" if trace.target_tokens else "source"
    token = word(visible(tokens(trace, side)[place]))
    hidden = model.kind == "encoder-only"
    return {
        "title": Message("softmax in the place of {token}", token=token)
        if hidden
        else Message("softmax after {token}", token=token),
        "labels": [model.target_tokenizer.label(number) for number in numbers],
        "probabilities": best.values.tolist(),
        "pinned": pinned if pinned and not math.isnan(pinned[0]) else None,
        "side": side,
        "position": place,
    }


def finding(trace: Trace, model: TextModel, place: int, guess: dict[str, Any]) -> str:
    """The most probable of these predictions, as a title; "" where there is none."""
    if not guess["labels"]:
        return ""
    token = tokens(trace, "target" if trace.target_tokens else "source")[place]
    hidden = model.kind == "encoder-only"
    return expectation(token, guess["labels"][0], guess["probabilities"][0], hidden)


def most_changed(comparison: Comparison) -> str:
    """The head and the token that changed most since the pin, and by how much, as a title; "" where nothing has."""
    table = comparison.changes
    rows = {kind: table[(table["kind"] == kind) & (table["change"] > 0)] for kind in ("head", "position")}
    parts = []
    for row in rows["head"].head(1).to_dict("records"):
        kind = "cross" if "cross_attention" in row["name"] else row["name"].partition(".")[0]
        head = f"{row['layer'] + 1}.{row['head'] + 1} ({significant(row['change'])})"
        parts.append(joined(" ", attention_title(kind), head))
    for row in rows["position"].head(1).to_dict("records"):
        token = word(comparison.trace.tokens_of(row["name"])[int(row["position"])])
        parts.append(joined(" ", token, f"({significant(row['change'])})"))
    if len(parts) < 2:
        return Message("Most changed: {parts}", parts=parts[0]) if parts else ""
    return Message("Most changed: {head} and the token {token}", head=parts[0], token=parts[1])


def units_of_change() -> Message:
    """Sentence on what these numbers are, as in the list of the largest changes."""
    return Message(
        "of a head: share of its weight that moved, mean of its queries; of a token: change of its last vector, "
        "relative to its norm"
    )


def _sum(flops: Sequence[int | None]) -> int | None:
    return None if None in flops else sum(each for each in flops if each is not None)


def summary(trace: Trace, model: TextModel, block_list: list[Block]) -> Said:
    """The whole model in lines."""
    config = model.config
    by_kind: dict[str, list[int | None]] = {}
    for block in block_list:
        by_kind.setdefault(block.kind, []).append(block.flops)
    placement = {
        "pre": Message("before each block (pre-norm)"),
        "post": Message("after each block (post-norm)"),
        "sandwich": Message("before and after each block (sandwich)"),
    }[config.norm_placement]
    facts = [
        (Message("parameters"), f"{model.network.parameter_count():,}"),
        *([(Message("active for a token"), f"{active_parameters(config):,}")] if config.n_experts else []),
        *([(Message("in its file"), _in_file(int(model.training["in_file"])))] if "in_file" in model.training else []),
        *([(Message("in no block"), f"{rest:,}")] if (rest := elsewhere(model.network, block_list)) else []),
        (Message("matrix products"), flops_text(total_flops(trace, block_list))),
        *(
            (joined(" ", "·", BLOCK_NAMES[kind]), flops_text(_sum(flops)))
            for kind, flops in by_kind.items()
            if _sum(flops) != 0
        ),
        (Message("norms"), Message("none: this model has no norms") if config.norm == "none" else placement),
    ]
    if not model.predicts:
        facts.append((Message("output"), NO_PREDICTIONS))
    if config.parallel:
        facts.append((Message("blocks"), Message("parallel: all blocks of a layer read what enters it")))
    if not config.residual and config.kind != "recurrent":
        facts.append((Message("residual"), Message("no short cut: each block's output replaces the stream")))
    if model.kind == "recurrent":
        facts.append((Message("output"), Message("only the decoder ends in a softmax; the encoder gives annotations")))
    elif model.kind in TWO_STACKS:
        facts.append(
            (Message("output"), Message("only the decoder ends in a softmax; the encoder gives keys and values"))
        )
    facts.append((Message("arrows"), Message("as thick as the mean norm of what flows")))
    return facts


def _in_file(count: int) -> str:
    return Message(
        "{count}: here rows of its positions and token types are added up, and unused ones left out",
        count=f"{count:,}",
    )


def alternative(model: TextModel, guess: dict[str, Any], note: str) -> str:
    """The picture in words."""
    config = model.config
    layers = joined(
        ", ",
        *(
            Message(
                "{stack} of {count} layer", plural="{stack} of {count} layers", stack=attention_title(name), count=count
            )
            for name in config.stacks
            if (count := config.depth(name))
        ),
    )
    numbers = dict.fromkeys(config.shape_of(name).heads for name in config.stacks)
    heads = joined(" + ", *(Message("{count} head", plural="{count} heads", count=number) for number in numbers))
    if not guess["labels"]:
        text = Message("Map of the model: {layers}, {heads} each. {note}.", layers=layers, heads=heads, note=note)
        return joined(" ", text, NO_PREDICTIONS)
    return Message(
        "Map of the model: {layers}, {heads} each. {note}. "
        "At the top the {place}: most probable is {token}, {probability}.",
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
        "odd": Message("not a number, or infinite"),
        "pinned": Message("on a bar: the pinned probability"),
        "mark": Message("pinned"),
        "moved": Message("as thick as the vectors there changed"),
        "movedHead": Message("the stronger, the more of a head's weight moved"),
        "same": Message("as pinned"),
        "layer": Message("layer {number}"),
        "head": Message("head"),
        "more": Message("{count} more"),
        "largest": Message("largest of the head"),
        "scale": Message("weight difference") if differing else Message("attention weight"),
        "scales": {name: scale_title(name) for name in ("one", "largest")},
        "pooled": Message("largest of several cells"),
        "whole": Message("The whole model"),
        "pointed": Message("Point at a block, or tap it, to see its shapes; click, or tap again, to open its page."),
    }
