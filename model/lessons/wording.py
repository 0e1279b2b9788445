"""Question of a lesson in words, of the text that is there."""

from __future__ import annotations

from collections.abc import Sequence

from model.capture.interventions import (
    AttentionChange,
    Cells,
    RemovedExpert,
    RemovedHead,
    Window,
    read_changes,
)
from model.lessons.questions import Question, keys, mixture, numbered, queries
from model.lessons.state import Subject
from model.message import Message


def wording(question: Question, subject: Subject) -> Message:
    """Question in words, of the text that is there."""
    head, kind = _where(question, subject), question.kind
    if kind in ("key", "next"):
        attention, _layer, _head, query = (
            question.place(subject) if kind == "key" else ("decoder", 0, 0, question.query)
        )
        labels = numbered(queries(subject, attention))
        token = labels[min(query, len(labels) - 1)]
        if kind == "next":
            return Message("Which token does the model expect after {token}?", token=token)
        return Message("In {head}: which token does {token} look at most?", head=head, token=token)
    if kind == "expert":
        return _expert_wording(question, subject)
    if kind == "cell":
        return Message("In {head}: which cell has the largest weight?", head=head)
    if kind == "change":
        change = _change_name(question.change, subject)
        return Message("What becomes of {quantity} {change}?", quantity=_quantity(question, subject), change=change)
    if kind == "number":
        percent = round(100 * question.tolerance)
        if question.of == "parameters":
            return Message(
                "How many active weights are there, without those of the experts that a token does not go through? "
                "(Right within {percent} %)",
                percent=percent,
            )
        quantity = _quantity(question, subject)
        return Message("How large is {quantity}? (Right within {percent} %)", quantity=quantity, percent=percent)
    if kind == "step":
        return _step_wording(question)
    if kind == "search":
        return Message("How does a search with beam {beam} end, beside greedy decoding?", beam=question.beam)
    if kind == "token" and question.of == "loss":
        most = Message("After which token is the next one hardest to predict?")
        return most if question.most else Message("After which token is the next one easiest to predict?")
    if kind == "token":
        most = Message("Which token has the longest vector after the last block?")
        return most if question.most else Message("Which token has the shortest vector after the last block?")
    return _head_wording(question, subject)


def _head_wording(question: Question, subject: Subject) -> Message:
    metric, attention = METRIC_NAMES[question.of], _attention(question.attention or subject.attentions[-1], subject)
    if attention is None:
        if question.most:
            return Message("Find the head with most of this: {metric}.", metric=metric)
        return Message("Find the head with least of this: {metric}.", metric=metric)
    if question.most:
        return Message("Find the head of {attention} with most of this: {metric}.", attention=attention, metric=metric)
    return Message("Find the head of {attention} with least of this: {metric}.", attention=attention, metric=metric)


def _expert_wording(question: Question, subject: Subject) -> Message:
    stack = mixture(question, subject).partition(".")[0]
    labels = numbered(queries(subject, stack))
    token, layer = labels[min(question.query, len(labels) - 1)], question.layer + 1
    if stack == "encoder":
        return Message(
            "In layer {layer} of the encoder: to which expert does the router send {token}?", layer=layer, token=token
        )
    return Message(
        "In layer {layer} of the decoder: to which expert does the router send {token}?", layer=layer, token=token
    )


def _step_wording(question: Question) -> Message:
    value, percent = f"{question.value:g}", round(100 * question.tolerance)
    if question.of == "loss":
        return Message(
            "At which step is the training's loss below {value} for the first time? (Right within {percent} %)",
            value=value,
            percent=percent,
        )
    if question.of == "validation":
        return Message(
            "After which step is the loss on unseen texts first measured below {value}? (Right within {percent} %)",
            value=value,
            percent=percent,
        )
    return Message(
        "After which step are {share} %, or more, of unseen texts without a mistake? (Right within {percent} %)",
        share=f"{100 * question.value:g}",
        percent=percent,
    )


def _where(question: Question, subject: Subject) -> Message:
    return _head_name(question.attention or subject.attentions[-1], question.layer, question.head, subject)


