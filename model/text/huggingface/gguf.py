"""The tokenizer in a GGUF file's records as a tokenizer.json: byte-level BPE, or BPE of a sentencepiece model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from model.message import Message
from model.runtime.errors import CheckpointError
from model.text.cutting import LLAMA3, QWEN2
from model.text.tokenizer import SPACE
from model.text.untrusted import MOST_WORK

BYTE_LEVEL, PIECES = "gpt2", "llama"  # values of tokenizer.ggml.model
# Types of tokens, as in https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
NORMAL, UNKNOWN, CONTROL, DEFINED, UNUSED, BYTE = range(1, 7)
LONGEST = 1 << 16  # characters of a token
MOST_LETTERS = 1 << 24  # of all tokens of a sentencepiece model, each of which is cut at every place
# Patterns of the words that texts are cut into before merges, by tokenizer.ggml.pre: as the tokenizer.json of GPT-2
# (its own, in the library), Llama 3 and Qwen 2 has them.
WORDS: dict[str, str] = {
    "gpt-2": "",
    "llama-bpe": LLAMA3,
    "qwen2": QWEN2,
}
CALLED = {"llama3": "llama-bpe", "llama-v3": "llama-bpe", "deepseek-r1-qwen": "qwen2"}  # other names of these
USUAL = {"llama": "llama-bpe", "qwen2": "qwen2", "qwen3": "qwen2"}  # by family, where the file says none


@dataclass(frozen=True)
class GgufVocabulary:
    """Records of a GGUF file on its tokens.

    family: architecture of the model. model: kind of the tokenizer. pre: name of the way in which texts are cut before
    merges. scores, types: of each token. ids: of special tokens, by Hugging Face's names. begins, ends: whether a text
    gets the first and the last special token; space: whether it gets a space before it; None: the file does not say.
    """

    family: str
    model: str
    pre: str
    tokens: Sequence[str]
    merges: Sequence[str]
    scores: Sequence[float]
    types: Sequence[int]
    ids: Mapping[str, int] = field(default_factory=dict)
    begins: bool | None = None
    ends: bool | None = None
    space: bool | None = None
    chat_template: str = ""

    @property
    def words(self) -> str:
        """Name among `WORDS` of the way in which texts are cut; the family's usual one where the file's is none."""
        return CALLED.get(self.pre, self.pre if self.pre in WORDS else USUAL.get(self.family, "gpt-2"))

    @property
    def assumed(self) -> list[str]:
        """Short sentences on what the file leaves out, or says by a name that is not known."""
        if self.model != BYTE_LEVEL or self.words in (self.pre, CALLED.get(self.pre)):
            return []
        if self.pre in ("", "default"):
            return [Message("texts are cut into words as {words} does (the file does not say how)", words=self.words)]
        return [
            Message(
                "texts are cut into words as {words} does (the file says {pre!r}, which is not known)",
                words=self.words,
                pre=self.pre[:40],
            )
        ]

    def names(self) -> dict[str, Any]:
        """Settings as in a tokenizer_config.json."""
        named = {name: self.tokens[number] for name, number in self.ids.items() if number < len(self.tokens)}
        return named | ({"chat_template": self.chat_template} if self.chat_template else {})

    def around(self) -> tuple[str, str]:
        """Names of the tokens before and after a text; empty where there is none."""
        usual = self.model == PIECES or self.words == "llama-bpe"  # llama.cpp's own defaults
        begins, names = usual if self.begins is None else self.begins, self.names()
        return names.get("bos_token", "") if begins else "", names.get("eos_token", "") if self.ends else ""


def tokenizer_json(vocabulary: GgufVocabulary) -> bytes:
    """Content of a tokenizer.json.

    Raises:
        CheckpointError: there are no tokens, the kind is none that is known here, or lists contradict each other.
    """
    tokens, kind = vocabulary.tokens, vocabulary.model
    if not tokens:
        raise CheckpointError("there are no tokens in the GGUF file")
    if kind not in (BYTE_LEVEL, PIECES):
        raise CheckpointError(
            "its tokenizer is of the kind {kind!r}, which is not put together from GGUF", kind=kind[:40]
        )
    if len(set(tokens)) < len(tokens) or max(map(len, tokens)) > LONGEST:
        raise CheckpointError("its tokenizer has a token twice, or one that is too long")
    if (vocabulary.types and len(vocabulary.types) != len(tokens)) or (
        kind == PIECES and len(vocabulary.scores) != len(tokens)
    ):
        raise CheckpointError(
            "its tokenizer has {count:,} tokens, and another number of their types or scores", count=len(tokens)
        )
    parts = _byte_level(vocabulary) if kind == BYTE_LEVEL else _pieces(vocabulary)
    around = {"post_processor": _around(vocabulary)}
    return json.dumps({"version": "1.0", "added_tokens": _added(vocabulary), **around, **parts}).encode()


def _around(vocabulary: GgufVocabulary) -> dict[str, Any]:
    """Post-processor that puts the tokens around a text."""
    before, after = ([name] if name else [] for name in vocabulary.around())
    ids = {name: vocabulary.tokens.index(name) for name in (*before, *after)}
    special = {name: {"id": name, "ids": [row], "tokens": [name]} for name, row in ids.items()}

    def text(sequence: str, kind: int) -> list[dict[str, Any]]:
        marks = [[{"SpecialToken": {"id": name, "type_id": kind}} for name in names] for names in (before, after)]
        return [*marks[0], {"Sequence": {"id": sequence, "type_id": kind}}, *marks[1]]

    single, pair = text("A", 0), [*text("A", 0), *text("B", 1)]
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}


def _types(vocabulary: GgufVocabulary) -> Sequence[int]:
    return vocabulary.types or [NORMAL] * len(vocabulary.tokens)


def _rows(vocabulary: GgufVocabulary) -> dict[str, int]:
    """Ids by token, without those that llama.cpp's converter fills the matrix up with."""
    return {token: row for row, token in enumerate(vocabulary.tokens) if token != f"[PAD{row}]"}


