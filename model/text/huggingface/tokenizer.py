"""Tokenizers of models of Hugging Face, by the `tokenizers` library alone."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from typing import Any

import tokenizers
from tokenizers import models

from model.message import InputError
from model.runtime.errors import first_line
from model.text.cutting import Encoded, cutter
from model.text.huggingface.special_tokens import (
    ForeignTokenizer,
    SpecialTokens,
    languages_in,
    named_tokens,
    saved_json,
)
from model.text.tokenizer import SPACE, Role, Tokenizer, Tokens, clean
from model.text.untrusted import panics_named

PROBES = ("a", "0", ".", "的")  # texts that one of most tokenizers' tokens stands for
MOST_PROBES = 64  # tokens of the vocabulary that are tried, where there is none


def _byte_table() -> dict[str, int]:
    """Bytes by their characters in the vocabulary of GPT-2: visible ones themselves, others from code 256 on."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + place): byte for place, byte in enumerate(hidden)}


BYTES = _byte_table()


def probes(vocabulary: Iterable[str], special: Collection[str]) -> Iterator[str]:
    """Texts that a tokenizer is tried with: the usual ones, then tokens of a vocabulary that may have none of these."""
    words = (word.replace(SPACE, "").strip() for word in vocabulary if word not in special)
    return chain(PROBES, islice(filter(None, words), MOST_PROBES))


