"""Text to token ids and back, by the Hugging Face `tokenizers` library."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from model.errors import CheckpointError
from model.framing import Framing
from model.safe_tokenizer import panics_named, read_tokenizer
from model.tokens import Tokens as Tokens

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


def cut_words(texts: Iterable[str]) -> Iterator[str]:
    """The texts with spaces in words that are too long to learn from whole."""
    long = re.compile(rf"(?<!\S)\S{{{LONGEST_WORD + 1},}}")
    for text in texts:
        yield long.sub(lambda word: " ".join(re.findall(f".{{1,{LONGEST_WORD}}}", word.group(), re.DOTALL)), text)


def train_bpe(texts: Iterable[str], vocabulary: int, mask: bool = False) -> Tokenizer:
    """Byte-pair encoding (Sennrich et al., 2016) of words, a leading space shown as ▁.

    mask: with a token for what is hidden from the model.
    """
    inner = tokenizers.Tokenizer(models.BPE(unk_token=UNKNOWN, fuse_unk=False))
    inner.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    )
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(),
            pre_tokenizers.Punctuation(),
            pre_tokenizers.Digits(individual_digits=True),
        ]
    )
    inner.decoder = decoders.Metaspace()
    return _trained(inner, cut_words(texts), _bpe_trainer(vocabulary, [*SPECIAL, MASK] if mask else SPECIAL))


def train_text_bpe(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Byte-pair encoding that keeps every space and line break: decoding gives the text back."""
    inner = tokenizers.Tokenizer(models.BPE(unk_token=UNKNOWN, fuse_unk=False))
    inner.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(" ", SPACE)])
    # A word or a run of signs with the space before it, a line break, or spaces.
    words = Regex(rf"{SPACE}?\w+|{SPACE}?[^\w\s{SPACE}]+|\s|{SPACE}+")
    inner.pre_tokenizer = pre_tokenizers.Split(words, "isolated")
    inner.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.Fuse()])
    return _trained(inner, cut_words(texts), _bpe_trainer(vocabulary, SPECIAL))


def _bpe_trainer(vocabulary: int, special: list[str]) -> trainers.BpeTrainer:
    return trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=special, show_progress=False, min_frequency=2)


def train_characters(texts: Iterable[str], mask: bool = False) -> Tokenizer:
    """One token per character, as for Chinese. mask: with a token for what is hidden from the model."""
    inner = tokenizers.Tokenizer(models.WordLevel(unk_token=UNKNOWN))
    inner.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    )
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"."), "isolated")
    inner.decoder = decoders.Fuse()
    return _trained(inner, texts, _character_trainer([*SPECIAL, MASK] if mask else SPECIAL))


def train_text_characters(texts: Iterable[str]) -> Tokenizer:
    """One token per character, each space and line break too: decoding gives the text back."""
    inner = tokenizers.Tokenizer(models.WordLevel(unk_token=UNKNOWN))
    inner.normalizer = normalizers.NFC()
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m:.)"), "isolated")
    inner.decoder = decoders.Fuse()
    return _trained(inner, texts, _character_trainer(SPECIAL))


def _character_trainer(special: list[str]) -> trainers.WordLevelTrainer:
    return trainers.WordLevelTrainer(vocab_size=1_000_000, special_tokens=special, show_progress=False)


def _trained(inner: tokenizers.Tokenizer, texts: Iterable[str], trainer: trainers.Trainer) -> Tokenizer:
    inner.train_from_iterator(texts, trainer)
    return Tokenizer(inner)
