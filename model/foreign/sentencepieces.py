"""A tokenizer that transformers makes of a sentencepiece model alone, so that it cuts texts as that model does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models
from tokenizers.processors import TemplateProcessing

from model.errors import CheckpointError
from model.text import SPACE

FRAMES = {"rembert": ("[CLS]", "[SEP]")}  # around a text, where transformers' class loses them
CLASSES = {
    "xlm-roberta-xl": "XLMRobertaTokenizer",
    "bigbird_pegasus": "PegasusTokenizer",
}  # that transformers does not name
COMMAS = ("albert", "xlnet")  # they cut a number's comma off, as their authors' code does
COST = 100.0  # of a piece that such a comma ends: transformers' own figure
MOST_PROBES, LONGEST_PROBE = 32, 12


def like_its_model(inner: tokenizers.Tokenizer, family: str, unknown: str | None) -> tokenizers.Tokenizer:
    """Without what transformers' conversion changes: a symbol that its trainer defined, such as ALBERT's `.`, would cut
    a text before it is normalized, and what follows would begin a word. unknown: the unknown token's name.
    """
    if not isinstance(inner.model, models.Unigram):
        return inner
    record = json.loads(inner.to_str())
    model = record["model"]
    rows = {piece: row for row, (piece, _score) in enumerate(model["vocab"])}
    record["added_tokens"] = [each for each in record["added_tokens"] if each["special"] or each["content"] not in rows]
    model["unk_id"] = rows.get(unknown, model["unk_id"])
    if family in COMMAS:
        model["vocab"] = [[piece, score - COST * _ends_number(piece)] for piece, score in model["vocab"]]
    made = tokenizers.Tokenizer.from_str(json.dumps(record))
    if family in FRAMES and all(name in rows for name in FRAMES[family]):
        before, after = FRAMES[family]
        special = [(name, rows[name]) for name in (before, after)]
        made.post_processor = TemplateProcessing(single=[before, "$A", after], special_tokens=special)
    return made


def cuts_as(made: Any, file: Path) -> bool:
    """Whether a tokenizer of transformers cuts words into the pieces that sentencepiece cuts them into: most of them,
    because ties may be settled otherwise.
    """
    from sentencepiece import SentencePieceProcessor

    own = SentencePieceProcessor(model_file=str(file))
    probes = list(_probes(own))
    same = sum(made.tokenize(probe) == own.encode(probe, out_type=str) for probe in probes)
    return 2 * same >= len(probes)


def require_same_cuts(made: Any, file: Path) -> None:
    """
    Raises:
        CheckpointError: it cuts them otherwise.
    """
    if not cuts_as(made, file):
        raise CheckpointError(f"transformers cuts texts otherwise than {file.name} does: give a tokenizer.json instead")


def _ends_number(piece: str) -> bool:
    return piece[-1:] == "," and piece[-2:-1].isdigit()


def _probes(own: Any) -> Iterator[str]:
    """Words of two of the model's own pieces each, which no family's lower case and accents change."""
    size = own.get_piece_size()
    plain = (number for number in range(size) if not own.is_control(number) and not own.is_unknown(number))
    names = (str(own.id_to_piece(number)).replace(SPACE, "") for number in plain)
    words = [name for name in names if name.isalnum() and name.isascii() and name.islower()][: 8 * MOST_PROBES]
    for first, second in list(pairwise(words))[::8][:MOST_PROBES]:
        yield f"{first[:LONGEST_PROBE]} {second[:LONGEST_PROBE]}"
