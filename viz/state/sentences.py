"""Several sentences, one of which is in the fields: whoever steps to another sees it in every view.

They are in the address, each a source and a target; of the one in the fields, what is typed there counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from viz.i18n.catalogue import _
from viz.state.permissions import longest_text
from viz.state.session import Key, Session
from viz.state.texts import first_source, typed, write

if TYPE_CHECKING:
    from model.inference.text_model import TextModel
    from model.text.tokenizer import Tokens

SENTENCES, PLACE = "sentences", "sentence"  # parameters of the address bar
MOST = 100

Pair = tuple[str, str]


def sentences(session: Session) -> list[Pair]:
    """All of them in their order, as they were when they were last left; empty where there are not several."""
    try:
        entries = json.loads(session.address.get(SENTENCES) or "[]")
        pairs = [(str(source), str(target)) for source, target in entries]
    except (ValueError, TypeError):  # an address that somebody wrote by hand
        return []
    return pairs if 1 < len(pairs) <= MOST else []


def place(session: Session) -> int:
    """Number of the pair that is in the fields."""
    number = session.address.get(PLACE) or ""
    last = max(len(sentences(session)) - 1, 0)
    return min(max(int(number) - 1, 0), last) if number.isascii() and number.isdigit() and len(number) < 5 else 0


def others(session: Session, most: int) -> list[Pair]:
    """So many of those that follow the one in the fields, and that say something."""
    every, at = sentences(session), place(session)
    return [pair for pair in [*every[at + 1 :], *every[:at]] if pair[0].strip()][:most]


def read(model: TextModel, pairs: Sequence[Pair]) -> list[dict[str, Tokens]]:
    """Their tokens by side; of a model that has targets, those that are not typed are what it writes."""
    from model.inference.models import Translator

    tokens_of_pairs = [{"source": model.source_tokens(source)} for source, _target in pairs]
    if pairs and isinstance(model, Translator):
        translations = model.generate_batch([source for source, _target in pairs])
        for each, (_source, target), written in zip(tokens_of_pairs, pairs, translations, strict=True):
            each["target"] = model.target_tokens(target) if target else model.target_tokenizer.written(written.ids)
    return tokens_of_pairs


def step(session: Session, by: int) -> None:
    """Go on to the next, from the last to the first; or back."""
    every = _as_typed(session)
    if len(every) > 1:
        _show(session, every, (place(session) + by) % len(every))


def add(session: Session) -> None:
    """A new one, still empty, behind the one in the fields."""
    every, at = _as_typed(session), place(session) + 1
    if _fits(session, [*every, ("", "")]):
        _show(session, [*every[:at], ("", ""), *every[at:]], at)


def remove(session: Session) -> None:
    """Take the one in the fields away."""
    every, at = _as_typed(session), place(session)
    if len(every) > 1:
        rest = [*every[:at], *every[at + 1 :]]
        _show(session, rest, min(at, len(rest) - 1))


def into_lines(session: Session) -> None:
    """Each line of the text is a sentence of its own; targets too, where they are as many."""
    sources, targets = (_lines(text) for text in _as_typed(session)[place(session)])
    pairs = list(zip_longest(sources, targets if len(targets) == len(sources) else [], fillvalue=""))
    if len(pairs) > 1 and _fits(session, pairs):
        _show(session, pairs, 0)


def into_one(session: Session) -> None:
    """Join all of them as lines of one text."""
    sources, targets = zip(*_as_typed(session), strict=True)
    _show(session, [("\n".join(sources), "\n".join(targets) if all(targets) else "")], 0)


def _as_typed(session: Session) -> list[Pair]:
    """All sentences, with the one that is typed now."""
    model = session.model if session.traced_input else session.stage.model
    now = (typed(Key.SOURCE, first_source(model)), typed(Key.TARGET, ""))
    every, at = sentences(session), place(session)
    return [*every[:at], now, *every[at + 1 :]]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _fits(session: Session, every: list[Pair]) -> bool:
    """True if the address can hold so many; what cannot be is said."""
    letters = sum(len(text) for pair in every for text in pair)
    if len(every) <= MOST and letters <= longest_text():
        return True
    refusal = _("At most {most} sentences of {letters} characters together can be stepped through: these are {count}.")
    session.notice = refusal.format(most=MOST, letters=f"{longest_text():,}", count=len(every))
    return False


def _show(session: Session, every: list[Pair], at: int) -> None:
    several = len(every) > 1
    session.address.set(SENTENCES, json.dumps(every, ensure_ascii=False) if several else None)
    session.address.set(PLACE, str(at + 1) if several else None)
    with session.texts.lock:
        for key, text in zip((Key.SOURCE, Key.TARGET), every[at], strict=True):
            write(key, text)


ACTS = {"add": add, "remove": remove, "part": into_lines, "join": into_one}
