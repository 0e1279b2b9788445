"""Sentence pairs, their split, and batches of similar length."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from itertools import product
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Int
from torch import Tensor

from model.text.tokenizer import Tokenizer

Split = Literal["train", "validation", "test"]
VALIDATION_PERCENT = 1  # of the sentences, by default


class Pair(NamedTuple):
    """A sentence and one of its translations."""

    source: str
    target: str


class Example(NamedTuple):
    """A pair as ids: source … </s>, and <s> target … </s>."""

    source: list[int]
    target: list[int]


def split_of(source: str, validation_percent: int = VALIDATION_PERCENT) -> Split:
    """Split of a source sentence with all its translations: 2 % test, `validation_percent` % validation, else train."""
    bucket = int(hashlib.sha1(source.encode()).hexdigest(), 16) % 100
    if bucket < 2:
        return "test"
    return "validation" if bucket < 2 + validation_percent else "train"


def in_split(pairs: Sequence[Pair], split: Split, validation_percent: int = VALIDATION_PERCENT) -> list[Pair]:
    """Pairs of one split."""
    return [pair for pair in pairs if split_of(pair.source, validation_percent) == split]


def parts_of(
    pairs: Sequence[Pair], validation_percent: int = VALIDATION_PERCENT, others: Sequence[Pair] | None = None
) -> dict[Split, list[Pair]]:
    """Pairs of each split. others: pairs for validation; then all of `pairs` are for training, none for the test."""
    if others is not None:
        return {"train": list(pairs), "validation": list(others), "test": []}
    return {split: in_split(pairs, split, validation_percent) for split in get_args(Split)}


def encode_pairs(
    pairs: Sequence[Pair], source: Tokenizer, target: Tokenizer, max_length: int
) -> tuple[list[Example], int]:
    """Ids of pairs, each side cut so that it fits `max_length` with its special tokens; and how many pairs were cut."""
    (before, after), (start, _), end = source.margins("source"), target.margins("target"), target.need("end")
    source_room, target_room = max_length - len(before) - len(after), max_length - len(start)
    examples, cut = [], 0
    for pair in pairs:
        read, written = source.encode(pair.source).ids, target.encode(pair.target).ids
        examples.append(Example([*before, *read[:source_room], *after], [*start, *written[:target_room], end]))
        cut += len(read) > source_room or len(written) > target_room
    return examples, cut


def batch_order(examples: Sequence[Example], tokens: int, shuffle: random.Random | None) -> list[list[int]]:
    """Indices of all examples, each once, in batches of similar length with at most `tokens` tokens on each side.

    A shuffled order depends on the state of the generator alone.
    """

    def key(index: int) -> tuple[float, float]:
        jitter = shuffle.random() if shuffle else 0.0
        return (len(examples[index].target) + 2 * jitter) // 2, len(examples[index].source) + jitter

    order = list(range(len(examples)))
    if not order:
        return []
    if shuffle:
        shuffle.shuffle(order)
    order.sort(key=key)
    batches: list[list[int]] = [[]]
    longest = 0
    for index in order:
        longest = max(longest, len(examples[index].target), len(examples[index].source))
        if batches[-1] and longest * (len(batches[-1]) + 1) > tokens:
            batches.append([])
            longest = max(len(examples[index].target), len(examples[index].source))
        batches[-1].append(index)
    if shuffle:
        shuffle.shuffle(batches)
    return batches


def drop_merges(
    ids: Sequence[int], parents: dict[int, tuple[int, int]], probability: float, generator: random.Random
) -> list[int]:
    """Ids with merges undone at random, so that the model sees each word cut in several ways.

    Subword regularisation as in BPE-dropout (Provilkov et al., 2020), but from the merged token downwards. parents: the
    two parts of each merged token. probability: of undoing a merge.
    """
    cut: list[int] = []
    stack = list(reversed(ids))
    while stack:
        token = stack.pop()
        if token in parents and generator.random() < probability:
            left, right = parents[token]
            stack += (right, left)
        else:
            cut.append(token)
    return cut


def pad(rows: Sequence[list[int]], padding: int) -> Int[Tensor, "batch length"]:
    """Tensor of rows on the CPU, padded to the longest of them."""
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [padding] * (longest - len(row)) for row in rows], dtype=torch.long)


# Simple English sentences with their Chinese translations, composed by rule.

SUBJECTS = {
    "I": "我", "You": "你", "We": "我们", "They": "他们", "My mother": "我妈妈", "His friend": "他的朋友",
    "The teacher": "老师", "The old man": "那个老人", "Her brother": "她的弟弟", "The children": "孩子们",
}  # fmt: skip
VERBS = {
    "bought": "买了", "saw": "看见了", "found": "找到了", "lost": "丢了", "wanted": "想要",
    "drew": "画了", "sold": "卖了", "forgot": "忘了",
}  # fmt: skip
OBJECTS = {
    "a book": "一本书", "a red car": "一辆红色的车", "two cats": "两只猫", "a new house": "一座新房子",
    "some water": "一些水", "an apple": "一个苹果", "three chairs": "三把椅子", "a small dog": "一只小狗",
    "the letter": "那封信", "a black hat": "一顶黑帽子",
}  # fmt: skip
TIMES = {"": "", " yesterday": "昨天", " this morning": "今天早上", " last week": "上个星期"}


def phrases() -> list[Pair]:
    """All combinations of subject, verb, object and time; in Chinese the time stands after the subject."""
    return [
        Pair(f"{subject} {verb} {thing}{time}.", f"{SUBJECTS[subject]}{TIMES[time]}{VERBS[verb]}{OBJECTS[thing]}。")
        for subject, verb, thing, time in product(SUBJECTS, VERBS, OBJECTS, TIMES)
    ]