class HuggingFaceTokenizer(ForeignTokenizer):
    """A tokenizer.json with the special tokens that its model expects around a text, whose names in a text are read as
    these tokens, as transformers does, unless `reading` says otherwise.

    In labels ▁ is a space and `<0xE6>` a byte of a character that was cut; a special token's label is its name, and a
    WordPiece token inside a word keeps its `##`.
    """

    def __init__(
        self,
        inner: tokenizers.Tokenizer,
        special: SpecialTokens,
        size: int,
        names: Mapping[str, Any] | None = None,
        around: tuple[list[int], list[int]] | None = None,
        template: str = "",
        tool_template: str = "",
    ) -> None:
        """names: settings of tokenizer_config.json. around: ids before and after a text, where they are known.
        template: in Jinja, by which a conversation becomes a text; "": there is none. tool_template: of conversations
        with tools, where that is another.
        """
        super().__init__(special, size)
        self._inner = inner
        inner.no_truncation()
        inner.no_padding()
        inner.add_tokens(named_tokens(names or {}, inner))
        self._added = inner.get_added_tokens_decoder()
        added = {id_ for id_, token in self._added.items() if token.special and id_ < size}
        self.special = sorted({*self.special, *added})
        self.markers = [self._added[id_].content for id_ in sorted(added)]
        self.languages = languages_in(self.markers, inner.token_to_id, size)
        self.template, self.tool_template, self.reads_special = template, tool_template, True
        inner.encode_special_tokens = False
        self._cutter = cutter(inner)
        steps = [*_kinds(inner.pre_tokenizer), *_kinds(inner.normalizer), *_kinds(inner.decoder)]
        self._bytes = "ByteLevel" in steps
        self.words = self._bytes or "Metaspace" in steps or SPACE in steps
        self.continues = getattr(inner.model, "continuing_subword_prefix", None) or ""
        if not isinstance(inner.model, models.WordPiece):
            self.continues = ""
        self._labels: dict[int, str] = {}
        self._around = around or self._template()
        self.between, self.separator = self._pair_template()
        self.pair_label = self.label(self.between[0]) if self.between else ""

    def reading(self, special: bool) -> Tokenizer:
        if special == self.reads_special or not self.markers:
            return self
        if self._other is None:
            other = copy(self)
            other._inner = tokenizers.Tokenizer.from_str(self._inner.to_str())
            other._inner.encode_special_tokens = self.reads_special
            other._cutter = cutter(other._inner)
            other.reads_special, other._other = special, self
            self._other = other
        reading: Tokenizer = self._other
        return reading

    def margins(self, role: Role) -> tuple[list[int], list[int]]:
        before, after = self._around
        if role == "target":
            usual = next((token for token in (self.start, self.padding) if token is not None), 0)
            prefix = list(self._target) or [usual]
            has_language = prefix[0] in self.languages.values()
            if len(prefix) == 1 and before == [self.start] and before != prefix and not has_language:
                prefix += before  # as in training: the start, then a text as the tokenizer frames it
            return prefix, []
        return before, [] if role == "prompt" else after

    def framed(self, text: str, role: Role, length: int) -> Tokens:
        """Tokens as of `Tokenizer.framed`; of an empty text, the token that begins one; of a whole text in two parts,
        with the separator's name between them, those of both.
        """
        if role == "whole" and self.pair_label and self.pair_label in text:
            one, _label, other = text.partition(self.pair_label)
            return self._framed_pair(one, other, length)
        tokens = super().framed(text, role, length)
        if len(tokens):
            return tokens
        first = next((token for token in (self.start, self.end, self.padding) if token is not None), 0)
        return Tokens([first], [self.label(first)], before=1)

    def _framed_pair(self, first: str, second: str, length: int) -> Tokens:
        """Tokens of two texts as the post-processor puts them together, at most `length`: the second is cut first."""
        before, after = (self.tokens(ids) for ids in self.margins("whole"))
        between = self.tokens(self.between)
        room = max(0, length - len(before) - len(between) - len(after))
        one, two = (self.encode(text, masks=True) for text in (first.rstrip(" "), second.lstrip(" ")))
        one = one.cut(room)
        two = two.cut(room - len(one))
        whole = one.between(None, between).between(None, two).between(before, after)
        return replace(whole, left_out=one.left_out + two.left_out, before=len(before), after=len(after))

    def encode(self, text: str, masks: bool = False) -> Tokens:
        """Tokens as of `Tokenizer.encode`; where special tokens are read, the mask is one of them in any text.

        Raises:
            ValueError: there is no token for a part of the text.
        """
        return super().encode(text, masks and not (self.reads_special and self.mask in self._added))

    def _encode_text(self, text: str) -> Tokens:
        return self.tokens(self._known(self._encoded(text).ids))

    def _encode_piece(self, piece: str, first: bool, last: bool) -> Tokens:
        """Tokens as the library makes them, where a mask may take the spaces beside it along."""
        added = None if self.mask is None else self._added.get(self.mask)
        if added is not None and added.rstrip and not first:
            piece = piece.lstrip()
        if added is not None and added.lstrip and not last:
            piece = piece.rstrip()
        return self._encode_text(piece)

    def ends(self, text: str) -> list[int]:
        """Ends as of `Tokenizer.ends`; of a character cut into several tokens, only the last one's is behind it."""
        spans = self._encoded(text).offsets
        return [
            begin if spans[place : place + 1] == [(begin, end)] else end for place, (begin, end) in enumerate(spans, 1)
        ]

    def _encoded(self, text: str) -> Encoded:
        try:
            with panics_named("this text"):
                return self._cutter.encode(clean(text))
        except ValueError:  # which says itself what is wrong
            raise
        except Exception as error:  # the library raises bare Exception
            raise InputError(
                "the tokenizer has no token for {untold!r}, and none for what is unknown ({first_line}): leave it out",
                untold=self._word_without_token(text)[:40],
                first_line=first_line(error),
            ) from error

    def _word_without_token(self, text: str) -> str:
        """First word of a text that has no token; the text itself where each word alone has some."""
        return next((word for word in text.split() if not self._encodes(word)), text)

    def _encodes(self, text: str) -> bool:
        try:
            self._cutter.encode(text)
        except ValueError:  # of what takes too long, which is not tried with the next one
            raise
        except Exception:  # noqa: BLE001 - the library raises bare Exception
            return False
        return True

    def decode(self, ids: Sequence[int]) -> str:
        """Text of `ids` without special tokens and without a last character that is not whole."""
        text_ids = [token for token in ids if token not in self._set_apart]
        with panics_named("these tokens"):
            text = self._cutter.decode(text_ids)
        return text.rstrip("\N{REPLACEMENT CHARACTER}")

    @cached_property
    def _set_apart(self) -> frozenset[int]:
        return frozenset(self.special)

    def label(self, token: int) -> str:
        """Text to show for a token id; of an id that the model has and the tokenizer has not, the id."""
        if token not in self._labels:
            self._labels[token] = super().label(token)
        return self._labels[token]

    def _token_text(self, token: int) -> str:
        name = self._inner.id_to_token(token)
        if name is None:
            return f"<{token}>"
        if token in self._added:
            return self._added[token].content.replace(" ", SPACE) or f"<{token}>"
        if not self._bytes or not all(character in BYTES for character in name):
            return name or f"<{token}>"
        text = bytes(BYTES[character] for character in name).decode("utf-8", "surrogateescape").replace(" ", SPACE)
        return "".join(_visible(character) for character in text)

    def parents(self) -> dict[int, tuple[int, int]]:
        if not isinstance(self._inner.model, models.BPE):
            return {}
        prefix = getattr(self._inner.model, "continuing_subword_prefix", None) or ""
        parents: dict[int, tuple[int, int]] = {}
        for left, right in json.loads(self._inner.to_str())["model"]["merges"]:
            parts = [left + right.removeprefix(prefix), left, right]
            whole, first, second = (self._inner.token_to_id(part) for part in parts)
            if whole is not None and first is not None and second is not None:
                parents.setdefault(whole, (first, second))
        return parents

    def to_json(self) -> str:
        """Content of the tokenizer's file in a checkpoint of ours, which `read_saved` reads."""
        more = {"template": self.template, "tool_template": self.tool_template}
        return saved_json(self._special_tokens, self.size, self._around, inner=self._inner.to_str(), more=more)

    def _known(self, ids: Sequence[int]) -> list[int]:
        """Ids with the unknown token in the place of those that the model does not have.

        Raises:
            ValueError: there is no unknown token.
        """
        if all(token < self.size for token in ids):
            return list(ids)
        if self.unknown is None:
            strange = next(token for token in ids if token >= self.size)
            name = self._inner.id_to_token(strange)
            raise InputError(
                "the model knows {size:,} tokens and not {name!r} ({strange}): leave it out",
                size=self.size,
                name=name,
                strange=strange,
            )
        return [token if token < self.size else self.unknown for token in ids]

    def _probes(self) -> Iterator[str]:
        """Texts that have tokens."""
        return filter(self._encodes, probes(self._inner.get_vocab(), self.markers))

    def _template(self) -> tuple[list[int], list[int]]:
        """Ids that the post-processor puts before and after a text. As in transformers, what tokenizer_config.json says
        of add_bos_token and add_eos_token does not count beside it.
        """
        for probe in self._probes():
            encoded = self._cutter.encode(probe, frame=True)
            plain = [place for place, added in enumerate(encoded.special_tokens_mask) if not added]
            if plain:
                return self._known(encoded.ids[: plain[0]]), self._known(encoded.ids[plain[-1] + 1 :])
        return [], []

    def _pair_template(self) -> tuple[list[int], int | None]:
        """Ids that the post-processor puts between two texts, none where it does not; and the one behind which tokens
        are of another type.
        """
        for probe in self._probes():
            encoded = self._cutter.encode(probe, probe, frame=True)
            plain = [place for place, added in enumerate(encoded.special_tokens_mask) if not added]
            if not plain or len(plain) % 2:
                continue
            end, begin = plain[len(plain) // 2 - 1], plain[len(plain) // 2]
            between = self._known(encoded.ids[end + 1 : begin])
            types = encoded.type_ids
            parted = len(between) == 1 and {*types[:begin]} == {0} and {*types[begin:]} == {1}
            return between, between[0] if parted else None
        return [], None


def _visible(character: str) -> str:
    """A character; a byte that is none, or a control character, by its number."""
    if "\udc80" <= character <= "\udcff":
        return f"<0x{ord(character) - 0xDC00:02X}>"
    hidden = (ord(character) < 0x20 and character not in "\n\t") or character == "\x7f"
    return f"<0x{ord(character):02X}>" if hidden else character


def _kinds(step: Any) -> list[str]:
    """Types of a step of a tokenizer and of the steps within it; and ▁ where a step puts it for a space."""
    if step is None:
        return []
    kinds: list[str] = []
    waiting: list[Any] = [json.loads(step.__getstate__())]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            kinds.append(str(part.get("type")))
            kinds += [SPACE] if SPACE in (part.get("content"), part.get("prepend")) else []
            waiting += [value for value in part.values() if isinstance(value, dict | list)]
        elif isinstance(part, list):
            waiting += part
    return kinds


# The tokenizer of a model without a tokenizer: a text is the ids of its tokens.

NO_TOKENS = SpecialTokens(None, None, None, None, None, frozenset(), ())


class IdTokenizer(ForeignTokenizer):
    """Texts of token ids with spaces between them: "12 5 7". reason: why there is no other tokenizer."""

    def __init__(self, size: int, reason: str, special: SpecialTokens = NO_TOKENS) -> None:
        super().__init__(special, size)
        self.reason, self.words = reason, False

    def margins(self, role: Role) -> tuple[list[int], list[int]]:
        """Ids before and after a text: before a target the config's, else 0; around other texts none."""
        start = 0 if self.start is None else self.start
        return (list(self._target or [start]), []) if role == "target" else ([], [])

    def framed(self, text: str, role: Role, length: int) -> Tokens:
        """Tokens as of `Tokenizer.framed`; of an empty text, the id that begins one."""
        tokens = super().framed(text, role, length)
        return tokens if len(tokens) else self.tokens([0 if self.start is None else self.start])

    def encode(self, text: str, masks: bool = False) -> Tokens:
        """Ids in a text.

        Raises:
            ValueError: a word is not the id of a token.
        """
        return self.tokens([self._read(word) for word in text.split()])

    def ends(self, text: str) -> list[int]:
        return [word.end() for word in re.finditer(r"\S+", text)]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(str(token) for token in ids if token not in self.special)

    def _token_text(self, token: int) -> str:
        return str(token)

    def to_json(self) -> str:
        return saved_json(self._special_tokens, self.size, ([], []), reason=self.reason)

    def _read(self, word: str) -> int:
        if not (word.isascii() and word.isdigit() and len(word) < 10 and int(word) < self.size):
            raise InputError(
                "{word!r} is not the id of a token: this model came without a tokenizer, so its text is numbers "
                "from 0 to {size}, such as 12 5 7",
                word=word[:40],
                size=self.size - 1,
            )
        return int(word)


# The tokenizer of nanoGPT's models of characters.


class CharacterTokenizer(IdTokenizer):
    """A token for each character of an alphabet. letters: by their ids."""

    def __init__(self, letters: Sequence[str], special: SpecialTokens = NO_TOKENS) -> None:
        super().__init__(len(letters), "", special)
        self.letters = list(letters)
        self._ids = {letter: number for number, letter in enumerate(letters)}

    def encode(self, text: str, masks: bool = False) -> Tokens:
        """Tokens of a text.

        Raises:
            ValueError: a character is not in the alphabet.
        """
        return self.tokens([self._id_of(letter) for letter in text])

    def ends(self, text: str) -> list[int]:
        return list(range(1, len(text) + 1))

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.letters[token] for token in ids)

    def _token_text(self, token: int) -> str:
        return _visible(self.letters[token]).replace(" ", SPACE)

    def to_json(self) -> str:
        return saved_json(self._special_tokens, self.size, ([], []), more={"letters": self.letters})

    def _id_of(self, letter: str) -> int:
        if letter not in self._ids:
            raise InputError(
                "{letter!r} is none of the {size} characters that this model was trained on: leave it out",
                letter=letter,
                size=self.size,
            )
        return self._ids[letter]
