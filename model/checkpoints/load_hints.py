"""Hints of a user on options that the weights of a model do not tell."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import quote, unquote

Positions = Literal["sinusoidal", "none"]


@dataclass(frozen=True)
class LoadHints:
    """Options of a model from its user. heads: number in each attention. positions: of a model without a table of them.
    start: id of the token that a target begins with. base: path or name of the model that an adapter changes.
    """

    heads: int | None = None
    positions: Positions | None = None
    start: int | None = None
    base: str | None = None

    @classmethod
    def read(cls, text: str) -> LoadHints:
        """Hints in a text such as "heads:8,positions:none,start:1,base:models/gpt2"; in a base's
        name %2C is a comma.

        Raises:
            ValueError: a part of the text is no hint.
        """
        hints: dict[str, int | str] = {}
        for part in filter(None, text.split(",")):
            name, _sign, value = part.partition(":")
            if name == "positions" and value in get_args(Positions):
                hints[name] = value
            elif name in ("heads", "start") and value.isascii() and value.isdigit() and len(value) < 8:
                hints[name] = int(value)
            elif name == "base" and value and (base := unquote(value)).isprintable():
                hints[name] = base
            else:
                raise ValueError(
                    f"{part[:40]!r} must be heads:N, positions:sinusoidal, positions:none, start:ID or base:NAME"
                )
        return cls(**hints)  # type: ignore[arg-type]  # checked above

    def text(self) -> str:
        """Text from which `read` makes these hints."""
        hints = dataclasses.asdict(self)
        hints["base"] = self.base and quote(self.base, safe="/ ")
        return ",".join(f"{name}:{value}" for name, value in hints.items() if value is not None)
