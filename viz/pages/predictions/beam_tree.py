"""The tree of a beam search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import exp

from model.inference.beam_search import SearchTree
from model.inference.decoding import Generation
from model.inference.text_model import TextModel
from model.message import Message
from model.text.tokenizer import Tokens
from viz.i18n.catalogue import _
from viz.i18n.format import significant, three_digits
from viz.i18n.messages import joined
from viz.pages.predictions.components import BeamTree, Candidate
from viz.pages.predictions.text import about_tree, view_name
from viz.state.inputs import Inputs
from viz.ui.plots import caption

FATES = {
    "kept": Message("kept in the beam"),
    "finished": Message("finished"),
    "cut": Message("cut from the beam"),
}

GREEDY = Message("what greedy decoding writes")


LONGEST = 60  # letters of a text in the sentence that compares two


def tree_figure(inputs: Inputs, tree: SearchTree) -> BeamTree:
    """The candidates of each step, best first."""
    tokenizer = inputs.model.target_tokenizer

    def text(index: int) -> str:
        return tokenizer.decode(tokens_to(tree, index)).replace("\n", "⏎")

    greedy = set(greedy_path(tree))
    candidates = [Candidate(-1, 0, 0, "", "kept", 1.0)]
    rows: Counter[int] = Counter()
    for index, node in enumerate(tree.nodes[1:], start=1):
        score = tree.score(index)
        sentence = Message("“{text}” · {score}", text=text(index), score=reckoned(tree, index))
        candidates.append(
            Candidate(
                *(node.parent, node.length, rows[node.length], tokenizer.label(node.token), node.fate),
                exp(node.log_probability),
                joined(" · ", sentence, FATES[node.fate], GREEDY if index in greedy else ""),
                can_take(inputs.model, tree, index),
                index in greedy or None,
                *(node.log_probability, node.total, score),
            )
        )
        rows[node.length] += 1
    ranked = tree.ranked()
    alt = Message(
        "Beam search: {count} candidate, {finished} finished, the best “{text}”",
        plural="Beam search: {count} candidates, {finished} finished, the best “{text}”",
        count=len(tree.nodes) - 1,
        finished=len(ranked),
        text=text(ranked[0]),
    )
    hypotheses = [{"node": index, "text": text(index), "score": three_digits(tree.score(index))} for index in ranked]
    above = caption(inputs, view_name("search"), "beam-search", alt=alt, about=about_tree(tree.length_penalty))
    words = {
        "continue": Message("Press to continue from it"),
        "score": Message("score"),
        "greedy": GREEDY,
        "path": Message("path to the best text, or to the one that is pointed at"),
        "order": Message("in each column the best score first; the number is the probability of this token alone"),
        "reckoned": Message(
            "Each token makes a text less probable, so the search divides the log-probability by a penalty that grows "
            "with the length, ((5 + tokens) / 6)^{exponent}.",
            exponent=significant(tree.length_penalty),
        ),
    }
    return BeamTree(above, candidates, hypotheses, FATES, words=words)


def reckoned(tree: SearchTree, index: int) -> Message:
    """Score up to a node, as it comes of its log-probability and its length."""
    node = tree.nodes[index]
    return Message(
        "log-probability {total} / length penalty {penalty} = score {score}",
        total=three_digits(node.total),
        penalty=three_digits(tree.penalty(node.length)),
        score=three_digits(tree.score(index)),
    )


def compared(model: TextModel, tree: SearchTree, beam: int, greedy: Generation) -> str:
    """What the search writes and what greedy decoding does of the same text, with their scores."""
    best = tree.ranked()[0]
    score = three_digits(tree.score(best))
    texts = model.target_tokenizer.decode(tokens_to(tree, best)), greedy.text
    searched, alone = (_short(each.replace("\n", "⏎")) for each in texts)
    if texts[0] == texts[1]:
        both = _("Beam {beam} and greedy decoding both write “{text}” (score {score}).")
        return both.format(beam=beam, text=searched, score=score)
    return _("Beam {beam} writes “{text}” (score {score}), greedy decoding “{greedy}” ({greedy_score}).").format(
        beam=beam,
        text=searched,
        score=score,
        greedy=alone,
        greedy_score=three_digits(tree.score_of(greedy.log_probability, len(greedy.ids))),
    )


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def greedy_path(tree: SearchTree) -> list[int]:
    """Nodes of the most probable token at each step, as far as the beam holds them."""
    following = {(node.parent, node.token): index for index, node in enumerate(tree.nodes)}
    path = [0]
    while choices := tree.nodes[path[-1]].choices:
        path.append(following.get((path[-1], choices[0][0]), -1))
        if path[-1] < 0:
            return path[1:-1]
    return path[1:]


def tokens_to(tree: SearchTree, index: int) -> list[int]:
    """The tokens from the first written to this node's."""
    return [tree.nodes[node].token for node in tree.path(index)]


def can_take(model: TextModel, tree: SearchTree, index: int) -> bool:
    """True if the text can be that of this node: a token that no text can hold is none that leads to it."""
    tokens, tokenizer = tokens_to(tree, index), model.target_tokenizer
    inner = tokens[:-1] if tokens[-1] in tokenizer.stops else tokens
    return bool(inner) and not set(inner) & set(tokenizer.special)


def ended_words(finished: int, beam: int) -> str:
    """Reason why more hypotheses have ended than the beam is wide."""
    return _(
        "{finished} hypotheses ended in a beam of {beam}: one that ends leaves the beam, and the next best candidate "
        "takes its place."
    ).format(finished=finished, beam=beam)


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
    length = position + 1 - len(model.target_tokenizer.margins("target")[0])
    prefix = target if generation is None else model.target_tokenizer.decode(generation.ids[:length])
    return model.continue_from(source, prefix, length, [token])


def after_search(model: TextModel, source: str, tokens: Sequence[int]) -> str:
    """Text after tokens of a beam search: they begin the target, or follow a language model's text."""
    length = len(model.source_tokenizer.encode(source)) if model.kind == "decoder-only" else 0
    return model.continue_from(source, "", length, tokens)