def _added(vocabulary: GgufVocabulary) -> list[dict[str, Any]]:
    """Tokens that are found in a text as they are: special ones, and those that a user has defined."""
    special = {*vocabulary.ids.values()} if not vocabulary.types else set()
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    kinds = _types(vocabulary)
    return [
        {"id": row, "content": token, **plain, "special": kinds[row] != DEFINED}
        for token, row in _rows(vocabulary).items()
        if (kinds[row] in (UNKNOWN, CONTROL, DEFINED) or row in special) and token
    ]


def _byte_level(vocabulary: GgufVocabulary) -> dict[str, Any]:
    merges = [tuple(merge.split(" ")) for merge in vocabulary.merges]
    if wrong := next((merge for merge in merges if len(merge) != 2 or not all(merge)), None):
        raise CheckpointError(
            "its tokenizer has a merge {wrong!r}, which is not of two tokens", wrong=" ".join(wrong)[:60]
        )
    bytes_of_words = {"type": "ByteLevel", "add_prefix_space": vocabulary.space is True, "trim_offsets": True}
    pattern = WORDS[vocabulary.words]
    cut: dict[str, Any] = {**bytes_of_words, "use_regex": not pattern}
    if pattern:
        words = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        cut = {"type": "Sequence", "pretokenizers": [words, cut]}
    return {
        "normalizer": {"type": "NFC"} if vocabulary.words == "qwen2" else None,
        "pre_tokenizer": cut,
        "decoder": {**bytes_of_words, "use_regex": True},
        # A word that is a token is one in Llama 3, whichever merges make it.
        "model": _model(_rows(vocabulary), merges, ignore_merges=vocabulary.words == "llama-bpe"),
    }


def _pieces(vocabulary: GgufVocabulary) -> dict[str, Any]:
    rows, kinds = _rows(vocabulary), _types(vocabulary)
    spaces = vocabulary.space is not False
    normalizers: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": " "}, "content": SPACE}]
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if spaces:
        normalizers.insert(0, {"type": "Prepend", "prepend": SPACE})
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    unknown = vocabulary.ids.get("unk_token", next((row for row, kind in enumerate(kinds) if kind == UNKNOWN), None))
    name = vocabulary.tokens[unknown] if unknown is not None and unknown < len(vocabulary.tokens) else None
    whole = all(f"<0x{byte:02X}>" in rows for byte in range(256))
    model = _model(rows, _merges(vocabulary), unk_token=name, fuse_unk=True, byte_fallback=whole)
    return {
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": model,
    }


def _merges(vocabulary: GgufVocabulary) -> list[tuple[str, str]]:
    """Pairs of pieces in the order in which a sentencepiece model of BPE merges them: those of the best score first
    (Kudo and Richardson, 2018); of one piece, the pair of the earliest pieces.
    """
    rows, kinds = _rows(vocabulary), _types(vocabulary)
    pieces = [(token, row) for token, row in rows.items() if kinds[row] in (NORMAL, UNUSED)]
    letters, work = sum(len(token) for token, _row in pieces), sum(len(token) ** 2 for token, _row in pieces)
    scores = vocabulary.scores
    if letters > MOST_LETTERS or work > MOST_WORK or not all(map(math.isfinite, scores)):
        raise CheckpointError("its tokenizer has pieces that are too long, or scores that are no numbers")
    ranked: list[tuple[float, int, int, str, str]] = []
    for token, row in pieces:
        for left, right in _halves(token):
            if left in rows and right in rows:
                ranked.append((-scores[row], rows[left], rows[right], left, right))
    return [(left, right) for _score, _first, _second, left, right in sorted(ranked)]


def _halves(token: str) -> Iterable[tuple[str, str]]:
    return ((token[:place], token[place:]) for place in range(1, len(token)))


def _model(
    rows: Mapping[str, int],
    merges: Sequence[tuple[str, ...]],
    unk_token: str | None = None,
    fuse_unk: bool = False,
    byte_fallback: bool = False,
    ignore_merges: bool = False,
) -> dict[str, Any]:
    options = {"unk_token": unk_token, "fuse_unk": fuse_unk, "byte_fallback": byte_fallback}
    return {"type": "BPE", "dropout": None, **options, "ignore_merges": ignore_merges, "vocab": rows, "merges": merges}
