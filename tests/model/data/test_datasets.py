"""What is learned from, batch by batch, against the texts read by hand."""

import itertools
import random
from collections import Counter

import pytest
import torch

from model.data.datasets import IGNORED, AnswerDataset, MaskedDataset, PairDataset, TextDataset, digest_of, unshuffled
from model.data.pairs import Pair
from model.data.sources import prepare
from model.text.tokenizer_training import train_bpe, train_characters, train_text_characters
from tests.model.examples import sentences, tokenizers

PAIRS = sentences(60)
BOTH = tokenizers(PAIRS)
MASKED = train_bpe([pair.source for pair in PAIRS], 90, mask=True)
TEXT = "".join(f"{pair.source}\n" for pair in PAIRS)
LETTERS = train_text_characters([TEXT])


def test_pairs_are_padded_at_the_end_and_padding_is_not_asked_for():
    corpus = PairDataset([PAIRS[0], PAIRS[1], Pair("The cat.", "猫。")], BOTH, 32)
    batch = corpus.batch([0, 2], None)
    source, read, source_real, read_real = batch.inputs
    for row, (given, target) in enumerate((corpus.examples[0], corpus.examples[2])):
        assert source[row, : len(given)].tolist() == given
        assert read[row, : len(target) - 1].tolist() == target[:-1]  # what is predicted from </s> is not asked
        assert batch.labels[row, : len(target) - 1].tolist() == target[1:]
        assert (batch.labels[row, len(target) - 1 :] == IGNORED).all()
        assert source_real[row].sum() == len(given)
        assert read_real[row].sum() in (len(target) - 1, len(target))  # the shorter one's </s> is read too
    assert batch.tokens == source.numel() + read.numel()
    assert batch.predicted == sum(len(corpus.examples[index].target) - 1 for index in (0, 2))


def test_only_what_is_cut_off_or_left_out_is_counted_as_long():
    """Of texts of so many characters: a source has </s>, a target <s>, a masked text both, a question all of them."""
    pairs = [Pair("a" * count, "b" * other) for count, other in ((5, 4), (6, 4), (4, 6), (5, 5), (9, 9))]
    letters = train_characters(["ab="]), train_characters(["ab="])
    assert [PairDataset([pair], letters, 6).long for pair in pairs] == [0, 1, 1, 0, 1]
    masked = train_characters(["ab"], mask=True)
    texts = [["a" * count] for count in (3, 4, 5)]
    assert [MaskedDataset(text, masked, 6).long for text in texts] == [0, 0, 1]
    assert AnswerDataset(pairs, letters[0], 11, "=").long == 4  # <s> source = target fits in the first alone


def test_undone_merges_never_outgrow_the_positions():
    """Sources already as long as the positions reach, each merge undone."""
    corpus = PairDataset(PAIRS, BOTH, 6, bpe_dropout=1.0)
    assert any(len(example.source) == 6 for example in corpus.examples)
    end = BOTH[0].end
    source = corpus.batch(range(10), random.Random(0)).inputs[0]
    assert source.shape[1] == 6
    assert all([token for token in row if token != BOTH[0].padding][-1] == end for row in source.tolist())
    assert corpus.batch([0], None).inputs[0][0].tolist() == corpus.examples[0].source  # validation: none undone


def test_a_text_is_predicted_once_whole_in_order():
    corpus = TextDataset(TEXT, LETTERS, 16)
    batches = list(unshuffled(corpus, 64))
    assert all(batch.inputs[0].shape[1] <= 16 for batch in batches)
    labels = [token for batch in batches for row in batch.labels.tolist() for token in row if token != IGNORED]
    assert LETTERS.decode(labels) == TEXT
    for batch in batches:
        ids = batch.inputs[0]
        assert (ids[:, 0] == LETTERS.start).all()
        shown = batch.labels[:, :-1] != IGNORED
        assert torch.equal(ids[:, 1:][shown], batch.labels[:, :-1][shown])
    assert {batch.whole for batch in batches} == {True, False}
    assert all(batch.whole == bool((batch.labels != IGNORED).all()) for batch in batches)


@pytest.mark.parametrize("length", [5, 16, 64])
@pytest.mark.parametrize("seed", range(6))
def test_each_epoch_cuts_a_text_elsewhere_and_predicts_it_once(seed, length):
    corpus = TextDataset(TEXT[:40], LETTERS, length)
    begins = sorted(itertools.chain.from_iterable(corpus.order(64, random.Random(seed))))
    labels = corpus.batch(begins, None).labels.tolist()
    assert LETTERS.decode([token for row in labels for token in row if token != IGNORED]) == TEXT[:40]


def test_different_epochs_cut_a_text_in_different_places():
    corpus = TextDataset(TEXT, LETTERS, 16)
    begins = [sorted(itertools.chain.from_iterable(corpus.order(64, random.Random(seed)))) for seed in (1, 2)]
    assert begins[0] != begins[1]
    with pytest.raises(ValueError, match="the text is empty"):
        TextDataset("", LETTERS, 16)


