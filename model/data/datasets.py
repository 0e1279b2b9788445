"""Datasets: examples for each kind of model, in batches."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from model.data.pairs import Example, Pair, batch_order, drop_merges, encode_pairs, pad
from model.message import InputError
from model.network.masks import real_tokens
from model.text.tokenizer import Tokenizer

IGNORED = -100  # a label where nothing is to be predicted
ROW, ID = 100, 40  # bytes of a list of ids, and of each id in it, about
LONGEST_WINDOW = 4096  # tokens: some models could read a book, whose scores no memory holds


@dataclass(frozen=True)
class Batch:
    """A batch of examples.

    inputs: arguments of the network's `states`: ids (batch, length) of each text, and masks of their real tokens or
    None. labels: token to predict at each position, or IGNORED. whole: whether it is known that no label is IGNORED.
    """

    inputs: tuple[Tensor | None, ...]
    labels: Int[Tensor, "batch length"]
    whole: bool = False

    def to(self, device: torch.device) -> Batch:
        """Copy on a device."""
        inputs = tuple(None if tensor is None else tensor.to(device) for tensor in self.inputs)
        return Batch(inputs, self.labels.to(device), self.whole)

    @property
    def tokens(self) -> int:
        """Number of positions that are computed, padding included."""
        return sum(tensor.numel() for tensor in self.inputs if tensor is not None and tensor.dtype == torch.long)

    @property
    def predicted(self) -> int:
        """Number of tokens to predict."""
        return int((self.labels != IGNORED).sum())


@runtime_checkable
class Dataset(Protocol):
    """Examples by number. The same generators give the same batches. long: number of examples that were cut off or left
    out, as they are longer than the model reads. size: bytes of all, about.
    """

    long: int

    @property
    def size(self) -> int: ...

    def __len__(self) -> int: ...

    def order(self, tokens: int, shuffle: random.Random | None) -> list[list[int]]:
        """Numbers of all examples, in batches of at most `tokens` tokens; without `shuffle` always the same."""
        ...

    def batch(self, indices: Sequence[int], chance: random.Random | None) -> Batch:
        """Batch of some examples. chance: for the parts that are random in training; None: as in validation."""
        ...

    def digest(self) -> str:
        """Digest that tells these examples from others."""
        ...


def unshuffled(corpus: Dataset, tokens: int) -> Iterator[Batch]:
    """Batches of at most `tokens` tokens with every example once, for validation."""
    for indices in corpus.order(tokens, None):
        yield corpus.batch(indices, None)


def size_of(rows: Iterable[Sequence[int]]) -> int:
    """Bytes of rows of ids, about: each a list, and an object for each id."""
    return sum(ROW + ID * len(row) for row in rows)


def digest_of(rows: Iterable[Sequence[int]]) -> str:
    """Digest of the ids of all rows and of their lengths."""
    digest = sha256()
    for row in rows:
        digest.update(array("q", [len(row), *row]))
    return digest.hexdigest()[:16]


class PairDataset:
    """Sources and targets for an encoder-decoder model (section 5.1)."""

    def __init__(
        self,
        pairs: Sequence[Pair],
        tokenizers: tuple[Tokenizer, Tokenizer],
        max_length: int,
        bpe_dropout: float = 0.0,
    ) -> None:
        """bpe_dropout: share of merged source tokens that are cut in two, see `pairs.drop_merges`."""
        self.examples, self.long = encode_pairs(pairs, *tokenizers, max_length)
        self.padding = tokenizers[0].need("padding"), tokenizers[1].need("padding")
        self.max_length, self.bpe_dropout = max_length, bpe_dropout
        self.parents = tokenizers[0].parents() if bpe_dropout else {}

    def __len__(self) -> int:
        return len(self.examples)

    def order(self, tokens: int, shuffle: random.Random | None) -> list[list[int]]:
        return batch_order(self.examples, tokens, shuffle)

    def batch(self, indices: Sequence[int], chance: random.Random | None) -> Batch:
        examples = [self.examples[index] for index in indices]
        if self.parents and chance:
            examples = [Example(self._cut_anew(source, chance), target) for source, target in examples]
        source = pad([example.source for example in examples], self.padding[0])
        target = pad([example.target for example in examples], self.padding[1])
        read, labels = target[:, :-1], target[:, 1:]
        real = real_tokens(source, self.padding[0]), real_tokens(read, self.padding[1])
        return Batch((source, read, *real), labels.masked_fill(labels == self.padding[1], IGNORED))

    @property
    def size(self) -> int:
        return size_of(side for example in self.examples for side in example)

    def digest(self) -> str:
        return digest_of(side for example in self.examples for side in example)

    def _cut_anew(self, source: list[int], chance: random.Random) -> list[int]:
        """Source with undone merges, cut off before its `</s>` where it is longer than the positions reach."""
        cut = drop_merges(source, self.parents, self.bpe_dropout, chance)
        return cut if len(cut) <= self.max_length else [*cut[: self.max_length - 1], cut[-1]]


class RowDataset:
    """Rows of ids of various lengths: the base of datasets for one-stack models."""

    def __init__(self, rows: Sequence[list[int]], padding: int, long: int) -> None:
        self.rows, self.padding, self.long = rows, padding, long

    def __len__(self) -> int:
        return len(self.rows)

    def order(self, tokens: int, shuffle: random.Random | None) -> list[list[int]]:
        return batch_order([Example([], row) for row in self.rows], tokens, shuffle)

    @property
    def size(self) -> int:
        return size_of(self.rows)

    def digest(self) -> str:
        return digest_of(self.rows)


class AnswerDataset(RowDataset):
    """`<s>` source separator target `</s>` for a decoder-only model, which predicts the tokens after the separator.

    Pairs that are longer than the model reads are left out: cut off, they would teach it wrong answers.

    Raises:
        ValueError: no pair is short enough.
    """

    def __init__(self, pairs: Sequence[Pair], tokenizer: Tokenizer, max_length: int, separator: str) -> None:
        (start, _), end = tokenizer.margins("prompt"), tokenizer.need("end")
        rows, self.answers = [], []
        longest = max_length + 1  # the last token is only predicted
        shortest = 0
        for source, target in pairs:
            question = [*start, *tokenizer.encode(source + separator).ids]
            row = [*question, *tokenizer.encode(target).ids, end]
            shortest = min(shortest or len(row), len(row))
            if len(row) <= longest:
                rows.append(row)
                self.answers.append(len(question))
        if pairs and not rows:
            raise InputError(
                "no question with its answer fits max_length ({max_length}): the shortest needs {shortest}",
                max_length=max_length,
                shortest=shortest - 1,
            )
        super().__init__(rows, tokenizer.need("padding"), len(pairs) - len(rows))

    def batch(self, indices: Sequence[int], chance: random.Random | None) -> Batch:
        ids = pad([self.rows[index] for index in indices], self.padding)
        labels = ids[:, 1:].masked_fill(ids[:, 1:] == self.padding, IGNORED)
        for row, index in enumerate(indices):
            labels[row, : self.answers[index] - 1] = IGNORED
        return Batch((ids[:, :-1], real_tokens(ids[:, :-1], self.padding)), labels)


class TextDataset:
    """Running text for a decoder-only model: windows that begin with `<s>`, in which each token is predicted once.

    Raises:
        ValueError: the text is empty.
    """

    long = 0

    def __init__(self, text: str, tokenizer: Tokenizer, max_length: int) -> None:
        self.ids = torch.tensor(tokenizer.encode(text).ids, dtype=torch.long)
        if not len(self.ids):
            raise ValueError("the text is empty: there is nothing to predict")
        self.start, self.padding = tokenizer.need("start"), tokenizer.filler
        self.length = min(max_length, LONGEST_WINDOW)

    def __len__(self) -> int:
        return -(-len(self.ids) // self.length)

    def order(self, tokens: int, shuffle: random.Random | None) -> list[list[int]]:
        """Beginnings of all windows, in batches; that of a shorter first window is negative. Each shuffled order cuts
        the text at other places.
        """
        first = -shuffle.randrange(min(self.length, len(self.ids))) if shuffle else 0
        begins = list(range(first, len(self.ids), self.length))
        if shuffle:
            shuffle.shuffle(begins)
        rows = max(1, tokens // self.length)
        return [begins[place : place + rows] for place in range(0, len(begins), rows)]

    def batch(self, indices: Sequence[int], chance: random.Random | None) -> Batch:
        windows = [self.ids[max(0, begin) : begin + self.length] for begin in indices]
        labels = torch.nn.utils.rnn.pad_sequence(windows, batch_first=True, padding_value=IGNORED)
        read = labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, self.padding)
        ids = torch.cat([torch.full((len(windows), 1), self.start), read], dim=1)
        return Batch((ids, None), labels, whole=len({len(window) for window in windows}) == 1)

    @property
    def size(self) -> int:
        return self.ids.nbytes

    def digest(self) -> str:
        return digest_of([self.ids.tolist()])


class MaskedDataset(RowDataset):
    """`<s>` text `</s>` for an encoder-only model, some tokens hidden (Devlin et al., 2019, section 3.1).

    Of the hidden tokens, a share `rate` of all, 80 % become `<mask>`, 10 % another token, 10 % stay.
    """

    def __init__(self, texts: Sequence[str], tokenizer: Tokenizer, max_length: int, rate: float = 0.15) -> None:
        assert tokenizer.mask is not None
        before, after = tokenizer.margins("whole")
        room = max_length - len(before) - len(after)
        whole = [tokenizer.encode(text).ids for text in texts]
        rows = [[*before, *ids[:room], *after] for ids in whole]
        super().__init__(rows, tokenizer.need("padding"), sum(len(ids) > room for ids in whole))
        self.rate, self.mask, self.first, self.vocabulary = rate, tokenizer.mask, 5, len(tokenizer)

    def batch(self, indices: Sequence[int], chance: random.Random | None) -> Batch:
        hidden, labels = [], []
        for index in indices:
            row = self.rows[index]
            draw = chance or random.Random(f"validation {index}")
            inputs, predicted = list(row), [IGNORED] * len(row)
            for place in self._chosen(len(row), draw):
                predicted[place], kind = row[place], draw.random()
                if kind < 0.8:
                    inputs[place] = self.mask
                elif kind < 0.9:
                    inputs[place] = draw.randrange(self.first, self.vocabulary)
            hidden.append(inputs)
            labels.append(predicted)
        ids = pad(hidden, self.padding)
        return Batch((ids, real_tokens(ids, self.padding)), pad(labels, IGNORED))

    def _chosen(self, length: int, draw: random.Random) -> list[int]:
        """Places of hidden tokens between `<s>` and `</s>`: at least one, where there is one."""
        places = range(1, length - 1)
        count = max(1, round(self.rate * len(places)))
        return draw.sample(places, min(count, len(places)))
