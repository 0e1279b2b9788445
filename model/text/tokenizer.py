"""Tokenizers: text to token ids and back, by the Hugging Face `tokenizers` library."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import tokenizers
from tokenizers import models

from model.message import InputError
from model.runtime.errors import CheckpointError
from model.text.cutting import cutter
from model.text.generation_rules import NO_RULES, GenerationRules
from model.text.untrusted import panics_named, read_tokenizer

PADDING, UNKNOWN, START, END, MASK = "<pad>", "<unk>", "<s>", "</s>", "<mask>"
SPECIAL = [PADDING, UNKNOWN, START, END]  # of every tokenizer; MASK only of those for masked-token models
SPACE = "▁"
LONGEST_WORD = 1000  # characters: the time that a BPE takes to learn grows with the square of a word's length


class Tokenizer:
    """A trained tokenizer. An unknown character becomes `<unk>`, never an exception.

    padding, unknown, start, end, mask: ids; tokenizers of other programs may lack any of them. stops: ids that end
    generated text. special: ids of tokens that stand in no text. words: whether the first token of a word begins
    with ▁. continues: beginning of labels of tokens inside a word, or "". reason: why texts are bare ids, or "".
    rules: of generation. between: ids between two texts, which `pair_label`, the name of the first, parts; none
    where there is one text only. separator: that first, where tokens behind it are of another type; else None.
    template: in Jinja, of conversations, or ""; tool_template: of those with tools, if another. markers: names of
    special tokens. reads_special: whether they are read in a text, as published models' are at first, and are not
    plain text. languages: ids of the tokens that say the language of a target, by their names.
    """

    padding: int | None
    unknown: int | None
    start: int | None
    end: int | None
    mask: int | None
    continues = ""
    reason = ""
    rules: GenerationRules = NO_RULES
    template = tool_template = ""
    markers: Sequence[str] = ()
    between: Sequence[int] = ()
    pair_label = ""
    separator: int | None = None
    reads_special = False
    languages: Mapping[str, int] = MappingProxyType({})
    stops: frozenset[int]
    special: list[int]
    words: bool

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner
        inner.encode_special_tokens = True  # "</s>" in a sentence is plain text, not the end of it
        self._cutter = cutter(inner)
        self.padding, self.unknown, self.start, self.end = needed = [self._id(label) for label in SPECIAL]
        self.mask = inner.token_to_id(MASK)
        self.special = needed if self.mask is None else [*needed, self.mask]
        self.stops = frozenset([needed[-1]])
        self.words = isinstance(inner.model, models.BPE) or SPACE in repr(inner.pre_tokenizer)

    @classmethod
    def read(cls, path: Path) -> Tokenizer:
        """Tokenizer of a `tokenizer.json` file of ours.

        Raises:
            CheckpointError: the file is missing or is not a tokenizer.
        """
        inner = read_tokenizer(path)
        try:
            return cls(inner)
        except ValueError as error:
            raise CheckpointError(
                "{name} cannot be read as a tokenizer: {error}", name=path.name, error=error
            ) from error

    def __len__(self) -> int:
        return self._inner.get_vocab_size()

    # Texts to tokens and back.

    def encode(self, text: str, masks: bool = False) -> Tokens:
        """Tokens of `text` without special tokens around it. The name of a special token is plain text; with `masks`,
        the mask token's name is the mask token.
        """
        if not masks or self.mask is None or self.mask_label not in text:
            return self._encode_text(text)
        ids, labels, pieces = [], [], text.split(self.mask_label)
        for number, piece in enumerate(pieces):
            inner = self._encode_piece(piece, first=number == 0, last=number == len(pieces) - 1)
            ids += [self.mask, *inner.ids] if number else inner.ids
            labels += [self.mask_label, *inner.labels] if number else inner.labels
        return Tokens(ids, labels)

    def reading(self, special: bool) -> Tokenizer:
        """This tokenizer as it reads the names of special tokens in a text, or as it does not; itself where it has
        none to read.
        """
        return self

    def into(self, language: str) -> Tokenizer:
        """This tokenizer where a target begins with the token of a language.

        Raises:
            ValueError: it has none of that name.
        """
        if self.languages:
            known = ", ".join(self.languages)
            raise InputError(
                "language ({language!r}) must be one of {known}: the tokens of languages of this model",
                language=language,
                known=known,
            )
        raise InputError(
            "language ({language!r}) must be left out: this model's tokenizer has no tokens of languages",
            language=language,
        )

    def _encode_text(self, text: str) -> Tokens:
        with panics_named("this text"):
            encoded = self._cutter.encode(clean(text))
        return Tokens(list(encoded.ids), list(map(visible, encoded.tokens)))

    def _encode_piece(self, piece: str, first: bool, last: bool) -> Tokens:
        """Tokens of a piece of a text between masks. A BPE puts a ▁ before each; characters keep the spaces between a
        piece and a mask.
        """
        if self.words:
            inner = self._encode_text(piece)
            if not first and inner.labels[:1] == [SPACE] and not piece[0].isspace():  # the tokenizer's own
                inner = self.tokens(inner.ids[1:])
            return inner
        guarded = self._encode_text(("" if first else "|") + piece + ("" if last else "|"))
        return self.tokens(guarded.ids[not first : len(guarded) - (not last)])

    def ends(self, text: str) -> list[int]:
        """For each token of `text`, the number of characters of the text up to the token's end."""
        return [end for _begin, end in self._cutter.encode(clean(text)).offsets]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of `ids` without special tokens."""
        return self._cutter.decode(ids)

    def label(self, token: int) -> str:
        """Text to show for a token id.

        Raises:
            ValueError: the vocabulary has no such id.
        """
        label = self._inner.id_to_token(token)
        if label is None:
            raise InputError("token {token} is not in the vocabulary of {count} tokens", token=token, count=len(self))
        return visible(label)

    def tokens(self, ids: Sequence[int]) -> Tokens:
        """Ids with their labels."""
        return Tokens(list(ids), [self.label(token) for token in ids])

    def parents(self) -> dict[int, tuple[int, int]]:
        """The two tokens that each merged BPE token was merged from; empty for a character tokenizer."""
        if not isinstance(self._inner.model, models.BPE):
            return {}
        parents: dict[int, tuple[int, int]] = {}
        for left, right in json.loads(self._inner.to_str())["model"]["merges"]:
            parents.setdefault(self._id(left + right), (self._id(left), self._id(right)))
        return parents

    def to_json(self) -> str:
        """Content of the tokenizer's file in a checkpoint of ours."""
        return self._inner.to_str(pretty=True) + "\n"

    def _id(self, label: str) -> int:
        token = self._inner.token_to_id(label)
        if token is None:
            raise InputError("the tokenizer has no {label} token: train it with this version of Vitrine", label=label)
        return token

    # Special tokens, and those that stand around a text.

    @cached_property
    def special_labels(self) -> frozenset[str]:
        """Labels of the special tokens."""
        return frozenset(self.label(token) for token in self.special)

    @property
    def mask_label(self) -> str:
        """Name of the mask token in a text; empty if there is none."""
        return "" if self.mask is None else self.label(self.mask)

    def need(self, name: Literal["padding", "start", "end"]) -> int:
        """Id of a special token.

        Raises:
            ValueError: this tokenizer has none.
        """
        token = {"padding": self.padding, "start": self.start, "end": self.end}[name]
        if token is None:
            raise InputError("the tokenizer has no {name} token, which this needs: choose another model", name=name)
        return token

    @property
    def ending(self) -> list[int]:
        """Token after a text that has ended, if there is one."""
        return [] if self.end is None else [self.end]

    @property
    def filler(self) -> int:
        """Token behind the shorter texts of a batch, where masks hide it."""
        return 0 if self.padding is None else self.padding

    def margins(self, role: Role) -> tuple[list[int], list[int]]:
        """Special tokens that a model expects before a text and after it."""
        before, after = [self.need("start")], [self.need("end")]
        return {"source": ([], after), "target": (before, []), "prompt": (before, []), "whole": (before, after)}[role]

    def framed(self, text: str, role: Role, length: int) -> Tokens:
        """Tokens of `text` with those around it, as a model reads it, at most `length`: of a prompt the last, else the
        first. In a whole text the mask token's name is the mask token.
        """
        before, after = (self.tokens(ids) for ids in self.margins(role))
        tokens, room = self.encode(text, masks=role == "whole"), max(0, length - len(before) - len(after))
        tokens = tokens.last(room) if role == "prompt" else tokens.cut(room)
        return replace(tokens.between(before, after), before=len(before), after=len(after))

    def written(self, ids: Sequence[int]) -> Tokens:
        """Target of generated ids: after the tokens that a target begins with, without those that end it."""
        before, _ = self.margins("target")
        text = [token for token in ids if token not in self.stops]
        return replace(self.tokens([*before, *text]), before=len(before))


