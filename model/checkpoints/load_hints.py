"""What somebody says of weights that do not tell everything about their model."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal, get_args

Positions = Literal["sinusoidal", "none"]


@dataclass(frozen=True)
class LoadHints:
    """heads: of each attention. positions: where there is no table of them. start: the id that a target begins with."""

    heads: int | None = None
    positions: Positions | None = None
    start: int | None = None

    @classmethod
    def read(cls, text: str) -> LoadHints:
        """What `text` says, such as "heads:8,positions:none,start:1".

        Raises:
            ValueError: it says something else.
        """
        found: dict[str, int | str] = {}
        for part in filter(None, text.split(",")):
            name, _sign, value = part.partition(":")
            if name == "positions" and value in get_args(Positions):
                found[name] = value
            elif name in ("heads", "start") and value.isascii() and value.isdigit() and len(value) < 8:
                found[name] = int(value)
            else:
                raise ValueError(f"{part[:40]!r} must be heads:N, positions:sinusoidal, positions:none or start:ID")
        return cls(**found)  # type: ignore[arg-type]  # checked above

    def text(self) -> str:
        """The same as text."""
        said = dataclasses.asdict(self)
        return ",".join(f"{name}:{value}" for name, value in said.items() if value is not None)
