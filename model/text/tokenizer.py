"""Text to token ids and back, by the Hugging Face `tokenizers` library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import tokenizers
from tokenizers import models

from model.runtime.errors import CheckpointError
from model.text.generation_rules import NO_RULES, GenerationRules
from model.text.untrusted import panics_named, read_tokenizer

# Special tokens, and which of them stand around a text.


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
    rules: GenerationRules = NO_RULES
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


PADDING, UNKNOWN, START, END, MASK = "<pad>", "<unk>", "<s>", "</s>", "<mask>"
SPECIAL = [PADDING, UNKNOWN, START, END]  # of every tokenizer; MASK only of those for masked-token models
SPACE = "▁"
LONGEST_WORD = 1000  # characters: the time that a BPE takes to learn grows with the square of a word's length


class Tokenizer(Framing):
    """A trained tokenizer. An unknown character becomes `<unk>`, never an exception."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner
        inner.encode_special_tokens = True  # "</s>" in a sentence is plain text, not the end of it
        self.padding, self.unknown, self.start, self.end = needed = [self._id(label) for label in SPECIAL]
        self.mask = inner.token_to_id(MASK)
        self.special = needed if self.mask is None else [*needed, self.mask]
        self.stops = frozenset([needed[-1]])
        self.words = isinstance(inner.model, models.BPE)

    def __len__(self) -> int:
        return self._inner.get_vocab_size()

    def encode(self, text: str, masks: bool = False) -> Tokens:
        """The tokens of `text`, without `<s>` and `</s>`. Text that spells a special token is plain text.

        masks: but the mask token's name is the mask token.
        """
        if masks and self.mask is not None and self.mask_label in text:
            return self._encode_around_masks(text)
        with panics_named("this text"):
            encoded = self._inner.encode(clean(text), add_special_tokens=False)
        return Tokens(list(encoded.ids), list(encoded.tokens))

    def ends(self, text: str) -> list[int]:
        """For each token of `text` how many characters of it there are up to the token's end."""
        return [end for _begin, end in self._inner.encode(clean(text), add_special_tokens=False).offsets]

    def _encode_around_masks(self, text: str) -> Tokens:
        """Piece by piece. A BPE puts a ▁ before each; characters keep the spaces between a piece and a mask."""
        assert self.mask is not None
        pieces, tokens = text.split(self.mask_label), Tokens([], [])
        for number, piece in enumerate(pieces):
            first, last = number == 0, number == len(pieces) - 1
            if self.words:
                inner = self.encode(piece)
                if not first and inner.labels[:1] == [SPACE] and not piece[0].isspace():  # the tokenizer's own
                    inner = self.tokens(inner.ids[1:])
            else:
                guarded = self.encode(("" if first else "|") + piece + ("" if last else "|"))
                inner = self.tokens(guarded.ids[not first : len(guarded) - (not last)])
            tokens = tokens.between(after=inner if last else inner.between(after=self.tokens([self.mask])))
        return tokens

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; special tokens leave no trace in it."""
        return self._inner.decode(list(ids), skip_special_tokens=True)

    def label(self, token: int) -> str:
        """What to show for a token id."""
        label = self._inner.id_to_token(token)
        if label is None:
            raise ValueError(f"token {token} is not in the vocabulary of {len(self)} tokens")
        return label

    def parents(self) -> dict[int, tuple[int, int]]:
        """For each merged BPE token the two it was merged from; empty for a character tokenizer."""
        inner = self._inner.model
        if not isinstance(inner, models.BPE):
            return {}
        found: dict[int, tuple[int, int]] = {}
        for left, right in json.loads(self._inner.to_str())["model"]["merges"]:
            found.setdefault(self._id(left + right), (self._id(left), self._id(right)))
        return found

    def to_json(self) -> str:
        return self._inner.to_str(pretty=True) + "\n"

    @classmethod
    def read(cls, path: Path) -> Tokenizer:
        """The tokenizer in a `tokenizer.json` file.

        Raises:
            CheckpointError: the file is missing or is not a tokenizer.
        """
        inner = read_tokenizer(path)
        try:
            return cls(inner)
        except ValueError as error:
            raise CheckpointError(f"{path.name} cannot be read as a tokenizer: {error}") from error

    def _id(self, label: str) -> int:
        token = self._inner.token_to_id(label)
        if token is None:
            raise ValueError(f"the tokenizer has no {label} token: train it with this version of Vitrine")
        return token


def clean(text: str) -> str:
    """Text without lone surrogates, which no tokenizer accepts and a browser may send."""
    return text.encode("utf-8", "replace").decode("utf-8")


# Token ids with what to show for each.

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
