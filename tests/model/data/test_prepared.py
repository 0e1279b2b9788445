"""Datasets that are kept: the same material is prepared once, and none is taken for another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from model.data.pairs import Pair
from model.data.prepared import PreparedData
from model.data.sources import Data, TrainingData, material_of
from model.runtime.ledger import Ledger
from model.text.tokenizer_training import train_characters

PAIRS = tuple(Pair(f"number {number}", f"{number} rebmun") for number in range(60))
DATA = Data("mine", PAIRS)
BOTH = (train_characters([pair.source for pair in PAIRS]), train_characters([pair.target for pair in PAIRS]))
LENGTH, UNDONE = 32, 0.0


def ledger(limit: int = 1 << 30) -> Ledger:
    return Ledger(limit, lambda: 0, lambda: None)


def material(data: Data = DATA, tokenizers=BOTH) -> TrainingData:
    return material_of("encoder-decoder", data, "characters", 0, tokenizers)


@pytest.fixture
def prepared() -> PreparedData:
    return PreparedData(memory=ledger())


def test_equal_data_with_the_same_tokenizers_are_prepared_once(prepared):
    first = prepared.corpora(material(), LENGTH, UNDONE)
    again = prepared.corpora(material(Data("mine", tuple(Pair(*pair) for pair in PAIRS))), LENGTH, UNDONE)
    assert again[0] is first[0]
    assert again[1] is first[1]
    fresh = material().corpora(LENGTH, UNDONE)
    assert [each.digest() for each in first] == [each.digest() for each in fresh]


@pytest.mark.parametrize(
    "other",
    [
        lambda: (
            material(replace(DATA, pairs=(Pair("number 0", "changed"), *PAIRS[1:]))),
            LENGTH,
            UNDONE,
        ),  # its file was
        lambda: (material(replace(DATA, validation_percent=20)), LENGTH, UNDONE),
        lambda: (
            material(tokenizers=tuple(train_characters([pair.source for pair in PAIRS]) for _ in BOTH)),
            LENGTH,
            0.0,
        ),
        lambda: (material(tokenizers=BOTH[::-1]), LENGTH, UNDONE),
        lambda: (material(), LENGTH - 20, UNDONE),
        lambda: (material(), LENGTH, 0.5),
        lambda: (
            material_of("decoder-only", DATA, "characters", 0, (BOTH[0], BOTH[0])),
            LENGTH,
            UNDONE,
        ),
    ],
)
def test_another_text_split_tokenizer_length_or_kind_is_another_one(prepared, other: Callable[[], tuple]):
    first = prepared.corpora(material(), LENGTH, UNDONE)
    made = prepared.corpora(*other())
    assert made[0] is not first[0]
    assert [each.digest() for each in made] == [each.digest() for each in other()[0].corpora(*other()[1:])]
    assert prepared.corpora(material(), LENGTH, UNDONE)[0] is first[0]


def test_what_was_used_longest_ago_goes_where_there_is_no_room_and_the_ledger_counts_the_rest():
    memory = ledger()
    sizes = PreparedData(memory=ledger())
    sizes.corpora(material(), LENGTH, UNDONE)
    prepared = PreparedData(budget=5 * sizes.size // 2, memory=memory)
    ones = [material(replace(DATA, name=name)) for name in ("a", "b", "c")]
    a, b = (prepared.corpora(each, LENGTH, UNDONE) for each in ones[:2])
    assert prepared.corpora(ones[0], LENGTH, UNDONE)[0] is a[0]  # now b is the oldest
    prepared.corpora(ones[2], LENGTH, UNDONE)
    assert len(prepared) == 2
    assert sum(each.size for each in memory.promises) == prepared.size <= prepared.budget
    assert prepared.corpora(ones[0], LENGTH, UNDONE)[0] is a[0]
    assert prepared.corpora(ones[1], LENGTH, UNDONE)[0] is not b[0]


@pytest.mark.parametrize(("budget", "limit"), [(100, 1 << 30), (1 << 30, 100)])
def test_what_is_too_large_or_was_promised_to_others_is_made_and_not_kept(budget, limit):
    memory = ledger(limit)
    prepared = PreparedData(budget, memory)
    assert len(prepared.corpora(material(), LENGTH, UNDONE)[0]) > 10
    assert (len(prepared), memory.promises) == (0, ())


def test_of_unknown_origin_nothing_is_kept_and_what_fails_is_tried_again(prepared):
    unknown = material()
    unknown.data = None
    prepared.corpora(unknown, LENGTH, UNDONE)
    assert len(prepared) == 0
    short = material_of("decoder-only", DATA, "characters", 0, (BOTH[0], BOTH[0]))
    for _ in range(2):
        with pytest.raises(ValueError, match="no question with its answer fits max_length"):
            prepared.corpora(short, 3, UNDONE)
    assert len(prepared) == 0


def test_who_asks_while_it_is_prepared_waits_for_the_first(prepared, monkeypatch):
    begun, finish, made = threading.Event(), threading.Event(), []
    learned = material()
    corpora_of = learned.corpora

    def corpora(*asked):
        begun.set()
        assert finish.wait(60)
        made.append(asked)
        return corpora_of(*asked)

    monkeypatch.setattr(learned, "corpora", corpora)
    found: list = []
    threads = [
        threading.Thread(target=lambda: found.append(prepared.corpora(learned, LENGTH, UNDONE))) for _ in range(2)
    ]
    threads[0].start()
    assert begun.wait(60)
    threads[1].start()
    finish.set()
    for thread in threads:
        thread.join(60)
    assert len(made) == 1
    assert found[0][0] is found[1][0]
