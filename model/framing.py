"""Special tokens, and which of them stand around a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal

from model.rules import NO_RULES, Rules
from model.tokens import Role, Tokens


class Framing:
    """What a tokenizer knows of its special tokens.

    padding, unknown, start, end, mask: ids; tokenizers of others may lack any of them. stops: those that end what a
    model writes. special: those that stand in no text. words: a token that begins a word begins with ▁. continues: how
    one begins that goes on with a word, if it is shown. reason: why texts are bare ids, where they are.
    rules: of what it writes.
    """

    padding: int | None
    unknown: int | None
    start: int | None
    end: int | None
    mask: int | None
    continues = ""
    reason = ""
    rules: Rules = NO_RULES
    stops: frozenset[int]
    special: list[int]
    words: bool

    def encode(self, text: str, masks: bool = False) -> Tokens:
        """The tokens of `text` alone. Text that spells a special token is plain text; masks: but the mask's is it."""
        raise NotImplementedError

    def label(self, token: int) -> str:
        """What to show for a token id."""
        raise NotImplementedError

    @cached_property
    def special_labels(self) -> frozenset[str]:
        return frozenset(self.label(token) for token in self.special)

    @property
    def mask_label(self) -> str:
        """How the mask token is written in a text; empty if there is none."""
        return "" if self.mask is None else self.label(self.mask)

    def need(self, name: Literal["padding", "start", "end"]) -> int:
        """The id of a special token.

        Raises:
            ValueError: this tokenizer has none.
        """
        token = {"padding": self.padding, "start": self.start, "end": self.end}[name]
        if token is None:
            raise ValueError(f"the tokenizer has no {name} token, which this needs: choose another model")
        return token

    @property
    def ending(self) -> list[int]:
        """The token after a text that has ended, if there is one."""
        return [] if self.end is None else [self.end]

    @property
    def filler(self) -> int:
        """What stands behind the shorter texts of a batch, where masks hide it."""
        return 0 if self.padding is None else self.padding

    def margins(self, role: Role) -> tuple[list[int], list[int]]:
        """The special tokens that a model expects before a text and after it."""
        before, after = [self.need("start")], [self.need("end")]
        return {"source": ([], after), "target": (before, []), "prompt": (before, []), "whole": (before, after)}[role]

    def framed(self, text: str, role: Role, length: int) -> Tokens:
        """The tokens of `text` as a model gets it, at most `length` with those around it: of a prompt the last, else
        the first. In a whole text the mask token's name is the mask token.
        """
        before, after = (self.tokens(ids) for ids in self.margins(role))
        tokens, room = self.encode(text, masks=role == "whole"), max(0, length - len(before) - len(after))
        tokens = tokens.last(room) if role == "prompt" else tokens.cut(room)
        return replace(tokens.between(before, after), before=len(before), after=len(after))

    def written(self, ids: Sequence[int]) -> Tokens:
        """What a model wrote as a target: after the tokens that one begins with, without those that end it."""
        before, _ = self.margins("target")
        return replace(self.tokens([*before, *(each for each in ids if each not in self.stops)]), before=len(before))

    def tokens(self, ids: Sequence[int]) -> Tokens:
        """Ids with their labels."""
        return Tokens(list(ids), [self.label(token) for token in ids])
