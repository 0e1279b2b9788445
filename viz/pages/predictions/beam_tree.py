"""The tree of a beam search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import exp
from typing import Any

import pandas as pd

from model.inference.beam_search import SearchTree
from model.inference.decoding import Generation
from model.inference.text_model import TextModel
from model.text.tokenizer import Tokens
from viz.components.view import Answer, View
from viz.figures.figure import Caption
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.pages.predictions.components import tree
from viz.pages.predictions.text import about_tree, view_name
from viz.render.renderer import words


def tree_of(model: TextModel, found: SearchTree, stamp: str, key: str, on_node: Answer) -> View:
    """The candidates of each step, best first."""

    def text(tokens: list[int]) -> str:
        return model.target_tokenizer.decode(tokens).replace("\n", "⏎")

    nodes = [{"parent": -1, "step": 0, "row": 0, "sentence": "", "label": "", "fate": "kept", "probability": 1.0}]
    seen: Counter[int] = Counter()
    for index in range(1, len(found.nodes)):
        node = found.nodes[index]
        told = _("“{text}” · log-probability {total} nats · score {score}").format(
            text=text(tokens_to(found, index)), total=significant(node.total), score=significant(found.score(index))
        )
        nodes.append(
            {
                "parent": node.parent,
                "step": node.length,
                "row": seen[node.length],
                "label": model.target_tokenizer.label(node.token),
                "fate": node.fate,
                "probability": exp(node.log_probability),
                "sentence": f"{told} · {fate_name(node.fate)}",
                "open": can_take(model, found, index),
            }
        )
        seen[node.length] += 1
    ranked = found.ranked()
    best = text(tokens_to(found, ranked[0]))
    alt = _("Beam search: {count} candidates, {finished} finished, the best “{text}”")
    header: dict[str, Any] = {
        "nodes": nodes,
        "hypotheses": [
            {"node": index, "text": text(tokens_to(found, index)), "score": found.score(index)} for index in ranked
        ],
        "legend": [{"fate": fate, "name": fate_name(fate)} for fate in ("kept", "finished", "cut")],
        "alt": alt.format(count=len(found.nodes) - 1, finished=len(ranked), text=best),
        "file": "beam-search",
        "stamp": stamp,
        "words": {
            "continue": _("Click to continue from it"),
            "score": _("score"),
            **words(_("candidate"), _("step"), _("continues row"), _("token"), _("probability"), _("fate")),
        },
    }
    above = Caption(view_name("search"), header["file"], stamp, about=about_tree(found.length_penalty))
    return tree(header, key, on_node, above)


def tokens_to(found: SearchTree, index: int) -> list[int]:
    """The tokens from the first written to this node's."""
    return [found.nodes[node].token for node in found.path(index)]


def can_take(model: TextModel, found: SearchTree, index: int) -> bool:
    """Whether the text can be that of this node: a token that no text can hold is none that leads to it."""
    tokens, tokenizer = tokens_to(found, index), model.target_tokenizer
    inner = tokens[:-1] if tokens[-1] in tokenizer.stops else tokens
    return bool(inner) and not set(inner) & set(tokenizer.special)


def fate_name(fate: str) -> str:
    return {
        "kept": _("kept in the beam"),
        "finished": _("finished"),
        "cut": _("cut from the beam"),
    }[fate]


def ended_words(finished: int, beam: int) -> str:
    """Why more hypotheses have ended than the beam is wide."""
    return _(
        "{finished} hypotheses ended in a beam of {beam}: one that ends leaves the beam, and the next best candidate "
        "takes its place."
    ).format(finished=finished, beam=beam)


def table(model: TextModel, found: SearchTree) -> pd.DataFrame:
    """A row per candidate."""
    numbers = range(1, len(found.nodes))
    nodes = found.nodes[1:]
    columns = {
        _("step"): [node.length for node in nodes],
        _("continues row"): [node.parent - 1 for node in nodes],
        _("token"): [model.target_tokenizer.label(node.token) for node in nodes],
        _("log-probability"): [node.log_probability for node in nodes],
        _("log-probability so far"): [node.total for node in nodes],
        _("score"): [found.score(index) for index in numbers],
        _("fate"): [fate_name(node.fate) for node in nodes],
    }
    return pd.DataFrame(columns)


# The text that comes of a click on a token that was not chosen.


def after_position(
    model: TextModel, source: str, target: str, generation: Generation | None, read: Tokens, position: int, token: int
) -> str:
    """The new target of a translator, of others the new text, when `token` comes after `position` or fills it in.

    source, target: as typed. generation: the target, where the model wrote it. read: the source's tokens.
    """
    if model.kind == "encoder-only":
        return model.take(source, read.labels[:position].count(model.source_tokenizer.mask_label), token)
    if model.kind == "decoder-only":
        return model.continue_from(source, "", read.left_out + position + 1 - read.before, [token])
    kept = position + 1 - len(model.target_tokenizer.margins("target")[0])
    begun = target if generation is None else model.target_tokenizer.decode(generation.ids[:kept])
    return model.continue_from(source, begun, kept, [token])


def after_search(model: TextModel, source: str, tokens: Sequence[int]) -> str:
    """The same for tokens of a beam search: they begin the target, or follow a language model's text."""
    kept = len(model.source_tokenizer.encode(source)) if model.kind == "decoder-only" else 0
    return model.continue_from(source, "", kept, tokens)
