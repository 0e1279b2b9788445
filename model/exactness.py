"""Whether the share of exactly right answers can be counted from what is predicted token by token."""

from __future__ import annotations

from model.data.datasets import IGNORED, Corpus, unshuffled
from model.data.sources import Answers, Material, Translations

TOKENS = 4000  # of a batch that is looked at


def counts_exactly(material: Material, validation: Corpus) -> bool:
    """Whether a rule says what is right, and all right answers of the validation split are asked for as a whole.

    Then greedy decoding writes an answer to the character just where each of its tokens is the most probable one. With
    letters that the tokenizer lacks, and where an answer is too long for the model, it does not.
    """
    if not isinstance(material, Translations | Answers) or not material.task:
        return False
    tokenizer = material.tokenizers[1]
    rows = (row for batch in unshuffled(validation, TOKENS) for row in batch.labels.tolist())
    asked = sorted(tokenizer.decode([token for token in row if token != IGNORED]) for row in rows)
    return bool(asked) and asked == sorted(pair.target for pair in material.pairs["validation"])
