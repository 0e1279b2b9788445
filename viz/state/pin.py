"""The pin: a trace kept as the reference, and what is computed of it alone, once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from model.capture.trace import Trace
    from model.inference.text_model import TextModel
    from model.text.tokenizer import Tokens

Made = TypeVar("Made")


def cached_for_pin(pin: Pin, key: Hashable, made_of: tuple[object, ...], make: Callable[[], Made]) -> Made:
    """Value of `make` for these on the pin, cached by the pin itself; only the last of a key."""
    known = pin.cache.get(key)
    if known is None or known[0] != made_of:
        known = pin.cache[key] = (made_of, make())
    value: Made = known[1]
    return value


@dataclass(frozen=True)
class Pin:
    """A trace kept as the reference: of which model, on which text; name: of the model, with the step of a training.

    ended: whether the written text ends where its tokens do, see `Session.ended`.
    """

    name: str
    text: str
    trace: Trace
    model: TextModel
    texts: tuple[Tokens, Tokens | None]  # source and target
    ended: bool = True
    cache: dict[Any, Any] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )  # of it: see cached_for_pin

    def same_words(self, model: TextModel, side: str = "target") -> bool:
        """True if a model reads, or predicts, tokens of the same vocabulary: only then can they be compared."""
        own, other = (getattr(each, f"{side}_tokenizer") for each in (self.model, model))
        return own is other or (len(own) == len(other) and own.to_json() == other.to_json())