# Characters that Unicode calls printable and that show nothing: its Default_Ignorable_Code_Point, such as selectors of
# variants (U+FE0F behind an emoji) and fillers of Hangul, and the blank pattern of Braille.
UNSEEN = re.compile(
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def visible(label: str) -> str:
    """Label whose characters can all be seen: others by their code, as `<U+200B>`, such as spaces without width, signs
    that turn the direction of the text, fillers, and code points that stand for nothing. Line breaks and tabs stay.
    """
    if label.isprintable() and not UNSEEN.search(label):
        return label
    seen = ((each.isprintable() and not UNSEEN.match(each)) or each in "\n\t" for each in label)
    return "".join(each if is_visible else f"<U+{ord(each):04X}>" for each, is_visible in zip(label, seen, strict=True))


def clean(text: str) -> str:
    """Text without lone surrogates, which no tokenizer accepts and a browser may send."""
    return text.encode("utf-8", "replace").decode("utf-8")


# Token ids with their labels.

# Roles of a text: source or target of a translator, prompt of a language model, or whole text of a masked one.
Role = Literal["source", "target", "prompt", "whole"]


@dataclass(frozen=True)
class Tokens:
    """Ids with their labels, the texts to show: a leading space as ▁, an unknown character as `<unk>`.

    left_out: number of tokens that were cut off. before, after: numbers of ids around the text.
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
