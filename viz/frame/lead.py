"""The line that a page begins with: what it shows; and hints for who is here for the first time, until dismissed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from viz.components.registry import component, pack
from viz.components.view import PackedView, View
from viz.i18n.catalogue import _
from viz.i18n.format import no_training
from viz.state.session import Key, Session, attention_kinds, choice
from viz.state.token_groups import merged, run_of

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

_lead = component("frame/lead")

KEY = "lead"
ELSEWHERE = ("lesson", "join", "class", "notes")  # in the address of who is led already: no tour is offered
Hint = Sequence[str | dict[str, Any]]  # words, and tokens between them: {label, special, side, position}


def page_intro(session: Session, page: str, model: TextModel) -> View:
    """A page's first line. Its hints are shown until the reader puts them away, which the browser remembers."""
    hints: Sequence[Hint] = ()
    if page == "map" and not session.address.get("lesson"):  # whose text says what to do
        hints = things_to_try(model)
    elif page == "attention" and (hint := next_token(session)):
        hints = [hint]
    words = {"dismiss": _("Got it")}
    if page == "map" and not any(session.address.get(name) for name in ELSEWHERE):
        words["tour"] = _("Show me around")
    data = {"page": page, "sentence": sentence_of(page), "hints": hints, "words": words}
    return PackedView(_lead, KEY, pack(data))


def sentence_of(page: str) -> str:
    """Sentence on what a page shows."""
    return {
        "map": _("The whole model at work on this text, from the embeddings below to the predictions above."),
        "positions": _("What enters the model: a vector for each token, and one for where it stands."),
        "attention": _("Which tokens each token looks at, in every head: rows look, columns are looked at."),
        "masks": _("Where a token may look, and what becomes of the text when that is changed."),
        "residual": _("How each token's vector grows from block to block, and what the norms make of it."),
        "feed_forward": _("The units of the feed-forward networks: which tokens excite them, which words they favour."),
        "predictions": _("What the model expects at each position, how sure it is, and how it writes a text of that."),
        "training": _("Train a model and watch it learn: while it is shown, every page follows its steps."),
        "checkpoints": _("Open models, read their weights, compare them, keep what was trained."),
        "lessons": _("Lessons, step by step: each question is answered by the model on your text."),
        "lab": _("Statements of tutorials, computed and trained here to see which of them hold."),
    }[page]


def things_to_try(model: TextModel) -> list[Hint]:
    """Hints for a newcomer, on the first page."""
    hints: list[Hint] = [
        [_("Type in the field above: every picture follows each letter.")],
        [_("Point at a block, or tap it, to see what it does to this text; click it, or tap again, to open its page.")],
    ]
    if not no_training(model.network.ours, model.predicts):
        hints.append([_("On the page Training, press Begin and run: a tiny model learns from nothing as you watch.")])
    return hints


def next_token(session: Session) -> Hint | None:
    """Note that the row of a token is about the next one, where the attention shown is of a model that predicts it."""
    kinds = attention_kinds(session.model.network)
    trace, kind = session.trace, choice(kinds, kinds[-1], Key.KIND)
    side = "target" if trace.target_tokens else "source"
    labels = trace.target_tokens or trace.source_tokens
    if kind == "encoder" or session.model.kind == "encoder-only":
        return None
    tokenizer = session.model.target_tokenizer
    end = tokenizer.end if trace.target_tokens and session.ended else None  # what comes after the last one
    places = len(labels) + (end is not None)
    if places < 2:
        return None
    read = min(session.selection.query, places - 2)

    def token(place: int) -> dict[str, Any]:
        runs = merged(session).get(side)
        if end is not None and place == len(labels):
            position = place if runs is None else len(runs)
            return {"label": tokenizer.label(end), "special": True, "side": side, "position": position}
        at = run_of(session, side, place)
        label = labels[place] if runs is None else runs.labels[at]
        return {"label": label, "special": label in trace.special_labels, "side": side, "position": at}

    words = _("A row is the token that was read, here {read}. What it looks at helped to predict the next one, {next}.")
    before, _read, rest = words.partition("{read}")
    between, _next, after = rest.partition("{next}")
    return [before, token(read), between, token(read), "→", token(read + 1), after]
