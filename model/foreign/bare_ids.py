"""The tokenizer of a model that came without one: a text is the ids of its tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence

from model.foreign.special_tokens import OthersTokenizer, SpecialTokens, saved_json
from model.tokens import Role, Tokens

NO_TOKENS = SpecialTokens(None, None, None, None, None, frozenset(), ())


class BareIds(OthersTokenizer):
    """Token ids, written as numbers with spaces between them: "12 5 7". reason: why there is no other tokenizer."""

    def __init__(self, size: int, reason: str, special: SpecialTokens = NO_TOKENS) -> None:
        super().__init__(special, size)
        self.reason, self.words = reason, False

    def margins(self, role: Role) -> tuple[list[int], list[int]]:
        """A target begins with what the config says, else with 0; around other texts stands what is typed."""
        start = 0 if self.start is None else self.start
        return (list(self._target or [start]), []) if role == "target" else ([], [])

    def framed(self, text: str, role: Role, length: int) -> Tokens:
        """As our tokenizers do it; a text of no number is read as the id that begins one."""
        tokens = super().framed(text, role, length)
        return tokens if len(tokens) else self.tokens([0 if self.start is None else self.start])

    def encode(self, text: str, masks: bool = False) -> Tokens:
        """The ids in a text.

        Raises:
            ValueError: a word is not the id of a token.
        """
        return self.tokens([self._read(word) for word in text.split()])

    def ends(self, text: str) -> list[int]:
        return [found.end() for found in re.finditer(r"\S+", text)]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(str(token) for token in ids if token not in self.special)

    def _shown(self, token: int) -> str:
        return str(token)

    def to_json(self) -> str:
        return saved_json(self._own, self.size, ([], []), reason=self.reason)

    def _read(self, word: str) -> int:
        if not (word.isascii() and word.isdigit() and len(word) < 10 and int(word) < self.size):
            raise ValueError(
                f"{word[:40]!r} is not the id of a token: this model came without a tokenizer, so its text is numbers "
                f"from 0 to {self.size - 1}, such as 12 5 7"
            )
        return int(word)
