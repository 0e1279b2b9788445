"""The split of pairs, batches, and merges undone."""

import hashlib
import itertools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.data.pairs import Example, Pair, batch_order, drop_merges, encode_pairs, in_split, split_of
from tests.model.examples import sentences, tokenizers

PAIRS = sentences(400)
ENGLISH, CHINESE = tokenizers(PAIRS)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_split_is_the_rule_of_the_data_readme(english):
    share = int(hashlib.sha1(english.encode("utf-8")).hexdigest(), 16) % 100
    assert split_of(english) == {0: "test", 1: "test", 2: "validation"}.get(share, "train")


@pytest.mark.parametrize(("number", "split"), [(42, "test"), (28, "test"), (159, "validation"), (30, "train")])
def test_sentences_whose_split_was_found_with_sha1sum_and_bc(number, split):
    """Their digests are 0, 1, 2 and 3 modulo 100."""
    assert split_of(f"Sentence {number}.") == split


def test_no_english_sentence_is_in_two_splits():
    pairs = [Pair(source, f"{target}{number}") for source, target in PAIRS for number in range(3)]
    random.Random(1).shuffle(pairs)
    parts = [in_split(pairs, split) for split in ("train", "validation", "test")]
    assert all(parts)
    assert Counter(pair for part in parts for pair in part) == Counter(pairs)
    sources = [{pair.source for pair in part} for part in parts]
    assert sum(map(len, sources)) == len(set.union(*sources)) == len(PAIRS)


@given(st.integers(1, 6))
def test_encoded_pairs_fit_the_positions(max_length):
    examples, _cut = encode_pairs(PAIRS[:5], ENGLISH, CHINESE, max_length)
    for (source, target), example in zip(PAIRS[:5], examples, strict=True):
        assert example.source == [*ENGLISH.encode(source).ids[: max_length - 1], ENGLISH.end]
        assert example.target[0] == CHINESE.start
        assert example.target[-1] == CHINESE.end
        assert example.target[1:-1] == CHINESE.encode(target).ids[: max_length - 1]
        assert len(example.source) <= max_length
        assert len(example.target[:-1]) <= max_length  # what the decoder gets


lengths = st.lists(st.tuples(st.integers(1, 30), st.integers(2, 30)), min_size=1, max_size=60)


@given(lengths, st.integers(1, 200), st.none() | st.integers(0, 99))
def test_batches_hold_each_example_once_within_the_budget(sizes, tokens, seed):
    examples = [Example([4] * source, [4] * target) for source, target in sizes]
    order = batch_order(examples, tokens, None if seed is None else random.Random(seed))
    assert sorted(index for batch in order for index in batch) == list(range(len(examples)))
    for batch in order:
        longest = max(max(sizes[index]) for index in batch)
        assert longest * len(batch) <= tokens or len(batch) == 1


@given(lengths, st.integers(1, 200))
def test_batches_are_as_full_as_their_order_allows(sizes, tokens):
    order = batch_order([Example([4] * source, [4] * target) for source, target in sizes], tokens, None)
    for batch, after in itertools.pairwise(order):
        joined = [*batch, after[0]]
        assert max(max(sizes[index]) for index in joined) * len(joined) > tokens


def test_the_order_follows_the_seed_and_batches_are_of_similar_length():
    examples, _cut = encode_pairs(PAIRS, ENGLISH, CHINESE, 32)
    first, again, other = (batch_order(examples, 120, random.Random(seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert sorted(map(sorted, first)) != sorted(map(sorted, other))  # other batches, not only their order
    for batch in first:
        sizes = [len(examples[index].target) for index in batch]
        assert max(sizes) - min(sizes) <= 2


def test_undone_merges_spell_the_same_text():
    parents = ENGLISH.parents()
    generator = random.Random(0)
    whole = [ENGLISH.encode(pair.source).ids for pair in PAIRS[:100]]
    cut = [drop_merges(ids, parents, 0.3, generator) for ids in whole]
    for before, after in zip(whole, cut, strict=True):
        assert ENGLISH.decode(after) == ENGLISH.decode(before)
        assert "".join(map(ENGLISH.label, after)) == "".join(map(ENGLISH.label, before))
    assert whole != cut
    merged = sum(token in parents for ids in whole for token in ids)
    untouched = sum(before == after for before, after in zip(whole, cut, strict=True))
    assert 0 < untouched < 100
    assert sum(map(len, cut)) - sum(map(len, whole)) > 0.2 * merged


@given(st.lists(st.integers(0, 89), max_size=30))
def test_no_merge_or_every_merge_undone(ids):
    parents = ENGLISH.parents()
    assert drop_merges(ids, parents, 0.0, random.Random(0)) == ids
    letters = drop_merges(ids, parents, 1.0, random.Random(0))
    assert not set(letters) & set(parents)
    assert drop_merges(letters, parents, 1.0, random.Random(0)) == letters