def _head_name(kind: str, layer: int, head: int, subject: Subject) -> Message:
    """Head with its layer and, where a model has several kinds of attention, its kind."""
    attention = _attention(kind, subject)
    if attention is None:
        return Message("head {head} of layer {layer}", head=head + 1, layer=layer + 1)
    return Message("head {head} of layer {layer} of {attention}", head=head + 1, layer=layer + 1, attention=attention)


def _attention(kind: str, subject: Subject) -> Message | None:
    """Kind of attention in words; None where the model has one alone."""
    return ATTENTION_NAMES[kind] if len(subject.attentions) > 1 else None


def _quantity(question: Question, subject: Subject) -> Message:
    if question.of == "entropy":
        return Message("the mean entropy of {head} (in nats)", head=_where(question, subject))
    if question.of == "loss":
        return Message("the mean loss (in nats)")
    return Message("what the model writes") if subject.model.training.get("task") else Message("the translation")


def _change_name(change: str, subject: Subject) -> Message:
    if change in CHANGE_NAMES:
        return CHANGE_NAMES[change]
    one, *others = changes = read_changes(change)
    if isinstance(one, RemovedHead) and not others:
        return Message("with {head} removed", head=_head_name(one.kind, one.layer, one.head, subject))
    if isinstance(one, RemovedExpert) and not others:
        expert, layer = one.expert + 1, one.layer + 1
        if one.kind == "encoder":
            return Message("with expert {expert} of layer {layer} of the encoder removed", expert=expert, layer=layer)
        return Message("with expert {expert} of layer {layer} of the decoder removed", expert=expert, layer=layer)
    if isinstance(one, Window) and one.kind == "encoder" and not others:
        return Message("with a window of {width} in the encoder", width=one.width)
    if isinstance(one, Window) and one.kind == "decoder" and not others:
        return Message("with a window of {width} in the decoder", width=one.width)
    if (token := _hidden_token(changes, subject)) is not None:
        return _hidden_words(token, {each.kind for each in changes})
    return Message("with this change: {change}", change=change)


def _hidden_words(token: str, kinds: set[str]) -> Message:
    """Words on a token that no query of these kinds of attention may look at."""
    if kinds == {"cross"}:
        return Message("with {token} hidden in the cross-attention", token=token)
    if kinds == {"encoder", "cross"}:
        return Message("with {token} hidden in the encoder and in the cross-attention", token=token)
    return Message("with {token} hidden from whoever looks at it", token=token)


def _hidden_token(changes: Sequence[AttentionChange], subject: Subject) -> str | None:
    """Label of the one token that all these changes hide, in every layer and head, from every query."""
    cells = [each for each in changes if isinstance(each, Cells) and str(each).startswith(f"{each.kind}.*.*:hide:*,")]
    places = {each.key for each in cells}
    if len(cells) != len(changes) or len(places) != 1 or None in places:
        return None
    labels, place = numbered(keys(subject, cells[-1].kind)), cells[-1].key
    return labels[place] if place is not None and place < len(labels) else None


CHANGE_NAMES = {
    "unscaled": Message("without the factor 1/√d_k"),
    "shuffled": Message("with the positions of the text that is read shuffled"),
    "decoder:causal:off": Message("without the decoder's causal mask"),
    "encoder:causal:on": Message("with a causal mask in the encoder"),
    "encoder:padding:off": Message("without the encoder's padding mask"),
    "cross:padding:off": Message("without the padding mask of the cross-attention"),
    "decoder:padding:off": Message("without the decoder's padding mask"),
}
ATTENTION_NAMES = {
    "encoder": Message("the encoder's self-attention"),
    "decoder": Message("the decoder's self-attention"),
    "cross": Message("the cross-attention"),
}
METRIC_NAMES = {
    "entropy": Message("entropy of its weights"),
    "distance": Message("mean distance of what it looks at"),
    "previous": Message("weight on the token before"),
    "first": Message("weight on the very first token"),
    "special": Message("weight on all special tokens"),
    "diagonal": Message("weight on its own place"),
    "induction": Message("weight on what came after the same token earlier"),
}
