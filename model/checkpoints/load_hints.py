"""Hints of a user on options that the weights of a model do not tell."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import quote, unquote

from model.message import InputError

Positions = Literal["sinusoidal", "none"]
Causal = Literal["yes", "no"]
NormOrder = Literal["post", "pre"]
Function = Literal["relu", "gelu", "gelu-tanh"]
WORDS: dict[str, tuple[str, ...]] = {
    "positions": get_args(Positions),
    "causal": get_args(Causal),
    "norm": get_args(NormOrder),
    "activation": get_args(Function),
}
NUMBERS = ("heads", "start")
TEXTS = ("base", "prefix")


@dataclass(frozen=True)
class LoadHints:
    """Options of a model from its user.

    heads: number in each attention. positions: of a model without a table of them. start: id of the token that a target
    begins with. causal: whether a token of a model with one stack sees only those before it. norm: whether norms stand
    behind each block or before it. activation: of the feed-forward networks. alphabet: the characters that tokens stand
    for, in the order of their ids. base: path or name of the model that an adapter changes. prefix: beginning of the
    names of the tensors of one of several models in a file, such as "teacher".
    """

    heads: int | None = None
    positions: Positions | None = None
    start: int | None = None
    causal: Causal | None = None
    norm: NormOrder | None = None
    activation: Function | None = None
    alphabet: str | None = None
    base: str | None = None
    prefix: str | None = None

    @classmethod
    def read(cls, text: str) -> LoadHints:
        """Hints in a text such as "heads:8,positions:none,base:models/gpt2"; letters of an alphabet and of a name are
        written as in an address, %0Aabc and %2C.

        Raises:
            ValueError: a part of the text is no hint.
        """
        hints: dict[str, int | str] = {}
        for part in filter(None, text.split(",")):
            name, _sign, value = part.partition(":")
            if value in WORDS.get(name, ()):
                hints[name] = value
            elif name in NUMBERS and value.isascii() and value.isdigit() and len(value) < 8:
                hints[name] = int(value)
            elif name == "alphabet" and value:
                hints[name] = unquote(value)
            elif name in TEXTS and value and (plain := unquote(value)).isprintable():
                hints[name] = plain
            else:
                words = ", ".join(f"{known}:{'|'.join(values)}" for known, values in WORDS.items())
                raise InputError(
                    "{part!r} must be heads:N, start:ID, alphabet:LETTERS, base:NAME, prefix:NAME or one of {words}",
                    part=part[:40],
                    words=words,
                )
        return cls(**hints)  # type: ignore[arg-type]  # checked above

    def text(self) -> str:
        """Text from which `read` makes these hints."""
        hints = dataclasses.asdict(self)
        if self.alphabet is not None:
            hints["alphabet"] = quote(self.alphabet, safe="")
        for name in TEXTS:
            if hints[name] is not None:
                hints[name] = quote(hints[name], safe="/ ")
        return ",".join(f"{name}:{value}" for name, value in hints.items() if value is not None)
