"""Training of tokenizers on texts: BPE, words and characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from model.text.cutting import ANY_CHARACTER, CHARACTER, SPACES, WORDS
from model.text.tokenizer import LONGEST_WORD, MASK, SPACE, SPECIAL, UNKNOWN, Tokenizer


def cut_words(texts: Iterable[str]) -> Iterator[str]:
    """Texts with spaces inserted into words longer than `LONGEST_WORD`."""
    long = re.compile(rf"(?<!\S)\S{{{LONGEST_WORD + 1},}}")
    for text in texts:
        yield long.sub(lambda word: " ".join(re.findall(f".{{1,{LONGEST_WORD}}}", word.group(), re.DOTALL)), text)


def train_bpe(texts: Iterable[str], vocabulary: int, mask: bool = False) -> Tokenizer:
    """Tokenizer by byte-pair encoding of words (Sennrich et al., 2016), a leading space shown as ▁.

    vocabulary: largest number of tokens. mask: whether there is a mask token.
    """
    inner = _of_words(models.BPE(unk_token=UNKNOWN, fuse_unk=False))
    return _trained(inner, cut_words(texts), _bpe_trainer(vocabulary, [*SPECIAL, MASK] if mask else SPECIAL))


def train_words(texts: Iterable[str], vocabulary: int, mask: bool = False) -> Tokenizer:
    """Tokenizer with one token per word, digit and sign, a leading space shown as ▁; other words are unknown.

    vocabulary: largest number of tokens, the most frequent ones. mask: whether there is a mask token.
    """
    inner = _of_words(models.WordLevel(unk_token=UNKNOWN))
    inner.train_from_iterator(texts, _word_trainer(vocabulary - 1, mask))
    words = inner.get_vocab()
    words.setdefault(SPACE, len(words))  # before a sign at the beginning of a text
    inner.model = models.WordLevel(words, unk_token=UNKNOWN)
    return Tokenizer(inner)


def train_text_words(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Tokenizer with one token per word, sign, space and line break: decoding gives known words back.

    vocabulary: largest number of tokens, the most frequent ones.
    """
    return _trained(_of_text(models.WordLevel(unk_token=UNKNOWN)), texts, _word_trainer(vocabulary))


def _word_trainer(vocabulary: int, mask: bool = False) -> trainers.WordLevelTrainer:
    special = [*SPECIAL, MASK] if mask else SPECIAL
    return trainers.WordLevelTrainer(vocab_size=vocabulary, special_tokens=special, show_progress=False)


def _of_words(model: models.Model) -> tokenizers.Tokenizer:
    """Tokenizer that cuts a text into words, signs and digits before its model does."""
    inner = tokenizers.Tokenizer(model)
    inner.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(SPACES), " "), normalizers.Strip()]
    )
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(),
            pre_tokenizers.Punctuation(),
            pre_tokenizers.Digits(individual_digits=True),
        ]
    )
    inner.decoder = decoders.Metaspace()
    return inner


def train_text_bpe(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Tokenizer by byte-pair encoding that keeps every space and line break: decoding gives the text back.

    vocabulary: largest number of tokens.
    """
    inner = _of_text(models.BPE(unk_token=UNKNOWN, fuse_unk=False))
    return _trained(inner, cut_words(texts), _bpe_trainer(vocabulary, SPECIAL))


def _of_text(model: models.Model) -> tokenizers.Tokenizer:
    """Tokenizer that cuts a text into words or runs of signs with the space before them, line breaks, and spaces."""
    inner = tokenizers.Tokenizer(model)
    inner.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(" ", SPACE)])
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(WORDS), "isolated")
    inner.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.Fuse()])
    return inner


def _bpe_trainer(vocabulary: int, special: list[str]) -> trainers.BpeTrainer:
    return trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=special, show_progress=False, min_frequency=2)


def train_characters(texts: Iterable[str], mask: bool = False) -> Tokenizer:
    """Tokenizer with one token per character, as for Chinese. mask: whether there is a mask token."""
    inner = tokenizers.Tokenizer(models.WordLevel(unk_token=UNKNOWN))
    inner.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(SPACES), " "), normalizers.Strip()]
    )
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(CHARACTER), "isolated")
    inner.decoder = decoders.Fuse()
    return _trained(inner, texts, _character_trainer([*SPECIAL, MASK] if mask else SPECIAL))


def train_text_characters(texts: Iterable[str]) -> Tokenizer:
    """Tokenizer with one token per character, space and line break: decoding gives the text back."""
    inner = tokenizers.Tokenizer(models.WordLevel(unk_token=UNKNOWN))
    inner.normalizer = normalizers.NFC()
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(ANY_CHARACTER), "isolated")
    inner.decoder = decoders.Fuse()
    return _trained(inner, texts, _character_trainer(SPECIAL))


def _character_trainer(special: list[str]) -> trainers.WordLevelTrainer:
    return trainers.WordLevelTrainer(vocab_size=1_000_000, special_tokens=special, show_progress=False)


def _trained(inner: tokenizers.Tokenizer, texts: Iterable[str], trainer: trainers.Trainer) -> Tokenizer:
    inner.train_from_iterator(texts, trainer)
    return Tokenizer(inner)
