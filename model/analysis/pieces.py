"""Pieces of a text that are one to its reader: bytes of a character, tokens of a word; quantities of them together."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from model.text.tokenizer import SPACE

BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # in a label: a byte of a character that was cut
# Writing without spaces between words: there a token is none, or several; beginnings of names of characters.
UNSPACED = ("CJK ", "HIRAGANA ", "KATAKANA ", "THAI ", "LAO ", "KHMER ", "MYANMAR ", "TIBETAN ", "HANGUL JAMO")


@dataclass(frozen=True)
class Pieces:
    """The tokens of a text in runs: each run is one word, one character, or one token alone.

    firsts: the first token of each run. tokens: labels of all. labels: of the runs. inside: as `pieces` has it.
    """

    firsts: list[int]
    tokens: list[str]
    labels: list[str]
    inside: str = ""

    def __len__(self) -> int:
        return len(self.firsts)

    @property
    def joined(self) -> bool:
        """True if any run has several tokens."""
        return len(self) < len(self.tokens)

    @cached_property
    def run_of(self) -> list[int]:
        """Number of the run of each token."""
        return [run for run in range(len(self)) for _token in self.of(run)]

    def of(self, run: int) -> range:
        """The tokens of a run."""
        return range(self.firsts[run], self.firsts[run + 1] if run + 1 < len(self) else len(self.tokens))

    def of_first(self, count: int) -> Pieces:
        """The runs of the first so many tokens, the last one perhaps cut; one more than there are stands alone."""
        more = [""] * (count - len(self.tokens))
        firsts = [first for first in self.firsts if first < count] + [len(self.tokens)] * len(more)
        cut = Pieces(firsts, [*self.tokens[:count], *more], [*self.labels, *more][: len(firsts)], self.inside)
        if 0 < count < len(self.tokens) and count not in self.firsts:
            cut.labels[-1] = _word(self.tokens[firsts[-1] : count], self.inside)
        return cut

    # Quantities with each run as one, along an axis of tokens.

    def sum(self, values: Shaped[Tensor, ...], axis: int) -> Tensor:
        """Values added up over each run; NaN where one of them is."""
        shape = list(values.shape)
        shape[axis] = len(self)
        runs = torch.tensor(self.run_of, device=values.device)
        return values.new_zeros(shape).index_add_(axis, runs, values)

    def mean(self, values: Float[Tensor, ...], axis: int) -> Tensor:
        """Their mean over each run, without those that are −∞, of masked cells; −∞ where all are."""
        masked = values.isneginf()
        counts = self.sum((~masked).to(values.dtype), axis)
        total = self.sum(values.masked_fill(masked, 0.0), axis) / counts.clamp(min=1)
        return total.masked_fill(counts == 0, -torch.inf)

    def last(self, values: Shaped[Tensor, ...], axis: int) -> Tensor:
        """The value of each run's last token."""
        ends = [self.of(run)[-1] for run in range(len(self))]
        return values.index_select(axis, torch.tensor(ends, device=values.device))

    def largest(self, values: Shaped[Tensor, ...], axis: int) -> Tensor:
        """Their largest over each run; of truths, whether any is."""
        sizes = [len(self.of(run)) for run in range(len(self))]
        return torch.stack([part.amax(dim=axis) for part in values.split(sizes, axis)], axis)


def pieces(labels: Sequence[str], special: Collection[str], inside: str = "") -> Pieces:
    """The runs of tokens with these labels. special: labels of tokens that stand in no text. inside: how labels begin
    inside a word, as `##`, or "" where ▁ begins a word.

    A run of bytes is a character. A token belongs to the word before where letters or digits meet without a space; not
    in writing without spaces, where only bytes are joined.
    """
    characters: list[int] = []  # first tokens of what is whole
    for place, label in enumerate(labels):
        before = labels[characters[-1] : place] if characters else []
        if label in special or not before or not (_cut(before) and BYTE.match(label)):
            characters.append(place)
    spans = _spans(characters, len(labels))
    wholes = [_word(labels[first:end], "") for first, end in spans]
    alone = [label in special for label in wholes]
    firsts = [
        first
        for number, first in enumerate(characters)
        if not number or alone[number] or alone[number - 1] or not _joins(wholes[number - 1], wholes[number], inside)
    ]
    words = [_word(labels[first:end], inside) for first, end in _spans(firsts, len(labels))]
    return Pieces(firsts, list(labels), words, inside)


def _spans(firsts: Sequence[int], count: int) -> list[tuple[int, int]]:
    """First and end of each of these runs."""
    return list(zip(firsts, [*firsts[1:], count], strict=False))


def _joins(before: str, label: str, inside: str) -> bool:
    """True if what stands after `before` goes on with its word; both are whole characters."""
    if inside:
        return label.startswith(inside) and len(label) > len(inside)
    return (_is_inside(before[-1:]) or before == SPACE) and _is_inside(label[:1])


def _is_inside(character: str) -> bool:
    """True if a character can stand in a word that spaces part from the next."""
    if not character or not (character.isalnum() or unicodedata.category(character)[0] == "M"):
        return False
    return not unicodedata.name(character, "").startswith(UNSPACED)


def _cut(labels: Sequence[str]) -> bool:
    """True if these labels end within a character."""
    content = _bytes("".join(labels))
    for length in range(1, min(3, len(content)) + 1):
        byte = content[-length]
        if byte >= 0xC0:
            return length < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4)
        if byte < 0x80:
            return False
    return False


def _bytes(text: str) -> bytes:
    """The text as bytes, those that its labels name among them."""
    parts = BYTE.split(text)
    return b"".join(bytes([int(part, 16)]) if at % 2 else part.encode() for at, part in enumerate(parts))


def _word(labels: Sequence[str], inside: str) -> str:
    """The label of a run: its labels together, bytes of whole characters as these."""
    if inside:
        labels = [label.removeprefix(inside) if place else label for place, label in enumerate(labels)]
    text = "".join(labels)
    if not BYTE.search(text):
        return text
    whole = _bytes(text).decode("utf-8", "surrogateescape")
    return "".join(f"<0x{ord(each) - 0xDC00:02X}>" if "\udc80" <= each <= "\udcff" else each for each in whole)
