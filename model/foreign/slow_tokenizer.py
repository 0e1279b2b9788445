"""A tokenizer that transformers runs in Python, as Marian's, whose two languages have a model each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from model.errors import CheckpointError
from model.foreign.older_files import Files, in_json, staged
from model.foreign.special_tokens import OthersTokenizer, SpecialTokens, saved_json
from model.hosted.library import library, quietly
from model.text import SPACE, clean
from model.tokens import Role, Tokens

Side = Literal["source", "target"]
OPTIONS = {"local_files_only": True, "trust_remote_code": False}


class SlowTokenizer(OthersTokenizer):
    """One side of a `PreTrainedTokenizer`, which is the target's alone from then on where the two differ."""

    def __init__(self, made: Any, files: Files, special: SpecialTokens, size: int, side: Side) -> None:
        """made: by transformers, of the files."""
        super().__init__(special, size)
        self._made, self.files, self.side, self.words = made, files, side, True
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
        """With the files, as `saved_tokenizer` reads it."""
        return self._json

    @cached_property
    def _json(self) -> str:
        return saved_json(self._own, self.size, self._around, more={"side": self.side, "files": in_json(self.files)})

    def _pieces(self, text: str) -> list[str]:
        return list(self._made.tokenize(text, split_special_tokens=True))


def slow_tokenizer(files: Files, special: SpecialTokens, size: int, side: Side) -> SlowTokenizer:
    """One of checked files, which say its class.

    Raises:
        CheckpointError: transformers is not installed.
        Exception: whatever it raises for files that it cannot read.
    """
    with made_by_transformers(files) as (made, _folder):
        if hasattr(made, "backend_tokenizer"):
            raise CheckpointError(f"its tokenizer is of the class {type(made).__name__}: give a tokenizer.json")
        return SlowTokenizer(made, files, special, size, side)


@contextmanager
def made_by_transformers(files: Files, kind: str = "AutoTokenizer") -> Iterator[tuple[Any, Path]]:
    """A tokenizer of a class of transformers, and the folder that its files lie in for as long as the block lasts."""
    try:
        transformers = library()
    except ImportError as error:
        raise CheckpointError("its tokenizer is in files that transformers reads: pip install transformers") from error
    with quietly(), staged(files) as folder:
        yield getattr(transformers, kind).from_pretrained(str(folder), **OPTIONS), folder