def test_a_model_that_could_read_a_book_learns_from_windows():
    assert TextDataset(TEXT, LETTERS, 1 << 17).length == 4096


def test_answers_that_do_not_fit_are_left_out():
    pairs = [Pair("The cat", "sees"), Pair("The doctor likes the garden", "the train and the teacher")]
    row = BOTH[0].encode("The cat.").ids + BOTH[0].encode("sees").ids
    corpus = AnswerDataset(pairs, BOTH[0], len(row) + 1, ".")
    assert len(corpus) == len(corpus.answers) == 1
    with pytest.raises(ValueError, match=rf"fits max_length \({len(row)}\): the shortest needs {len(row) + 1}"):
        AnswerDataset(pairs, BOTH[0], len(row), ".")


def test_answers_are_asked_for_and_questions_are_not():
    pairs = [Pair("The cat", "sees"), Pair("The doctor likes", "the train")]
    corpus = AnswerDataset(pairs, BOTH[0], 32, ".")
    batch = corpus.batch([0, 1], None)
    for row, (source, target) in enumerate(pairs):
        asked = batch.labels[row][batch.labels[row] != IGNORED].tolist()
        assert asked == [*BOTH[0].encode(target).ids, BOTH[0].end]
        read = [token for token in batch.inputs[0][row].tolist() if token != BOTH[0].padding]
        whole = [BOTH[0].start, *BOTH[0].encode(source + ".").ids, *asked]
        assert read in (whole, whole[:-1])  # what is longer in a batch sees its own end
    assert corpus.batch([0], None).inputs[1] is None


def test_hidden_tokens_are_asked_for_in_berts_shares():
    corpus = MaskedDataset([pair.source for pair in PAIRS], MASKED, 32, rate=0.3)
    kinds, asked = Counter(), 0
    for seed in range(60):
        for indices in corpus.order(300, None):
            batch = corpus.batch(indices, random.Random(seed))
            for row, index in enumerate(indices):
                for place, token in enumerate(corpus.rows[index]):
                    label, shown = int(batch.labels[row, place]), int(batch.inputs[0][row, place])
                    if label == IGNORED:
                        assert shown == token
                        continue
                    assert label == token
                    assert 0 < place < len(corpus.rows[index]) - 1
                    asked += 1
                    kinds["mask" if shown == MASKED.mask else "same" if shown == token else "other"] += 1
    inner = 60 * sum(len(row) - 2 for row in corpus.rows)
    assert asked / inner == pytest.approx(0.3, abs=0.05)
    assert kinds["mask"] / asked == pytest.approx(0.8, abs=0.02)
    assert kinds["other"] / asked == pytest.approx(0.1, abs=0.02)


def test_validation_hides_the_same_tokens_each_time():
    corpus = MaskedDataset([pair.source for pair in PAIRS], MASKED, 32)
    first, again = ([batch.inputs[0] for batch in unshuffled(corpus, 300)] for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    drawn = [corpus.batch(indices, random.Random(0)).inputs[0] for indices in corpus.order(300, None)]
    assert not all(torch.equal(one, other) for one, other in zip(first, drawn, strict=True))
    assert corpus.batch([0], random.Random(1)).predicted >= 1


def test_another_digest_for_every_other_corpus():
    sources = [pair.source for pair in PAIRS]
    swapped = [PAIRS[1], PAIRS[0], *PAIRS[2:]]
    made = [
        *(PairDataset(pairs, BOTH, 32) for pairs in (PAIRS, swapped, PAIRS[:-1], [])),
        *(AnswerDataset(pairs, BOTH[0], 32, "=") for pairs in (PAIRS, swapped)),
        *(MaskedDataset(texts, MASKED, 32) for texts in (sources, sources[1:])),
        *(TextDataset(text, LETTERS, 16) for text in (TEXT, TEXT + "\n")),
    ]
    assert len({corpus.digest() for corpus in made}) == len(made)
    assert PairDataset(PAIRS, BOTH, 32).digest() == made[0].digest()
    assert len({digest_of(rows) for rows in ([[1, 2], [3]], [[1], [2, 3]], [[1, 2, 3]], [[1, 2, 3], []])}) == 4


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only", "encoder-only"])
def test_a_model_that_is_trained_on_keeps_its_tokenizers(kind):
    first = prepare(kind, "task:copy:200", "characters", 0)
    again = prepare(kind, "task:sort:200", "characters", 0, first.tokenizers)
    assert again.tokenizers == first.tokenizers
    assert len(again.corpora(32, 0.0)[0]) > 150
    if kind == "encoder-only":
        without = prepare("decoder-only", "task:copy:200", "characters", 0).tokenizers
        with pytest.raises(ValueError, match="the tokenizer has no <mask> token: choose a model that was trained to"):
            prepare(kind, "task:sort:200", "characters", 0, without)
