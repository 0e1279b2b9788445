"""A tokenizer that transformers runs in Python, as Marian's, whose two languages have a model each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from model.foreign.special_tokens import OthersTokenizer, SpecialTokens
from model.text import SPACE, clean
from model.tokens import Role, Tokens


class SlowTokenizer(OthersTokenizer):
    """One side of a `PreTrainedTokenizer`, which is the target's alone from then on where the two differ."""

    can_be_saved = False  # it is of Python, and of files of its own

    def __init__(self, made: Any, special: SpecialTokens, size: int, side: Literal["source", "target"]) -> None:
        super().__init__(special, size)
        self._made, self.side, self.words = made, side, True
        self.special = sorted({*self.special, *(token for token in made.all_special_ids if token is not None)})
        if side == "target" and hasattr(made, "_switch_to_target_mode"):
            made._switch_to_target_mode()
        framed, plain = made.build_inputs_with_special_tokens([-1]), [-1]
        place = framed.index(plain[0])
        self._around = framed[:place], framed[place + 1 :]

    def margins(self, role: Role) -> tuple[list[int], list[int]]:
        before, after = self._around
        if role == "target":
            return list(self._target) or [self.need("padding")], []
        return before, [] if role == "prompt" else after

    def encode(self, text: str, masks: bool = False) -> Tokens:
        """Piece by piece where the mask token's name stands in a text that may hide tokens."""
        if masks and self.mask is not None and self.mask_label in text:
            mask, tokens = self.tokens([self.mask]), Tokens([], [])
            for number, piece in enumerate(text.split(self.mask_label)):
                tokens = tokens.between(after=mask if number else None).between(after=self.encode(piece))
            return tokens
        return self.tokens(self._made.convert_tokens_to_ids(self._pieces(clean(text))))

    def ends(self, text: str) -> list[int]:
        """Where the pieces, read one after another, have used up the text's own characters."""
        text, place, ends = clean(text), 0, []
        for piece in self._pieces(text):
            for character in piece.replace(SPACE, ""):
                found = text.find(character, place)
                place = found + 1 if found >= 0 else min(place + 1, len(text))
            ends.append(place)
        return [*ends[:-1], len(text)] if ends else []

    def decode(self, ids: Sequence[int]) -> str:
        kept = [token for token in ids if token not in self.special]
        return str(self._made.convert_tokens_to_string(self._made.convert_ids_to_tokens(kept))).strip()

    def _shown(self, token: int) -> str:
        return str(self._made.convert_ids_to_tokens(token) or f"<{token}>")

    def to_json(self) -> str:
        return f'{{"class": "{type(self._made).__name__}", "tokens": {self.size}, "side": "{self.side}"}}\n'

    def _pieces(self, text: str) -> list[str]:
        return list(self._made.tokenize(text, split_special_tokens=True))
