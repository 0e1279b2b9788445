"""Tokenizers: text to ids and back, whatever is typed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.text.tokenizer import LONGEST_WORD, SPECIAL, Tokenizer
from model.text.tokenizer_training import (
    cut_words,
    train_bpe,
    train_characters,
    train_text_bpe,
    train_text_words,
    train_words,
)
from tests.model.examples import sentences

PAIRS = sentences(300)
ENGLISH = train_bpe([pair.source for pair in PAIRS], 100)
CHINESE = train_characters([pair.target for pair in PAIRS])
BOTH = pytest.mark.parametrize("tokenizer", [ENGLISH, CHINESE], ids=["bpe", "characters"])


def reread(tokenizer: Tokenizer, folder) -> Tokenizer:
    (folder / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
    return Tokenizer.read(folder / "tokenizer.json")


def test_what_was_trained_on_comes_back():
    for pair in PAIRS:
        assert ENGLISH.decode(ENGLISH.encode(pair.source).ids) == pair.source
        assert CHINESE.decode(CHINESE.encode(pair.target).ids) == pair.target


@settings(max_examples=60)
@given(st.lists(st.sampled_from(sorted(set("".join(pair.source for pair in PAIRS)) - {" "})), min_size=1))
def test_any_text_of_known_characters_comes_back(characters):
    """Not only known words: the merges never lose or add a character. Words of one to three characters."""
    text = " ".join("".join(characters[i : i + 3]) for i in range(0, len(characters), 3))
    tokens = ENGLISH.encode(text)
    assert ENGLISH.decode(tokens.ids) == text
    assert "".join(tokens.labels).replace("▁", " ").strip() == text


def test_a_character_tokenizer_has_a_token_per_character():
    tokens = CHINESE.encode(PAIRS[0].target)
    assert tokens.labels == list(PAIRS[0].target)
    assert len(CHINESE) == len(SPECIAL) + len(set("".join(pair.target for pair in PAIRS)))


def test_bpe_merges_frequent_words_within_its_size():
    assert len(ENGLISH) == 100
    assert ENGLISH.encode("The teacher sees the dog.").labels[:2] == ["▁The", "▁teacher"]
    assert len(ENGLISH.encode("teacher")) < len("teacher")


@BOTH
def test_space_is_one_space(tokenizer):
    for text in ("  The dog ", "The \t\n\u00a0 dog", "The dog\u3000"):
        assert tokenizer.encode(text).ids == tokenizer.encode("The dog").ids


@BOTH
@pytest.mark.parametrize("text", ["字", "😀", "👩‍👩‍👧", "שלום", "\x00", "\U0010ffff", "</script>"])
def test_unknown_characters_become_the_unknown_token(tokenizer, text):
    known = "The" if tokenizer is ENGLISH else PAIRS[0].target
    tokens = tokenizer.encode(known + text + known)
    assert tokenizer.unknown in tokens.ids
    assert tokens.labels[tokens.ids.index(tokenizer.unknown)] == "<unk>"
    assert tokenizer.decode(tokens.ids).startswith(known)


def test_each_unknown_character_is_a_token():
    assert CHINESE.encode("字字字").ids == [CHINESE.unknown] * 3
    assert ENGLISH.encode("字字").ids.count(ENGLISH.unknown) == 2


@BOTH
@settings(max_examples=150)
@given(st.text(st.characters(exclude_categories=[]), max_size=20))  # with lone surrogates
def test_no_text_is_an_exception(tokenizer, text):
    tokens = tokenizer.encode(text)
    assert len(tokens.ids) == len(tokens.labels)
    assert all(0 <= token < len(tokenizer) for token in tokens.ids)
    assert not {tokenizer.padding, tokenizer.start, tokenizer.end} & set(tokens.ids)
    tokenizer.decode(tokens.ids).encode("utf-8")


@BOTH
def test_lone_surrogates_are_read_as_a_question_mark(tokenizer):
    assert tokenizer.encode("The \ud83d dog").ids == tokenizer.encode("The ? dog").ids


@BOTH
@pytest.mark.parametrize("name", SPECIAL)
def test_a_special_token_typed_as_text_is_plain_text(tokenizer, name, tmp_path):
    special = {tokenizer.padding, tokenizer.start, tokenizer.end}
    for each in (tokenizer, reread(tokenizer, tmp_path)):
        tokens = each.encode(f"The {name} dog")
        assert not special & set(tokens.ids)
        assert name not in tokens.labels or name == "<unk>"
        assert len(tokens) > len(each.encode("The dog"))


@BOTH
def test_special_tokens_leave_no_trace_in_text(tokenizer):
    ids = tokenizer.encode(PAIRS[0].target if tokenizer is CHINESE else "The dog.").ids
    around = [tokenizer.start, *ids, tokenizer.end, tokenizer.padding]
    assert tokenizer.decode(around) == tokenizer.decode(ids) != ""
    assert [tokenizer.label(token) for token in range(4)] == SPECIAL


@BOTH
def test_reading_what_was_written_gives_the_same_tokenizer(tokenizer, tmp_path):
    again = reread(tokenizer, tmp_path)
    assert again.to_json() == tokenizer.to_json()
    for pair in PAIRS[:20]:
        for text in pair:
            assert again.encode(text) == tokenizer.encode(text)


def test_training_twice_gives_the_same_tokenizer():
    texts = [pair.source for pair in PAIRS]
    assert train_bpe(texts, 100).to_json() == ENGLISH.to_json()


@pytest.mark.parametrize("train", [train_bpe, train_text_bpe])
def test_a_word_of_very_many_characters_is_learned_from_in_pieces(train):
    """Whole, a word of 5 MB takes hours."""
    tokenizer = train(["x" * 20_000, "and others"], 60)
    assert 100 < max(len(tokenizer.label(token)) for token in range(len(tokenizer))) <= 1 + LONGEST_WORD
    texts = ["words of  usual length\n", "我" * LONGEST_WORD, "a" + "b" * LONGEST_WORD + " c"]
    assert [*cut_words(texts)] == [*texts[:2], "a" + "b" * (LONGEST_WORD - 1) + " b c"]


def test_parents_are_the_two_parts_of_a_merged_token():
    parents = ENGLISH.parents()
    merged = {token for token in range(len(SPECIAL), len(ENGLISH)) if len(ENGLISH.label(token)) > 1}
    assert set(parents) == merged
    for token, (left, right) in parents.items():
        assert ENGLISH.label(left) + ENGLISH.label(right) == ENGLISH.label(token)
    assert CHINESE.parents() == {}


def test_a_tokenizer_of_words_has_a_token_for_each_frequent_word():
    texts = ["I am a teacher.", "I am not a teacher, am I?", "a cat"]
    words = train_words(texts, 60, mask=True)
    tokens = words.encode("I am a teacher.")
    assert tokens.labels == ["▁I", "▁am", "▁a", "▁teacher", "."]
    assert words.decode(tokens.ids) == "I am a teacher."
    assert words.encode("I am a zebra.").labels == ["▁I", "▁am", "▁a", "<unk>", "."]
    assert words.encode("I am a <mask>.", masks=True).labels[-2:] == ["<mask>", "."]
    assert words.parents() == {}
    assert words.words
    few = train_words(texts, 8)
    assert len(few) == 8
    assert few.encode("I am a cat").labels[:3] == ["▁I", "▁am", "▁a"]
    text = "I am,  a\nteacher am a"
    running = train_text_words([text], 60)
    assert running.decode(running.encode(text).ids) == text
    assert "▁am" in running.encode(text).labels


def test_cut_says_how_much_it_left_out():
    tokens = CHINESE.encode(PAIRS[0].target)
    whole, short = tokens.cut(len(tokens)), tokens.cut(2)
    assert (whole, whole.left_out) == (tokens, 0)
    assert (short.ids, short.labels, short.left_out) == (tokens.ids[:2], tokens.labels[:2], len(tokens) - 2)
    around = short.between(CHINESE.tokens([CHINESE.start]), CHINESE.tokens([CHINESE.end]))
    assert around.labels == ["<s>", *short.labels, "</s>"]
    assert around.ids == [CHINESE.start, *short.ids, CHINESE.end]
    assert around.left_out == short.left_out


@pytest.mark.parametrize("content", [None, "", "{}", "\x00", '{"model": {"type": "BPE", "vocab": {}, "merges": []}}'])
def test_a_file_that_is_no_tokenizer_is_refused(content, tmp_path):
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ValueError, match=r"tokenizer\.json cannot be read as a tokenizer"):
        Tokenizer.read(tmp_path / "tokenizer.json")
