"""Token ids with what to show for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

# What a text is to a model: a translator's source or target, what a language model goes on with, or a whole text.
Role = Literal["source", "target", "prompt", "whole"]


@dataclass(frozen=True)
class Tokens:
    """Ids with, for each, the text to show: a leading space as ▁, an unknown character as `<unk>`.

    left_out: how many tokens were cut off. before, after: how many of the ids stand around the text.
    """

    ids: list[int]
    labels: list[str]
    left_out: int = 0
    before: int = field(default=0, compare=False)
    after: int = field(default=0, compare=False)

    def __len__(self) -> int:
        return len(self.ids)

    def cut(self, length: int) -> Tokens:
        """At most the first `length` tokens."""
        return Tokens(self.ids[:length], self.labels[:length], max(0, len(self) - length))

    def last(self, length: int) -> Tokens:
        """At most the last `length` tokens."""
        first = max(0, len(self) - length)
        return Tokens(self.ids[first:], self.labels[first:], first)

    def between(self, before: Tokens | None = None, after: Tokens | None = None) -> Tokens:
        """These tokens with others around them."""
        parts = [part for part in (before, self, after) if part is not None]
        ids = [token for part in parts for token in part.ids]
        labels = [label for part in parts for label in part.labels]
        return Tokens(ids, labels, self.left_out)
