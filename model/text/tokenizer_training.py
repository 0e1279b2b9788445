"""Training of tokenizers on texts: BPE and characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

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
    """Tokenizer by byte-pair encoding that keeps every space and line break: decoding gives the text back.

    vocabulary: largest number of tokens.
    """
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
    """Tokenizer with one token per character, as for Chinese. mask: whether there is a mask token."""
    inner = tokenizers.Tokenizer(models.WordLevel(unk_token=UNKNOWN))
    inner.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    )
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"."), "isolated")
    inner.decoder = decoders.Fuse()
    return _trained(inner, texts, _character_trainer([*SPECIAL, MASK] if mask else SPECIAL))


def train_text_characters(texts: Iterable[str]) -> Tokenizer:
    """Tokenizer with one token per character, space and line break: decoding gives the text back."""
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
