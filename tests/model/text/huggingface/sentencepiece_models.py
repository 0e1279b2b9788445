"""Small sentencepiece models, trained here."""

from __future__ import annotations

import io
from functools import cache

import sentencepiece

ENGLISH = ["I am a teacher.", "He is not a teacher.", "We are teachers and they teach.", "The cat sat on the mat."] * 5
CHINESE = ["我是老师。", "他不是老师。", "我们是老师。", "猫坐在垫子上。"] * 5
T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
LLAMA = {"model_type": "bpe", "byte_fallback": True, "vocab_size": 330}
LLAMA |= {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
BERT = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "control_symbols": "[CLS],[SEP],[MASK]"}
DEBERTA = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3}
DEBERTA |= {"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"}
ALBERT = BERT | {"user_defined_symbols": '(,),",-,.,–,£,€'}


@cache
def trained(*texts: str, **options) -> bytes:
    made = io.BytesIO()
    usual = {"vocab_size": 60, "hard_vocab_limit": False, "minloglevel": 2, "num_threads": 1}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=made, **(usual | options))
    return made.getvalue()


def processor(content: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=content)


def pieces(content: bytes) -> list[str]:
    made = processor(content)
    return [made.id_to_piece(number) for number in range(made.get_piece_size())]
